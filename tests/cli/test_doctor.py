"""The doctor names each fault and what to do about it."""

import json

from services.cli import run


def verdicts(capsys) -> dict[str, dict[str, str]]:
    """The checks by name."""
    return {row["check"]: row for row in json.loads(capsys.readouterr().out)["items"]}


def test_a_new_installation_has_no_failure(monkeypatch, capsys, unused_port: int, model_server):
    """Before the first start everything is ready or is something that `up` will do."""
    monkeypatch.setenv("METALANCHOR_PORT", str(unused_port))
    monkeypatch.setenv("METALANCHOR_BACKEND_URL", model_server("ollama").url)
    assert run(["doctor", "--json"]) == 0
    found = verdicts(capsys)
    assert {row["result"] for row in found.values()} == {"ok", "warn"}
    assert found["backend"]["result"] == "ok"
    assert found["job"]["about"] == "one empty batch handled, 0 rows stored"
    assert found["proxy"]["advice"] == "metalanchor up"


def test_a_new_data_folder_is_the_users_own(monkeypatch, capsys, unused_port: int, tmp_path):
    """The names of models, agents and sessions in it are nobody else's business."""
    monkeypatch.setenv("METALANCHOR_PORT", str(unused_port))
    monkeypatch.setenv("METALANCHOR_DATA_DIR", str(tmp_path / "new"))
    run(["doctor", "--json"])
    assert verdicts(capsys)["data folder"]["result"] == "ok"
    assert (tmp_path / "new").stat().st_mode & 0o777 == 0o700


def test_what_does_not_answer_is_a_failure(monkeypatch, capsys, unused_port: int, tmp_path):
    """Exit code 1, and a next step for each: backend, Redis, database, data folder."""
    (tmp_path / "file").touch()
    monkeypatch.setenv("METALANCHOR_PORT", str(unused_port))
    monkeypatch.setenv("METALANCHOR_BACKEND_URL", "http://127.0.0.1:1")
    monkeypatch.setenv("METALANCHOR_REDIS_URL", f"redis://127.0.0.1:{unused_port}")
    monkeypatch.setenv("METALANCHOR_DATABASE_URL", "oracle://nowhere")
    monkeypatch.setenv("METALANCHOR_DATA_DIR", str(tmp_path / "file"))
    assert run(["doctor", "--json"]) == 1
    found = verdicts(capsys)
    failed = {name for name, row in found.items() if row["result"] == "fail"}
    assert failed >= {"backend", "redis", "database", "data folder"}
    assert all(found[name]["advice"] for name in failed)


def test_an_old_schema_is_told(recorded, capsys, model_server, monkeypatch):
    """A history of another revision needs `migrate`."""
    monkeypatch.setenv("METALANCHOR_BACKEND_URL", model_server("vllm").url)
    assert run(["migrate", "--down", "base", "--yes"]) == 0
    capsys.readouterr()
    assert run(["doctor", "--json"]) == 1
    assert verdicts(capsys)["database"]["advice"] == "metalanchor migrate"

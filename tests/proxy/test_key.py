"""The installation key: made once, whole, private; and what is hashed with it."""

import stat
import threading
from pathlib import Path

import platformdirs
import pytest

from services.proxy.key import fingerprint, keyed, load_key
from services.settings import Settings, SettingsError


def test_it_is_made_once_in_the_configuration_folder_and_read_from_then_on():
    key = load_key(Settings())
    assert len(key) == 32
    assert load_key(Settings()) == key
    path = Path(platformdirs.user_config_dir("metalanchor", appauthor=False)) / "install.key"
    assert path.exists()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert [p.name for p in path.parent.iterdir()] == ["install.key"]


def test_a_configured_file_is_made_and_used(tmp_path):
    path = tmp_path / "deep" / "key"
    key = load_key(Settings(key_file=str(path)))
    assert bytes.fromhex(path.read_text()) == key


def test_the_data_folder_stands_in_where_the_configuration_folder_cannot_be_used(tmp_path, monkeypatch):
    blocked = tmp_path / "file"
    blocked.write_text("")
    monkeypatch.setattr(platformdirs, "user_config_dir", lambda *_, **__: str(blocked / "below"))
    load_key(Settings(data_dir=str(tmp_path / "data")))
    assert (tmp_path / "data" / "install.key").exists()


@pytest.mark.parametrize("content", ["", "abc", "zz" * 32, "ab" * 31, "é"])
def test_a_malformed_file_is_an_error_that_names_it_and_is_left_alone(tmp_path, content):
    path = tmp_path / "key"
    path.write_text(content, "utf-8")
    with pytest.raises(SettingsError, match="key"):
        load_key(Settings(key_file=str(path)))
    assert path.read_text("utf-8") == content


def test_processes_that_start_together_get_the_same_key(tmp_path):
    found, barrier = [], threading.Barrier(8)

    def start():
        barrier.wait()
        found.append(load_key(Settings(key_file=str(tmp_path / "key"))))

    threads = [threading.Thread(target=start) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(found)) == 1


def test_a_digest_depends_on_the_key_its_use_and_where_parts_end():
    key, other = bytes(32), bytes([1]) * 32
    digests = {
        keyed(key, "scope", "ab", "c"), keyed(key, "scope", "a", "bc"), keyed(key, "value", "ab", "c"),
        keyed(other, "scope", "ab", "c"), keyed(key, "scope", "abc"),
    }  # fmt: skip
    assert len(digests) == 5
    assert fingerprint(key) != fingerprint(other)

"""Settings: environment over file over defaults; what is not understood is an error that names it."""

from pathlib import Path

import pytest

from services.settings import HELP, Settings, SettingsError, explain, is_loopback, load


def test_defaults_need_nothing():
    """Without environment and file, every setting has its default."""
    assert load({}) == Settings()


def test_every_setting_is_explained():
    """Each setting has a sentence for `status --config` and the docs."""
    assert set(HELP) == set(Settings.__struct_fields__)


def test_environment_wins_over_file(tmp_path: Path):
    """The environment comes before the file, the file before the default; each value says which."""
    file = tmp_path / "metalanchor.toml"
    file.write_text('port = 9000\nkeep_text = false\n[[backend]]\nname = "a"\nurl = "http://a:1"\n')

    settings, rows = explain({"METALANCHOR_PORT": "9001"}, file)
    sources = {row.name: row.source for row in rows}

    assert (settings.port, settings.keep_text, settings.backend[0].name) == (9001, False, "a")
    assert (sources["port"], sources["keep_text"], sources["host"]) == ("environment", str(file), "default")


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("PORT", "80a"),
        ("PORT", "70000"),
        ("PORT", ""),
        ("WORKERS", "0"),
        ("UPLOAD_IDLE_S", "nan"),
        ("KEEP_TEXT", "perhaps"),
        ("BACKEND_KIND", "lama"),
        ("BACKEND_URL", "localhost:11434"),
        ("BACKEND_URL", "http://"),
        ("BACKEND_URL", "http://host:port"),
        ("REDIS_URL", "localhost:6379"),
        ("TENANT_HEADER", "X Tenant"),
        ("TOKEN", "two words"),
        ("EMBEDDED_ENGINE", "maybe"),
        ("CONFIG", "/nowhere.toml"),
    ],
)
def test_a_bad_value_is_an_error_that_names_the_setting(name: str, value: str):
    """A value that is not understood never becomes a default."""
    with pytest.raises(SettingsError, match=f"METALANCHOR_{name}"):
        load({f"METALANCHOR_{name}": value})


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "[::1]", "127.9.9.9", "0.0.0.0"])
def test_the_proxy_is_no_backend_of_its_own(host: str, tmp_path: Path):
    """One request to such a proxy would call it again until sockets run out, so it does not start."""
    url = f"http://{host}:8084/v1"
    with pytest.raises(SettingsError, match=r"METALANCHOR_BACKEND_URL.* is where the proxy itself listens"):
        load({"METALANCHOR_BACKEND_URL": url})
    assert load({"METALANCHOR_BACKEND_URL": url, "METALANCHOR_PORT": "8085"}).backend_url == url
    file = tmp_path / "metalanchor.toml"
    file.write_text(
        f'[[backend]]\nname="a"\nurl="http://{host}:9"\n[[backend]]\nname="b"\nurl="http://b:1"\nport=9'
    )
    with pytest.raises(SettingsError, match=r"\[\[backend\]\] a: .*itself listens"):
        load({}, file)


def test_an_unknown_name_is_an_error_with_the_nearest():
    """A misspelt variable is refused, and the likely one suggested."""
    with pytest.raises(SettingsError, match=r"METALANCHOR_PROT.*Did you mean METALANCHOR_PORT"):
        load({"METALANCHOR_PROT": "1"})


def test_an_unknown_key_in_the_file_is_an_error(tmp_path: Path):
    """So is a misspelt key in the file, with the file's path."""
    file = tmp_path / "metalanchor.toml"
    file.write_text("prot = 1")
    with pytest.raises(SettingsError, match=r"prot in .*metalanchor\.toml.*Did you mean port"):
        load({}, file)


def test_a_table_cannot_come_from_the_environment():
    """METALANCHOR_BACKEND has no shape; the error says what is near it."""
    with pytest.raises(SettingsError, match="METALANCHOR_BACKEND is not a setting"):
        load({"METALANCHOR_BACKEND": "x"})


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.168.1.2", "127.evil.example"])
def test_another_address_needs_a_token(host: str):
    """A bind address that others reach is refused without a token, accepted with one."""
    with pytest.raises(SettingsError, match="METALANCHOR_TOKEN"):
        load({"METALANCHOR_HOST": host})
    assert load({"METALANCHOR_HOST": host, "METALANCHOR_TOKEN": "secret"}).host == host


@pytest.mark.parametrize("host", ["127.0.0.1", "127.8.8.8", "::1", "localhost"])
def test_loopback_needs_none(host: str):
    """Only this machine reaches these."""
    assert is_loopback(host)


def test_secrets_are_masked():
    """Neither the shown settings nor an error shows a token or a password."""
    environ = {
        "METALANCHOR_TOKEN": "topsecret",
        "METALANCHOR_REDIS_URL": "redis://user:topsecret@h:1/0",
        "METALANCHOR_DATABASE_URL": "postgresql://u:topsecret@h/db",
        "METALANCHOR_BACKEND_URL": "https://u:topsecret@h/base",
    }
    shown = {row.name: row.value for row in explain(environ)[1]}
    assert "topsecret" not in repr(shown)
    assert shown["redis_url"] == "redis://***@h:1/0"
    with pytest.raises(SettingsError) as caught:
        load({"METALANCHOR_TOKEN": "top secret"})
    assert "top secret" not in str(caught.value)


@pytest.mark.parametrize(
    "text",
    [
        '[[backend]]\nname="a"\nurl="http://a:1"\n[[backend]]\nname="a"\nurl="http://b:1"\nport=9',
        '[[backend]]\nname="a"\nurl="http://a:1"\n[[backend]]\nname="b"\nurl="http://b:1"',
        '[[backend]]\nname="a"\nurl="http://a:1"\nport=9\n[[backend]]\nname="b"\nurl="http://b:1"\nport=9',
        '[[backend]]\nname="a"\nurl="nohost"',
        '[[backend]]\nname="a"\nurl="http://a:1"\nprot=1',
        '[[backend]]\nname="a"\nurl="http://a:1"\nport=0',
        '[[backend]]\nname="a"\nurl="http://a:1"\nport=65536',
        "backend = 3",
        "port = ",
    ],
)
def test_backends_must_be_told_apart(tmp_path: Path, text: str):
    """Several backends need names and ports of their own; a broken table is an error."""
    file = tmp_path / "metalanchor.toml"
    file.write_text(text)
    with pytest.raises(SettingsError):
        load({}, file)


def test_lists_are_comma_separated():
    """A list setting takes commas and forgives blanks."""
    hosts = load({"METALANCHOR_ALLOWED_HOSTS": " a.local, b.local ,"}).allowed_hosts
    assert hosts == ("a.local", "b.local")


def test_an_empty_variable_unsets_an_optional_setting():
    """`METALANCHOR_REDIS_URL=` means none, as compose files write it."""
    assert load({"METALANCHOR_REDIS_URL": ""}).redis_url is None


def test_bytes_that_are_no_text_are_refused_by_name():
    """Found by fuzzing: an environment may hold any bytes, which Python hands over as lone surrogates."""
    with pytest.raises(SettingsError, match="METALANCHOR_PORT"):
        load({"METALANCHOR_PORT": "\udcff"})

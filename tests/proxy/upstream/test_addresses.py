"""Backends by name, over IPv6 and over TLS."""

import shutil
import socket
import ssl
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from services.proxy.upstream import make_upstream
from services.proxy.upstream.base import UpstreamError
from tests.proxy.upstream.conftest import Caller
from tests.support.backend import Backend, body


def _has_ipv6() -> bool:
    try:
        with socket.socket(socket.AF_INET6) as probe:
            probe.bind(("::1", 0))
    except OSError:
        return False
    return True


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A self-signed certificate for ``localhost``, with its key in the same file."""
    folder = tmp_path_factory.mktemp("tls")
    request = (
        "req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=localhost -addext subjectAltName=DNS:localhost"
    )
    files = ["-keyout", folder / "key.pem", "-out", folder / "cert.pem"]
    subprocess.run(["openssl", *request.split(), *files], check=True, capture_output=True)
    both = folder / "both.pem"
    both.write_bytes((folder / "cert.pem").read_bytes() + (folder / "key.pem").read_bytes())
    return both


@pytest.fixture
def secure(certificate: Path) -> Iterator[Backend]:
    """A scripted backend behind TLS."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)
    backend = Backend(tls=context).start()
    yield backend
    backend.stop()


needs_openssl = pytest.mark.skipif(
    shutil.which("openssl") is None, reason="makes its certificate with openssl"
)


async def _fetch(url: str, sent: bytes = b"x") -> bytes:
    client = make_upstream(url)
    try:
        _, data = await Caller(client).fetch(sent)
        _, again = await Caller(client).fetch(sent)
    finally:
        await client.close()
    assert data == again
    return data


async def test_localhost_is_found_whichever_family_listens(backend: Backend) -> None:
    """``localhost`` may resolve to ::1 first while only 127.0.0.1 listens."""
    backend.answer(body("ok"))
    assert await _fetch(f"http://localhost:{backend.port}") == b"ok"


@pytest.mark.skipif(not _has_ipv6(), reason="no IPv6 on this machine")
async def test_an_ipv6_address_is_reached() -> None:
    backend = Backend(host="::1").start()
    backend.answer(body("six"))
    try:
        assert await _fetch(backend.url) == b"six"
    finally:
        backend.stop()


@needs_openssl
async def test_https_with_a_trusted_certificate(secure: Backend, certificate: Path, monkeypatch) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
    secure.answer(lambda received: body(received.body[::-1]))
    sent = bytes(range(256)) * 8000
    assert await _fetch(f"https://localhost:{secure.port}", sent) == sent[::-1]
    assert secure.connections_made == 1


@needs_openssl
async def test_https_with_an_unknown_certificate_is_unreachable(secure: Backend) -> None:
    with pytest.raises(UpstreamError) as caught:
        await _fetch(f"https://localhost:{secure.port}")
    assert (caught.value.code, secure.requests) == ("unreachable", [])


@needs_openssl
async def test_https_under_another_name_is_unreachable(
    secure: Backend, certificate: Path, monkeypatch
) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
    with pytest.raises(UpstreamError) as caught:
        await _fetch(f"https://127.0.0.1:{secure.port}")
    assert caught.value.code == "unreachable"


@pytest.mark.parametrize("url", ["ftp://host", "http://", "host:80"])
def test_other_addresses_are_refused(url) -> None:
    with pytest.raises(ValueError, match="http"):
        make_upstream(url)

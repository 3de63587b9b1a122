"""Backends by name, over IPv6 and over TLS."""

import socket
import ssl
from collections.abc import Iterator
from pathlib import Path

import pytest
import trustme

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
def authority() -> trustme.CA:
    """Who vouches for the backend behind TLS; unknown to this machine."""
    return trustme.CA()


@pytest.fixture
def trusted(authority: trustme.CA, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The authority is known here."""
    authority.cert_pem.write_to_path(str(tmp_path / "authority.pem"))
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "authority.pem"))


@pytest.fixture
def secure(authority: trustme.CA) -> Iterator[Backend]:
    """A scripted backend behind TLS, certified as ``localhost``."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("localhost").configure_cert(context)
    backend = Backend(tls=context).start()
    yield backend
    backend.stop()


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


@pytest.mark.usefixtures("trusted")
async def test_https_with_a_trusted_certificate(secure: Backend) -> None:
    secure.answer(lambda received: body(received.body[::-1]))
    sent = bytes(range(256)) * 8000
    assert await _fetch(f"https://localhost:{secure.port}", sent) == sent[::-1]
    assert secure.connections_made == 1


async def test_https_with_an_unknown_certificate_is_unreachable(secure: Backend) -> None:
    with pytest.raises(UpstreamError) as caught:
        await _fetch(f"https://localhost:{secure.port}")
    assert (caught.value.code, secure.requests) == ("unreachable", [])


@pytest.mark.usefixtures("trusted")
async def test_https_under_another_name_is_unreachable(secure: Backend) -> None:
    with pytest.raises(UpstreamError) as caught:
        await _fetch(f"https://127.0.0.1:{secure.port}")
    assert caught.value.code == "unreachable"


@pytest.mark.parametrize("url", ["ftp://host", "http://", "host:80"])
def test_other_addresses_are_refused(url) -> None:
    with pytest.raises(ValueError, match="http"):
        make_upstream(url)

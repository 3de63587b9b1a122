"""Secrets are compared in one way only, and a proxy that others can reach has one."""

import hmac

import pytest

from services.proxy.wire import guard
from services.proxy.wire.errors import RefusedError
from services.proxy.wire.guard import Guard
from services.settings import Settings
from tests.support.proxy import StartProxy, free_port

TOKEN = "a-token-of-some-length"


@pytest.mark.parametrize("sent", ["", "a", TOKEN[:-1], TOKEN + "x", TOKEN.upper(), "x" * 10_000])
def test_every_token_is_compared_whole_and_in_constant_time(
    monkeypatch: pytest.MonkeyPatch, sent: str
) -> None:
    """Whatever is sent, `hmac.compare_digest` sees it and the whole token, and nothing decides before."""
    seen = []

    def compare(left: bytes, right: bytes) -> bool:
        seen.append((left, right))
        return hmac.compare_digest(left, right)

    class Watched:
        compare_digest = staticmethod(compare)

    monkeypatch.setattr(guard, "hmac", Watched)
    subject = Guard(Settings(token=TOKEN))
    for header in ((b"x-metalanchor-token", b"%b"), (b"x-api-key", b"%b"), (b"authorization", b"Bearer %b")):
        seen.clear()
        with pytest.raises(RefusedError):
            subject.admit([(header[0], header[1] % sent.encode())])
        assert seen == [(sent.encode(), TOKEN.encode())]


@pytest.mark.process
@pytest.mark.process
def test_a_token_is_taken_out_before_the_backend(start_proxy: StartProxy, backend) -> None:
    """In any of its forms, and beside credentials that are the backend's own."""
    proxy = start_proxy(token=TOKEN)
    forms = [("X-MetalAnchor-Token", TOKEN), ("Authorization", f"Bearer {TOKEN}"), ("x-api-key", TOKEN)]
    for form in forms:
        assert proxy.request("GET", "/x", headers=[form, ("Cookie", "mine=1")]).status == 200
    heads = b"".join(r.head for r in backend.requests)
    assert TOKEN.encode() not in heads
    assert heads.count(b"mine=1") == len(forms)
    assert TOKEN not in proxy.log.read_text()


@pytest.mark.process
@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.0.2.1", "evil.example"])
def test_an_open_address_without_a_token_does_not_start(start_proxy: StartProxy, host: str) -> None:
    """It says which setting is missing, and listens nowhere, not even for a moment."""
    proxy = start_proxy(host=host, port=free_port(), wait=False)
    assert proxy.process is not None

    assert proxy.process.wait(20) != 0
    said = proxy.log.read_text()
    assert "METALANCHOR_TOKEN" in said
    assert "Traceback" not in said

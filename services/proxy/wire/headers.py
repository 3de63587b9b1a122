"""Which headers cross the proxy, in which form, and the few that it adds. Pure.

Everything passes as received, in its order and with its repetitions, but for what belongs to one connection
only. granian hands names over in lower case.
"""

from collections.abc import Iterable

from services.proxy.flow import Flow
from services.proxy.settling.row import headline, ttft_ms

Headers = list[tuple[bytes, bytes]]

OURS = b"x-metalanchor-"
# RFC 9110 §7.6.1, and the older names that servers still send.
HOP_BY_HOP = frozenset(
    {
        b"connection",
        b"keep-alive",
        b"proxy-authenticate",
        b"proxy-authorization",
        b"proxy-connection",
        b"te",
        b"trailer",
        b"transfer-encoding",
        b"upgrade",
    }
)
# `expect` is answered by the server that received it; the body has left by the time a backend could.
NOT_SENT = HOP_BY_HOP | {b"host", b"expect"}
# What `Connection` must not take away, since the message would change its meaning (request smuggling).
NEVER_LISTED = frozenset({b"host", b"content-length", b"content-type", b"content-encoding"})


def value_of(headers: Iterable[tuple[bytes, bytes]], name: bytes) -> bytes | None:
    """The first value of a header, by its lower-case name."""
    return next((value for key, value in headers if key == name), None)


def sent_headers(received: Headers, authority: bytes, length: int | None) -> Headers:
    """The request headers as they go to the backend.

    `length` is the size of a body that was read whole: it becomes the one Content-Length, whatever the
    framing was; None keeps the received framing (a streamed body, or none).
    """
    dropped = _dropped(received, NOT_SENT)
    chunked = any(name == b"transfer-encoding" for name, _ in received)
    if length is None and chunked:
        dropped = dropped | {b"content-length"}
    framed = length is None or (length == 0 and not chunked)
    out = [(b"host", authority)]
    for name, value in received:
        if name in dropped or name.startswith(OURS):
            continue
        if name == b"content-length" and length is not None:
            if not framed or length == 0:
                out.append((name, b"%d" % length))
            framed = True
            continue
        out.append((name, value))
    if not framed:
        out.append((b"content-length", b"%d" % (length or 0)))
    return out


def relayed_headers(received: Headers) -> Headers:
    """The answer's headers as they go to the client, names in lower case."""
    lowered = [(name.lower(), value) for name, value in received]
    dropped = _dropped(lowered, HOP_BY_HOP)
    if any(name == b"transfer-encoding" for name, _ in lowered):
        dropped = dropped | {b"content-length"}  # chunked decides (RFC 9112 §6.3); one framing, not two
    return [header for header in lowered if header[0] not in dropped and not header[0].startswith(OURS)]


def added_headers(flow: Flow, *, complete: bool) -> Headers:
    """What the proxy says about a request, as far as it is known when the headers leave.

    `complete` is whether the whole answer is there, so that the engine's own counters are in.
    """
    out = [(b"x-metalanchor-request-id", flow.id.encode())]
    verdict, identity = flow.verdict, flow.identity
    if verdict is not None and flow.prompt is not None:
        out += [
            (b"x-metalanchor-hit", verdict.hit.encode()),
            (b"x-metalanchor-reuse", b"%.4f" % verdict.predicted_reuse),
            (b"x-metalanchor-reused-chunks", b"%d" % verdict.reused_chunks),
            (b"x-metalanchor-chunks", b"%d" % len(flow.prompt.chunks)),
        ]
    if flow.prompt is not None and (milliseconds := ttft_ms(flow)) is not None:
        out.append((b"x-metalanchor-ttft-ms", b"%d" % round(milliseconds)))
    session = (identity.session if identity else None) or (verdict.lineage if verdict else None)
    if session:
        out.append((b"x-metalanchor-session", session.encode()))
    cause = headline(flow.causes)
    if cause is not None:
        out.append((b"x-metalanchor-cause", cause.code.encode()))
    whole = complete and flow.prompt is not None and not flow.prompt.stream
    if whole and flow.measured is not None and flow.measured.cached_tokens is not None:
        out.append((b"x-metalanchor-cached-tokens", b"%d" % flow.measured.cached_tokens))
    if flow.fixes:
        out.append((b"x-metalanchor-fix", ",".join(flow.fixes).encode()))
    if flow.cached is not None:
        out.append((b"x-metalanchor-cache", flow.cached.verdict.encode()))
    elif flow.prompt is not None and flow.prompt.kind == "generation":
        out.append((b"x-metalanchor-cache", b"bypass:off"))
    return out


def _dropped(headers: Headers, always: frozenset[bytes]) -> frozenset[bytes]:
    listed = [value for name, value in headers if name == b"connection"]
    if not listed or listed in ([b"keep-alive"], [b"close"]):
        return always
    names = {part.strip().lower() for value in listed for part in value.split(b",")}
    return always | (names - NEVER_LISTED)

"""A request head as bytes, and the framing of a body whose length is not known."""

from services.proxy.upstream.base import RequestHead, UpstreamError


class Framer:
    """The pieces of a streamed body as they go on the wire: held to their declared length, else chunked."""

    def __init__(self, length: int | None) -> None:
        self._left = length

    @property
    def chunked(self) -> bool:
        """Whether no length was declared."""
        return self._left is None

    def piece(self, data: bytes) -> bytes:
        """One piece; raises `UpstreamError` beyond the declared length: it would be a second request."""
        if self._left is None:
            return b"%x\r\n%b\r\n" % (len(data), data) if data else b""
        self._left -= len(data)
        if self._left < 0:
            raise UpstreamError("protocol", "the body is longer than its content-length")
        return data

    def end(self) -> bytes:
        """What ends the body; raises `UpstreamError` when some of its declared length is missing."""
        if self._left:
            raise UpstreamError("protocol", "the body is shorter than its content-length")
        return b"0\r\n\r\n" if self._left is None else b""


def encode(head: RequestHead, *, chunked: bool = False) -> bytes:
    """Serialise a request head, names and values as given.

    Raises `UpstreamError` with code ``protocol`` when a part holds a line break or NUL, or the request line a
    blank: it would become a second header or a second request.
    """
    lines = [b"%b %b HTTP/1.1" % (head.method, head.target)]
    lines += [b"%b: %b" % header for header in head.headers]
    if chunked:
        lines.append(b"transfer-encoding: chunked")
    lines.append(b"\r\n")
    encoded = b"\r\n".join(lines)
    ends = len(lines)
    if (
        encoded.count(b"\n") != ends
        or encoded.count(b"\r") != ends
        or b"\0" in encoded
        or lines[0].count(b" ") != 2
    ):
        raise UpstreamError("protocol", "a request line or header holds a line break, a blank or NUL")
    return encoded


def declared_length(head: RequestHead) -> int | None:
    """The Content-Length the caller set, or None. Raises `UpstreamError` when it is no number."""
    for name, value in head.headers:
        if name.lower() == b"content-length":
            if not value.isdigit():
                raise UpstreamError("protocol", "content-length is no number")
            return int(value)
    return None

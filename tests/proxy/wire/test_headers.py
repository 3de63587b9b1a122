"""Which headers go on, in which form: pure functions over lists of pairs."""

from services.proxy.wire.headers import relayed_headers, sent_headers

AUTHORITY = b"127.0.0.1:11434"


def test_a_body_read_whole_has_one_length_where_the_client_had_it() -> None:
    """Content-Length keeps its place; chunked framing is replaced by it; a duplicate goes."""
    received = [(b"host", b"x"), (b"content-length", b"5"), (b"accept", b"*"), (b"content-length", b"5")]
    chunked = [(b"transfer-encoding", b"chunked"), (b"accept", b"*")]

    assert sent_headers(received, AUTHORITY, 5) == [
        (b"host", AUTHORITY),
        (b"content-length", b"5"),
        (b"accept", b"*"),
    ]
    assert sent_headers(chunked, AUTHORITY, 7) == [
        (b"host", AUTHORITY),
        (b"accept", b"*"),
        (b"content-length", b"7"),
    ]
    assert sent_headers(chunked, AUTHORITY, 0)[-1] == (b"content-length", b"0")


def test_a_request_without_a_body_gets_no_length() -> None:
    """GET stays as it was; an explicit zero stays a zero."""
    assert sent_headers([(b"accept", b"*")], AUTHORITY, 0) == [(b"host", AUTHORITY), (b"accept", b"*")]
    assert (b"content-length", b"0") in sent_headers([(b"content-length", b"0")], AUTHORITY, 0)


def test_a_streamed_body_keeps_the_framing_it_came_with() -> None:
    """A declared length is passed on; next to chunked framing it is not believed."""
    assert (b"content-length", b"9") in sent_headers([(b"content-length", b"9")], AUTHORITY, None)
    both = [(b"content-length", b"9"), (b"transfer-encoding", b"chunked")]
    assert sent_headers(both, AUTHORITY, None) == [(b"host", AUTHORITY)]


def test_what_connection_names_goes_but_never_the_framing() -> None:
    """A client cannot have Host or Content-Length taken out by naming them."""
    received = [
        (b"connection", b"close, X-A , content-length,Host"),
        (b"x-a", b"1"),
        (b"content-length", b"3"),
    ]

    assert sent_headers(received, AUTHORITY, 3) == [(b"host", AUTHORITY), (b"content-length", b"3")]


def test_answers_keep_order_and_repetition_but_not_the_hop() -> None:
    """Hop-by-hop names go; chunked framing drops a length beside it; a foreign header of our name goes."""
    received = [
        (b"Set-Cookie", b"a"), (b"Connection", b"close"), (b"Set-Cookie", b"b"), (b"X-MetalAnchor-Hit", b"x"),
        (b"Transfer-Encoding", b"chunked"), (b"Content-Length", b"9"), (b"Trailer", b"x"), (b"ETag", b"e"),
    ]  # fmt: skip

    assert relayed_headers(received) == [(b"set-cookie", b"a"), (b"set-cookie", b"b"), (b"etag", b"e")]

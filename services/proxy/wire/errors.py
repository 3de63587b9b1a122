"""The proxy's own errors: their status, code and text, in the shape of the route's family. Pure.

Each carries `X-MetalAnchor-Error`, so that nobody takes it for the backend's.
"""

import msgspec

Headers = list[tuple[bytes, bytes]]


class RefusedError(Exception):
    """A request that ends here. `code` names the reason, `status` is HTTP's, `row` the status of its row."""

    def __init__(self, status: int, code: str, message: str, row: str = "rejected") -> None:
        super().__init__(message)
        self.status, self.code, self.message, self.row = status, code, message, row


class BrokenAnswerError(Exception):
    """Raised out of the application after headers left: the server then cuts the connection, unfinished."""


def unreachable(url: str, detail: str) -> RefusedError:
    """The backend takes no connection."""
    text = f"MetalAnchor cannot reach the model server at {url} ({detail}). Is it running?"
    return RefusedError(502, "backend_unreachable", text, "upstream_unreachable")


def broken(url: str, code: str, detail: str) -> RefusedError:
    """The backend took the request and hung up, or spoke no HTTP, before its answer began."""
    text = f"The model server at {url} gave no answer ({detail})."
    return RefusedError(502, f"backend_{code}", text, "upstream_reset")


def too_large(limit: int) -> RefusedError:
    """A body on an analysed route over the limit."""
    return RefusedError(
        413, "body_too_large", f"The body is over {limit} bytes. METALANCHOR_MAX_BODY sets this limit."
    )


def stalled(seconds: float) -> RefusedError:
    """An upload that stalled."""
    text = f"The upload stalled for {seconds:g} s. METALANCHOR_UPLOAD_IDLE_S sets this limit."
    return RefusedError(408, "upload_stalled", text)


def not_cached() -> RefusedError:
    """The client takes nothing else than a cached answer, and there is none."""
    return RefusedError(504, "not_cached", "No cached answer, and the request asks for nothing else.")


def stopping() -> RefusedError:
    """The proxy was told to stop while the request waited for its answer."""
    return RefusedError(503, "proxy_stopped", "MetalAnchor is stopping.", "proxy_stopped")


def unsupported(what: str) -> RefusedError:
    """CONNECT, or an upgrade that is no WebSocket."""
    return RefusedError(501, "not_supported", f"{what} is not supported by MetalAnchor.")


def shown_url(url: str) -> str:
    """A backend address without the credentials it may hold."""
    scheme, _, rest = url.partition("://")
    authority, slash, path = rest.partition("/")
    return f"{scheme}://{authority.rpartition('@')[2]}{slash}{path}"


def answer(error: RefusedError, path: str, request_id: str | None = None) -> tuple[Headers, bytes]:
    """Headers and body of an own error for a request to `path`."""
    body = msgspec.json.encode(_shape(error, path))
    headers = [
        (b"content-type", b"application/json"),
        (b"content-length", b"%d" % len(body)),
        (b"x-metalanchor-error", error.code.encode()),
    ]
    if request_id is not None:
        headers.append((b"x-metalanchor-request-id", request_id.encode()))
    if error.status == 401:
        headers.append((b"www-authenticate", b'Bearer realm="metalanchor"'))
    return headers, body


def _shape(error: RefusedError, path: str) -> dict[str, object]:
    """The error object as clients of that route family read it."""
    if path.startswith("/v1/messages"):
        kind = _ANTHROPIC.get(error.status, "api_error")
        return {"type": "error", "error": {"type": kind, "message": error.message}}
    if path.startswith("/api/"):
        return {"error": error.message}
    kind = "invalid_request_error" if error.status < 500 else "api_error"
    return {"error": {"message": error.message, "type": kind, "param": None, "code": error.code}}


_ANTHROPIC = {
    400: "invalid_request_error",
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    408: "timeout_error",
    413: "request_too_large",
}

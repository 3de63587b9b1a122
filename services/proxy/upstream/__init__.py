"""The proxy's own HTTP/1.1 client: what it promises is in `base`, what it was measured against in docs."""

from services.proxy.upstream.client import make_upstream

__all__ = ["make_upstream"]

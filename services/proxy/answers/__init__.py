"""The response cache: complete answers of the backend, kept in Redis and given again to equal requests."""

import logging
from collections.abc import Sequence

from services.proxy.answers.cache import ResponseCache
from services.proxy.answers.store import RedisStore
from services.proxy.state.base import State
from services.proxy.state.redis import RedisState
from services.settings import Settings


def open_answers(
    settings: Settings, key: bytes, state: State, backends: Sequence[str]
) -> ResponseCache | None:
    """The cache these settings ask for, over the connection of the shared state; None where it is off.

    `backends` are the addresses of the model servers, which embeddings should not be asked of.
    """
    if settings.response_cache == "off":
        return None
    if not isinstance(state, RedisState):
        log = logging.getLogger("metalanchor")
        log.warning("The response cache is off: it needs a Redis. Set METALANCHOR_REDIS_URL.")
        return None
    store = RedisStore(state.client, key, settings.response_cache_max_bytes)
    matcher = None
    if settings.response_cache == "semantic":
        from services.semantic.matcher import open_matcher  # noqa: PLC0415 its word lists take time and memory

        matcher = open_matcher(settings, backends)
    return ResponseCache(settings, key, store, matcher)

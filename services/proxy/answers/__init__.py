"""The response cache: complete answers of the backend, kept in Redis and given again to equal requests."""

import logging

from services.proxy.answers.cache import ResponseCache
from services.proxy.answers.store import RedisStore
from services.proxy.state.base import State
from services.proxy.state.redis import RedisState
from services.settings import Settings


def open_answers(settings: Settings, key: bytes, state: State) -> ResponseCache | None:
    """The cache these settings ask for, over the connection of the shared state; None where it is off."""
    if settings.response_cache == "off":
        return None
    if not isinstance(state, RedisState):
        log = logging.getLogger("metalanchor")
        log.warning("The response cache is off: it needs a Redis. Set METALANCHOR_REDIS_URL.")
        return None
    return ResponseCache(settings, key, RedisStore(state.line, key, settings.response_cache_max_bytes))

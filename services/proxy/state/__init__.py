"""What the proxies of an installation share; `open_state` picks Redis or this process's memory alone."""

from services.proxy.state.base import State
from services.proxy.state.local import LocalState
from services.proxy.state.redis import RedisState
from services.settings import Settings


def open_state(settings: Settings, key: bytes) -> State:
    """The state these settings ask for; `start` connects it."""
    local = LocalState(settings.state_max_bytes)
    return RedisState(settings.redis_url, key, local) if settings.redis_url else local

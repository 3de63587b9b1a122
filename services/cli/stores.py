"""The doctor's checks of what keeps the rows on their way: Redis, the worker, the database.

Each says what is missing and the command that mends it: the one that starts a container where the settings
lead to one, else the one for a server of this machine.
"""

from services import private_redis
from services.cli import containers
from services.cli.verdict import Verdict
from services.settings import Settings

REDIS_OLDEST = (6, 2)
ASK_S = 2.0


def redis(settings: Settings) -> Verdict:
    """Whether Redis answers, is new enough and keeps what it is given."""
    if settings.redis_url is None:
        server = private_redis.find_server()
        if server:
            return Verdict("ok", f"`up` starts {server}")
        return Verdict("fail", "no server program", "Install valkey, or set METALANCHOR_REDIS_URL.")
    from redis import AuthenticationError, RedisError  # noqa: PLC0415 - slow to import

    from services.redis_client import open_redis  # noqa: PLC0415

    connection = open_redis(settings.redis_url, socket_timeout=ASK_S, socket_connect_timeout=ASK_S)
    try:
        info = connection.info()
    except AuthenticationError:
        return Verdict("fail", "wrong password", "Write ANCHOR_PASSWORD's value into METALANCHOR_REDIS_URL.")
    except RedisError as error:
        mend = containers.start(settings.redis_url, "redis", "worker")
        advice = mend or "Start Redis, or correct METALANCHOR_REDIS_URL."
        return Verdict("fail", type(error).__name__, advice)
    finally:
        connection.close()
    return _judge(info)


def _judge(info: dict[str, object]) -> Verdict:
    version = str(info.get("valkey_version") or info["redis_version"])
    if tuple(int(part) for part in version.split(".")[:2]) < REDIS_OLDEST:
        return Verdict("fail", f"version {version}", "Use Redis 6.2 or newer, or Valkey.")
    policy = str(info.get("maxmemory_policy", "noeviction"))
    if policy.startswith("allkeys"):
        return Verdict("warn", f"version {version}, {policy} may evict queued rows", "Use volatile-lru.")
    return Verdict("ok", f"version {version}")


def database(settings: Settings) -> Verdict:
    """Whether the history answers and has the present schema."""
    from services.history.engine import HistoryError, sqlite_path  # noqa: PLC0415
    from services.history.migrate import current, newest  # noqa: PLC0415

    try:
        file = sqlite_path(settings.database)
        if file is not None and not file.exists():
            return Verdict("warn", f"{file} does not exist yet", "`metalanchor up` or `metalanchor migrate`")
        have, need = current(settings.database), newest()
    except HistoryError as error:
        return Verdict("fail", str(error), _database_advice(settings, str(error)))
    if have != need:
        return Verdict("fail", f"schema {have or 'none'}, needed {need}", "metalanchor migrate")
    return Verdict("ok", f"schema {have}")


def _database_advice(settings: Settings, error: str) -> str:
    if "password authentication failed" in error:
        return "Write ANCHOR_PASSWORD's value into METALANCHOR_DATABASE_URL."
    mend = containers.start(settings.database_url, "postgres")
    return mend or "Start the database, or correct METALANCHOR_DATABASE_URL."


def worker(settings: Settings) -> Verdict:
    """Whether a worker takes rows from the queue, as its heartbeat in Redis says."""
    if settings.redis_url is None:
        return Verdict("ok", "`up` starts one")
    from redis import RedisError  # noqa: PLC0415

    from services.queue import read_heartbeats  # noqa: PLC0415
    from services.redis_client import open_redis  # noqa: PLC0415

    try:
        with open_redis(settings.redis_url, socket_timeout=ASK_S, socket_connect_timeout=ASK_S) as connection:
            beats = read_heartbeats(connection)
    except RedisError:
        return Verdict("warn", "not known, since Redis does not answer", "See the check `redis`.")
    if not beats:
        mend = containers.start(settings.redis_url, "worker")
        return Verdict("fail", "none is running; rows wait in the queue", mend or "metalanchor worker")
    waiting = next((beat.database for beat in beats if beat.state == "waiting"), None)
    if waiting:
        return Verdict("warn", f"waits for the database: {waiting}", "See the check `database`.")
    return Verdict("ok", f"{len(beats)} running")

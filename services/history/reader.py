"""The PostgreSQL role behind the SQL console: it may log in, read the history, and nothing else.

It owns that role. Merely switching roles inside the worker's session would not hold: ``set_config('role',
…)`` inside a SELECT switches back. So the console logs in as this role, with a password derived from the
worker's own; where the worker needs none (trust), neither does the reader.
"""

import hashlib
import hmac
from contextlib import suppress

from sqlalchemy import URL, Connection, inspect, text
from sqlalchemy.exc import DBAPIError

from services.history.rollups import prompt_rollups, rollups
from services.history.tables import requests, samples

READABLE = (requests.name, samples.name, rollups.name, prompt_rollups.name)
RIGHTS = "NOSUPERUSER NOCREATEDB NOCREATEROLE NOINHERIT NOREPLICATION NOBYPASSRLS CONNECTION LIMIT 8"


def reader_url(url: URL) -> URL:
    """The same database as the reader."""
    return url.set(username=_role(str(url.database)), password=_password(url.password))


def grant_reader(connection: Connection) -> bool:
    """Create the role or renew its rights; False where we may not, True on SQLite, which has no roles."""
    if connection.dialect.name != "postgresql":
        return True
    try:
        with connection.begin_nested():
            for statement in _statements(connection):
                connection.execute(text(statement))
    except DBAPIError:
        return False
    return True


def drop_reader(connection: Connection) -> None:
    """Remove the role again, where there is one and we may."""
    if connection.dialect.name != "postgresql" or not _exists(connection):
        return
    role = connection.dialect.identifier_preparer.quote(_role(_database(connection)))
    with suppress(DBAPIError), connection.begin_nested():
        connection.execute(text(f"DROP OWNED BY {role}"))
        connection.execute(text(f"DROP ROLE {role}"))


def _exists(connection: Connection) -> bool:
    query = text("SELECT 1 FROM pg_roles WHERE rolname = :name")
    return connection.scalar(query, {"name": _role(_database(connection))}) is not None


def _database(connection: Connection) -> str:
    return str(connection.scalar(text("SELECT current_database()")))


def _statements(connection: Connection) -> list[str]:
    url = connection.engine.url
    quote = connection.dialect.identifier_preparer.quote
    database = _database(connection)
    schema = quote(str(connection.scalar(text("SELECT current_schema()"))))
    role = quote(_role(database))
    password = _password(url.password)
    there = set(inspect(connection).get_table_names())  # an older revision has fewer
    login = f"LOGIN PASSWORD '{password}'" if password else "LOGIN"
    return [
        f"{'ALTER' if _exists(connection) else 'CREATE'} ROLE {role} {login} {RIGHTS}",
        f"GRANT CONNECT ON DATABASE {quote(database)} TO {role}",
        f"GRANT USAGE ON SCHEMA {schema} TO {role}",
        *(f"GRANT SELECT ON {schema}.{quote(table)} TO {role}" for table in READABLE if table in there),
    ]


def _role(database: str) -> str:
    # Roles belong to the whole server: two histories on one server must not share a password.
    return "metalanchor_reader_" + hashlib.sha256(database.encode()).hexdigest()[:12]


def _password(owner: object) -> str | None:
    if not owner:
        return None
    return hmac.new(str(owner).encode(), b"metalanchor reader", hashlib.sha256).hexdigest()

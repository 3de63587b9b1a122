"""Fills a history for `bench.queries`: a few thousand varied rows, copied inside the database to a million.

Rows lie evenly over the ninety days that the history is kept by default. Each copy is shifted in time and has
sessions, lineages, ids and most messages of its own; agents, models, system prompts, tools, tool calls and
one message in five stay the same, as in life. Then the rollups are computed, as the worker does beside its
work.
"""

import random
import time
from datetime import UTC, datetime

from sqlalchemy import Connection, text

from services.history.engine import open_engine
from services.history.migrate import upgrade
from services.history.rollups import HOUR, mark_hours
from services.history.tables import requests
from services.ids import new_id
from services.logger.rolling import roll_step
from services.logger.store import Store
from services.record import Record
from tests.support.records import make_record

DAYS = 90
DAY_MS = 86_400_000
AGENTS = ("claude-code", "hermes", "opencode", "codex", "openclaw", "aider", "open-webui", "cline")
MODELS = ("qwen3:8b", "gemma3:27b", "gpt-oss:20b", "llama3.3:70b")
HITS = ("exact", "prefix", "prefix", "prefix", "prefix", "system+tools", "system_only", "none")
CAUSES = (*[None] * 8, "timestamp", "evicted_by", "workspace_snapshot", "compaction", "model_reload")
STATUSES = (*["completed"] * 30, "client_cancelled", "upstream_error")
TURNS = 25  # requests a session
COPIED = {
    "session": "{session} || '-' || :copy",
    "lineage": "{lineage} || '-' || :copy",
    "parent_id": "NULL",
    "evicted_by": "NULL",
}
ENTRIES = "replace(CAST(new_chunks AS text), '\"m00', '\"m' || :mark)"


def fill(url: str, rows: int) -> None:
    """Make the schema and `rows` rows that end now."""
    upgrade(url)
    engine = open_engine(url)
    seed = min(rows, 10_000)
    copies = rows // seed
    end = int(datetime.now(UTC).timestamp() * 1e3)
    span = DAYS * DAY_MS // copies
    store = Store(engine)
    made = [_record(number, end - span + number * span // seed) for number in range(seed)]
    for start in range(0, seed, 1_000):
        store.save(made[start : start + 1_000])
    with engine.begin() as connection:
        for copy in range(1, copies):
            _copy(connection, made[0].received_at, copy, copy * span)
    with engine.begin() as connection:
        mark_hours(connection, range((end - DAYS * DAY_MS) // 3_600_000 * HOUR, end // 1_000 + 1, HOUR))
    began, steps = time.perf_counter(), 0
    while roll_step(engine, time.time()):
        steps += 1
    print(f"{steps:,} rollups computed in {time.perf_counter() - began:.0f} s", flush=True)
    with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        connection.execute(text("ANALYZE" if connection.dialect.name == "sqlite" else "VACUUM ANALYZE"))
    engine.dispose()


def _record(number: int, received_at: int) -> Record:
    pick = random.Random(number)
    session = number // TURNS
    who = random.Random(session)
    agent, model = who.choice(AGENTS), who.choice(MODELS)
    cause = pick.choice(CAUSES)
    prompt = 2_000 + (number % TURNS) * 900 + pick.randrange(500)
    cached = round(prompt * (pick.uniform(0, 0.4) if cause else pick.uniform(0.85, 0.99)))
    lost = prompt - cached if cause else None
    # Hashes that begin with 00 are given another beginning in each copy.
    entries = [
        f"m{'00' if pick.random() < 0.8 else 'ff'}{pick.randrange(1 << 40):010x}{pick.randrange(50, 20_000)}"
        for _ in range(2)
    ]
    if pick.random() < 0.5:
        entries.append(f"c{pick.randrange(3_000):012x}{pick.randrange(100, 30_000)}")
    return make_record(
        id=_id(received_at), received_at=received_at, session=f"s{session}", lineage=f"l{session}",
        agent=agent, model=model, hit=pick.choice(HITS), cause=cause, lost_tokens=lost,
        lost_ms=None if lost is None else lost / 2.5, prompt_tokens=prompt,
        cached_tokens=None if pick.random() < 0.1 else cached, predicted_reuse=round(cached / prompt, 4),
        prefill_ms=(prompt - cached) / 2.5, ttft_ms=60 + (prompt - cached) / 2.5, total_ms=2_000 + prompt / 2,
        request_bytes=prompt * 4, system_hash=f"{AGENTS.index(agent):040x}",
        tools_hash=f"{AGENTS.index(agent) + 8:040x}", status=pick.choice(STATUSES), new_chunks=entries,
        chunk_hashes="0123456789ab" * (2 + number % TURNS * 2),
        causes=[{"code": cause, "severity": "loss", "at": None, "detail": {}}] if cause else None, fixes=None,
    )  # fmt: skip


def _id(milliseconds: int) -> str:
    stamp = f"{milliseconds:012x}"
    return f"{stamp[:8]}-{stamp[8:]}-{new_id()[14:]}"


def _copy(connection: Connection, first: int, copy: int, shift: int) -> None:
    """The rows of the seed, `shift` milliseconds earlier."""
    sqlite = connection.dialect.name == "sqlite"
    if sqlite:
        epoch = "CAST(ROUND((julianday(received_at) - 2440587.5) * 86400000) AS INTEGER)"
        hexed = f"printf('%012x', {epoch} - :shift)"
        moved = "strftime('%Y-%m-%d %H:%M:%f', julianday(received_at) - :shift / 86400000.0)"
    else:
        hexed = "lpad(to_hex((extract(epoch FROM received_at) * 1000)::bigint - :shift), 12, '0')"
        moved = "received_at - :shift * interval '1 millisecond'"
    changed = {
        "id": f"substr({hexed}, 1, 8) || '-' || substr({hexed}, 9, 4) || substr(id, 14)",
        "received_at": moved,
        **{name: form.format(**{name: name}) for name, form in COPIED.items()},
        "new_chunks": ENTRIES if sqlite else f"CAST({ENTRIES} AS jsonb)",
    }
    names = [column.name for column in requests.columns]
    chosen = ", ".join(changed.get(name, name) for name in names)
    since = datetime.fromtimestamp(first / 1e3, UTC)
    statement = (
        f"INSERT INTO requests ({', '.join(names)}) SELECT {chosen} FROM requests WHERE received_at >= :since"
    )
    bound = since.replace(tzinfo=None).isoformat(sep=" ", timespec="milliseconds") if sqlite else since
    connection.execute(
        text(statement), {"shift": shift, "copy": str(copy), "mark": f"{copy:02x}", "since": bound}
    )

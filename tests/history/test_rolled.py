"""Reports from rollups say what reports from rows say: sums exactly, percentiles within the stated 5 %."""

import itertools
import time
from datetime import UTC, datetime, timedelta

import pytest
from sqlalchemy import func, select, text

from services.history import histogram, migrate, repeats, reports, spans
from services.history.engine import open_engine
from services.history.queries import Filters
from services.history.rollups import DAY, HOUR, SIX_HOURS, prompt_rollups, rollups, rollups_due
from services.history.series import series
from services.logger import rolling, store
from services.logger.rolling import roll_step
from services.logger.store import Store, row_of
from tests.support.records import make_record
from tests.support.varied import varied

pytestmark = pytest.mark.process

NOW = datetime.now(UTC)


class History:
    """A history; `roll()` does all that the worker would, `ask(…, exact=True)` reads rows alone."""

    def __init__(self, url, monkeypatch):
        self.engine = open_engine(url)
        self.store = Store(self.engine)
        self.patch = monkeypatch

    def roll(self, now=None):
        while roll_step(self.engine, now or time.time()):
            pass

    def ask(self, question, *args, exact=False, **options):
        self.patch.setattr(spans, "EXACT_ROWS", 1 << 40 if exact else -1)
        with self.engine.connect() as connection:
            return question(connection, *args, **options)

    def due(self, span=HOUR):
        with self.engine.connect() as connection:
            query = select(rollups_due.c.start_s).where(rollups_due.c.span_s == span)
            return set(connection.scalars(query))

    def contents(self):
        """All rollups, in an order of their own."""
        with self.engine.connect() as connection:
            rows = [*connection.execute(select(rollups)), *connection.execute(select(prompt_rollups))]
        return sorted(repr([f"{v:.9g}" if isinstance(v, float) else v for v in row]) for row in rows)


@pytest.fixture
def history(history_url, monkeypatch):
    made = History(history_url, monkeypatch)
    yield made
    made.engine.dispose()


@pytest.fixture
def filled(history):
    history.store.save(varied(500, NOW, days=2.1))
    history.roll()
    return history


SPANS = {
    "everything": Filters(),
    "between two minutes": Filters(
        since=NOW - timedelta(hours=49, minutes=5), until=NOW - timedelta(hours=3, minutes=40)
    ),
    "less than an hour": Filters(since=NOW - timedelta(minutes=20)),
    "one agent and model": Filters(kind="generation", agent="hermes", model="qwen3:8b"),
}


def test_figures_are_those_of_the_rows(filled):
    """In all and in every grouping: counts and sums exactly, percentiles within the histogram's error."""
    for span, by in itertools.product(SPANS.values(), (None, *reports.GROUPS)):
        exact = filled.ask(reports.figures, span, by, exact=True)
        found = filled.ask(reports.figures, span, by)
        assert [row["group"] for row in found] == [row["group"] for row in exact]
        for row, wanted in zip(found, exact, strict=True):
            assert_same(row, wanted)


def assert_same(row, wanted):
    assert row.keys() == wanted.keys()
    assert row["hits"] == wanted["hits"]
    for name in set(row) - {"hits", "ttft_ms", "total_ms", "group"}:
        assert row[name] == about(wanted[name]), name
    for name in ("ttft_ms", "total_ms"):
        assert row[name].keys() == wanted[name].keys()
        for temperature, figures in row[name].items():
            assert figures["count"] == wanted[name][temperature]["count"]
            for share in ("p50", "p95", "p99"):
                close(figures[share], wanted[name][temperature][share])


def about(value):
    """Sums of fractions differ in their last digits by the order of adding."""
    return pytest.approx(value, rel=1e-9) if isinstance(value, float) else value


def close(value, exact):
    bounded = min(max(exact, histogram.LEAST_MS), histogram.middle(histogram.BUCKETS - 1))
    assert value == pytest.approx(bounded, rel=histogram.RELATIVE_ERROR)


QUESTIONS = (
    reports.hit_rate, reports.losses, reports.session_lengths, reports.request_sizes, repeats.message_sizes,
)  # fmt: skip


def test_distributions_and_losses_are_those_of_the_rows(filled):
    """Losses by cause, hit rate by hour, lengths and sizes."""
    for chosen, question in itertools.product(SPANS.values(), QUESTIONS):
        exact, found = filled.ask(question, chosen, exact=True), filled.ask(question, chosen)
        assert len(found) == len(exact), question.__name__
        for row, wanted in zip(found, exact, strict=True):
            assert row == {name: about(value) for name, value in wanted.items()}, question.__name__


def test_shared_prompts_are_those_of_the_rows(filled):
    """Which are shared, and who shares them: distinct sessions do not add up, and are not added up."""
    for chosen, name in itertools.product(SPANS.values(), ("system_hash", "tools_hash")):
        exact = filled.ask(reports.shared, chosen, name, exact=True)
        assert filled.ask(reports.shared, chosen, name) == exact
        hashes = [row["hash"] for row in exact]
        assert filled.ask(reports.sharers, chosen, name, hashes) == filled.ask(
            reports.sharers, chosen, name, hashes, exact=True
        )


def test_series_are_those_of_the_rows(filled):
    """The same steps, counts, reuse and losses; the time to the first token within the histogram's error."""
    for step_s in (900, HOUR, SIX_HOURS):
        assert_same_series(filled, step_s)


def assert_same_series(filled, step_s):
    chosen = Filters(kind="generation", since=NOW - timedelta(hours=49, minutes=10))
    exact = filled.ask(series, chosen, step_s, NOW, exact=True)
    found = filled.ask(series, chosen, step_s, NOW)
    assert found.keys() == exact.keys()
    for name in ("t", "requests", "predicted_reuse", "measured_reuse"):
        assert found[name] == [about(value) for value in exact[name]], name
    assert found["lost_s"].keys() == exact["lost_s"].keys()
    for cause, values in found["lost_s"].items():
        assert values == [about(value) for value in exact["lost_s"][cause]]
    for share, values in found["ttft_ms"].items():
        for value, wanted in zip(values, exact["ttft_ms"][share], strict=True):
            assert (value is None) == (wanted is None)
            if wanted is not None:
                close(value, wanted)


def test_few_rows_are_read_themselves(filled):
    """Then percentiles are exact, and the report says so."""
    with filled.engine.connect() as connection:
        assert reports.percentile_error(connection, Filters()) == 0.0
    assert filled.ask(reports.percentile_error, Filters()) == histogram.RELATIVE_ERROR
    assert filled.ask(reports.percentile_error, Filters(session="s1")) == 0.0


def test_what_is_due_is_read_from_the_rows(history):
    """Answers do not depend on how far the worker is: none rolled, some, all."""
    history.store.save(varied(120, NOW, days=1.2, seed=2))
    exact = history.ask(reports.figures, Filters(), exact=True)[0]["requests"], 120
    for _ in range(12):
        assert history.ask(reports.figures, Filters())[0]["requests"] == exact[0] == exact[1]
        for _ in range(6):
            roll_step(history.engine, time.time())


def test_late_repeated_and_pruned_rows_leave_what_a_recomputation_gives(history):
    """However rows came and went, the rollups are what rolling anew from the rows makes of them."""
    rows = varied(300, NOW, days=1.6, seed=3)
    history.store.save(rows[::2])
    history.roll()
    history.store.save(rows[1::2])
    history.store.save(rows[:40])
    lost = make_record(received_at=rows[5].received_at + 1, status="proxy_lost", agent=None)
    history.store.save([lost])
    history.roll()
    history.store.save(
        [make_record(id=lost.id, received_at=lost.received_at - 5_000_000, status="completed")]
    )
    with history.engine.begin() as connection:
        connection.execute(text("DELETE FROM requests WHERE agent = 'codex' AND hit = 'none'"))
    history.roll()
    assert history.due() <= {int(time.time()) // HOUR * HOUR, int(time.time()) // HOUR * HOUR - HOUR}
    kept = history.contents()
    with history.engine.begin() as connection:
        for table in (rollups, prompt_rollups):
            connection.execute(table.delete())
        first = rows[0].received_at // 3_600_000 * HOUR - 2 * HOUR
        for hour in range(first, int(time.time()), HOUR):
            connection.execute(rollups_due.insert(), {"span_s": HOUR, "start_s": hour})
    history.roll()
    assert kept == history.contents()


def test_rows_go_and_their_sums_with_them(filled):
    """Nothing is left of a history that was pruned whole."""
    with filled.engine.begin() as connection:
        connection.execute(text("DELETE FROM requests"))
    filled.roll(time.time() + 2 * DAY)
    assert filled.contents() == []
    assert filled.due() == filled.due(DAY) == set()


def test_a_running_hour_is_left_to_the_rows(history):
    """It would be computed over and over; its mark stays until it is over."""
    history.store.save([make_record(received_at=round(time.time() * 1_000))])
    now = time.time()
    assert not roll_step(history.engine, now)
    assert roll_step(history.engine, now + HOUR + 60)


def test_a_migration_marks_the_history_that_is_there(history, history_url):
    """Whoever had rows before has right reports at once, and rollups as soon as the worker came round."""
    history.store.save(varied(50, NOW, days=0.5, seed=4))
    migrate.downgrade(history_url, "0004")
    migrate.upgrade(history_url)
    marked = history.due()
    with history.engine.connect() as connection:
        times = connection.scalars(select(func.min(history_requests().c.received_at)))
        assert int(times.one().timestamp()) // HOUR * HOUR in marked
    assert history.ask(reports.figures, Filters())[0]["requests"] == 50
    history.roll()
    assert history.ask(reports.figures, Filters())[0]["requests"] == 50


def history_requests():
    from services.history.tables import requests

    return requests


def test_a_row_committed_while_its_hour_is_summed_leaves_its_mark(postgres_url, monkeypatch):
    """The worst order on PostgreSQL: written before, seen by nobody until after."""
    migrate.upgrade(postgres_url)
    history = History(postgres_url, monkeypatch)
    rows = varied(40, NOW - timedelta(hours=3), days=0.02, seed=5)
    history.store.save(rows[:30])
    late = [row_of(row, postgres=True) for row in rows[30:]]
    other = open_engine(postgres_url)
    with other.connect() as connection:
        connection.begin()  # COPY goes past SQLAlchemy, which would else see nothing to commit
        store._copy(connection, late)
        history.roll()
        connection.commit()
    assert history.due()
    assert history.ask(reports.figures, Filters())[0]["requests"] == 40
    history.roll()
    assert not history.due()
    assert history.ask(reports.figures, Filters())[0]["requests"] == 40
    history.engine.dispose()
    other.dispose()


def test_one_worker_at_a_time_sums(postgres_url, monkeypatch):
    """The second leaves the step to the first, and does not wait."""
    migrate.upgrade(postgres_url)
    history = History(postgres_url, monkeypatch)
    history.store.save(varied(5, NOW - timedelta(hours=3), days=0.02, seed=6))
    other = open_engine(postgres_url)
    with other.begin() as connection:
        assert rolling._alone(connection)
        assert not roll_step(history.engine, time.time())
    assert roll_step(history.engine, time.time())
    history.engine.dispose()
    other.dispose()

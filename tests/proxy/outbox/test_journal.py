"""The journal: what a killed process leaves, who may take it, and what happens without a folder."""

import signal
import subprocess
import sys
import threading
from contextlib import contextmanager

import pytest

from services.proxy.outbox import journal as module
from services.proxy.outbox.journal import Journal, leftovers
from services.record import Record, encode

CHILD = """
import sys, time
from pathlib import Path
from services.proxy.outbox.journal import Journal
from services.record import Record, encode
journal = Journal(Path(sys.argv[1]))
journal.start()
for name in ("a", "b", "c"):
    lost = Record(id=name, received_at=1, status="proxy_lost")
    journal.open(lost, encode(lost))
journal.release("b")
print("ready", flush=True)
time.sleep(60)
"""


@contextmanager
def child(folder):
    """A process with two open requests in its journal."""
    process = subprocess.Popen([sys.executable, "-c", CHILD, str(folder)], stdout=subprocess.PIPE)
    assert process.stdout is not None
    try:
        assert process.stdout.readline() == b"ready\n"
        yield process
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


@pytest.fixture
def journal(tmp_path):
    made = Journal(tmp_path / "journal")
    made.start()
    yield made
    made.close()


def open_one(journal, name, **fields):
    lost = Record(id=name, received_at=1, status="proxy_lost", **fields)
    journal.open(lost, encode(lost))


def taken(folder):
    """Take over what dead processes left, as the next start does."""
    with leftovers(folder) as (records, paths):
        for path in paths:
            path.unlink()
        return sorted(record.id for record in records)


@pytest.mark.process
def test_requests_open_in_a_killed_process_are_found_once(tmp_path):
    """After kill -9 the open requests are there for the first who looks, and for nobody after."""
    with child(tmp_path) as process:
        process.send_signal(signal.SIGKILL)
        process.wait()

        assert taken(tmp_path) == ["a", "c"]
        assert taken(tmp_path) == []
        assert list(tmp_path.iterdir()) == []


@pytest.mark.process
def test_a_live_process_keeps_its_journal(tmp_path):
    """Nobody takes the requests of a process that lives."""
    with child(tmp_path):
        assert taken(tmp_path) == []
        assert len(list(tmp_path.iterdir())) == 1


def test_two_who_start_together_take_a_journal_once(tmp_path):
    """While one holds the leftovers another finds nothing."""
    dead = Journal(tmp_path)
    dead.start()
    open_one(dead, "a")
    dead.close()

    with leftovers(tmp_path) as (first, _), leftovers(tmp_path) as (second, _):
        assert [record.id for record in first] == ["a"]
        assert second == []


def test_an_interrupted_takeover_is_repeated(tmp_path):
    """A takeover that ends before the rows are safe leaves the file to the next."""
    dead = Journal(tmp_path)
    dead.start()
    open_one(dead, "a")
    dead.close()

    with leftovers(tmp_path):
        pass

    assert taken(tmp_path) == ["a"]


def test_a_clean_end_leaves_nothing(tmp_path):
    """With every row safe the file goes."""
    journal = Journal(tmp_path)
    journal.start()
    open_one(journal, "a")
    journal.release("a")
    journal.close()

    assert list(tmp_path.iterdir()) == []


def test_it_grows_with_the_requests_under_way(journal, tmp_path):
    """More requests than one step holds are all journalled, and slots are used again."""
    names = [f"r{number:05d}" for number in range(module.STEP * 2 + 5)]
    for _ in range(2):
        for name in names:
            open_one(journal, name)
        assert len(journal) == len(names)
        for name in names:
            journal.release(name)

    for name in names:
        open_one(journal, name)
    size = next((tmp_path / "journal").iterdir()).stat().st_size
    journal.close()

    assert size == 3 * module.STEP * module.SLOT
    assert taken(tmp_path / "journal") == names
    assert journal.unjournalled == 0


def test_slots_are_freed_from_another_thread(journal):
    """The outbox's thread frees what the event loop opened."""
    for number in range(1_000):
        open_one(journal, str(number))
    thread = threading.Thread(target=lambda: [journal.release(str(number)) for number in range(1_000)])
    thread.start()
    for number in range(1_000, 2_000):
        open_one(journal, str(number))
    thread.join()

    assert len(journal) == 1_000


def test_a_row_too_long_for_a_slot_is_counted(journal):
    """Nothing is cut to fit: a cut row would be no row."""
    open_one(journal, "long", endpoint="/" + "x" * module.SLOT)

    assert journal.unjournalled == 1
    assert len(journal) == 0


def test_without_a_folder_requests_go_on_unjournalled(tmp_path):
    """A folder that cannot be made costs the journal alone."""
    (tmp_path / "file").write_text("")
    journal = Journal(tmp_path / "file" / "journal")
    journal.start()
    open_one(journal, "a")
    journal.release("a")

    assert journal.error
    assert journal.unjournalled == 1
    journal.close()


def test_a_bounded_number_of_slots(journal, monkeypatch):
    """Requests beyond the bound are counted, not kept."""
    monkeypatch.setattr(module, "MAX_SLOTS", module.STEP)
    for number in range(module.STEP + 3):
        open_one(journal, str(number))

    assert len(journal) == module.STEP
    assert journal.unjournalled == 3


def test_a_damaged_slot_does_not_hide_the_others(tmp_path):
    """A slot that is no row is skipped."""
    dead = Journal(tmp_path)
    dead.start()
    for name in ("a", "b"):
        open_one(dead, name)
    dead.close()
    path = next(tmp_path.iterdir())
    content = path.read_bytes()
    path.write_bytes(content.replace(b'"id":"a"', b'"id":"\xff"', 1))

    assert taken(tmp_path) == ["b"]

"""The spool: order, bounds, several writers, and disks that refuse."""

import signal
import subprocess
import sys

import msgspec
import pytest

from services.proxy.outbox.spool import Spool
from services.record import Record, encode


def row(number, size=100):
    """An encoded row of about `size` bytes."""
    return encode(Record(id=f"{number:06d}", received_at=1, status="completed", scope="x" * size))


def ids(rows):
    return [int(msgspec.json.decode(line)["id"]) for line in rows]


def replay(spool):
    """Every row the spool gives out, oldest segment first; the folder is emptied."""
    found = []
    while True:
        with spool.oldest() as segment:
            if segment is None:
                return ids(found)
            rows, path = segment
            found += rows
            path.unlink()


@pytest.fixture
def folder(tmp_path):
    return tmp_path / "spool"


def test_rows_come_back_in_order(folder):
    """What was written first is replayed first, over several segments."""
    spool = Spool(folder, 1 << 20)
    for number in range(1_000):
        assert spool.write([row(number, 400)])

    assert spool.segments > 1
    assert spool.records == 1_000
    assert replay(spool) == list(range(1_000))
    spool.measure()
    assert (spool.records, spool.bytes, spool.segments) == (0, 0, 0)


def test_the_oldest_rows_give_way_and_are_counted(folder):
    """A full spool holds the newest rows, never more bytes than it may, and counts every row that went."""
    spool = Spool(folder, 16 << 10)
    for number in range(500):
        assert spool.write([row(number)])
        assert spool.bytes <= 16 << 10

    kept = replay(spool)
    assert kept == list(range(500 - len(kept), 500))
    assert spool.dropped == 500 - len(kept)
    assert len(kept) > 50


def test_rows_larger_than_the_spool_are_refused(folder):
    """A batch that can never fit does not empty the folder first."""
    spool = Spool(folder, 2_000)
    assert spool.write([row(1)])

    assert not spool.write([row(2, 5_000)])
    assert spool.error == "full"
    assert replay(spool) == [1]


def test_no_spool_at_all(folder):
    """With a bound of zero everything is refused."""
    assert not Spool(folder, 0).write([row(1)])


def test_a_folder_that_cannot_be_written(tmp_path):
    """The error is kept for the status; nothing is raised."""
    (tmp_path / "file").write_text("")
    spool = Spool(tmp_path / "file" / "spool", 1 << 20)

    assert not spool.write([row(1)])
    assert spool.error == "Not a directory"
    with spool.oldest() as segment:
        assert segment is None


def test_a_torn_last_row_is_left_out(folder):
    """What a killed writer left half-written is neither replayed nor a hindrance, and the segment goes."""
    spool = Spool(folder, 1 << 20)
    spool.write([row(1), row(2)])
    spool.close()
    path = next(folder.iterdir())
    path.write_bytes(path.read_bytes()[:-20])

    later = Spool(folder, 1 << 20)
    later.measure()
    assert later.segments == 1
    assert replay(later) == [1]
    assert later.dropped == 0
    assert list(folder.iterdir()) == []


def test_a_damaged_row_is_counted(folder):
    """A line in the middle that is no row is lost, and is counted."""
    spool = Spool(folder, 1 << 20)
    spool.write([row(1), row(2), row(3)])
    spool.close()
    path = next(folder.iterdir())
    lines = path.read_bytes().split(b"\n")
    lines[1] = b"\x00" * 40
    path.write_bytes(b"\n".join(lines))

    later = Spool(folder, 1 << 20)
    assert replay(later) == [1, 3]
    assert later.dropped == 1


def test_a_segment_being_written_is_left_to_its_writer(folder):
    """Of two processes with one folder neither replays what the other still writes; both see all of it."""
    first, second = Spool(folder, 1 << 20), Spool(folder, 1 << 20)
    first.write([row(1)])
    second.write([row(2)])

    assert second.records == 2
    assert replay(second) == [2]
    first.close()
    assert replay(second) == [1]


def test_the_bound_holds_for_several_writers(folder):
    """The folder as a whole is bounded, whoever writes."""
    spools = [Spool(folder, 16 << 10) for _ in range(3)]
    for number in range(450):
        assert spools[number % 3].write([row(number)])
    total = sum(path.stat().st_size for path in folder.iterdir())

    assert total <= 16 << 10
    kept = sum(path.read_bytes().count(b"\n") for path in folder.iterdir())
    assert kept + sum(spool.dropped for spool in spools) == 450


WRITER = """
import resource, sys
from pathlib import Path
from services.proxy.outbox.spool import Spool
from services.record import Record, encode
resource.setrlimit(resource.RLIMIT_FSIZE, (4_000, 4_000))
rows = [encode(Record(id=f"{n:06d}", received_at=1, status="completed", scope="x" * 900)) for n in range(12)]
spool = Spool(Path(sys.argv[1]), 1 << 20)
print([spool.write(rows[:3]), spool.write(rows[3:6]), spool.error], flush=True)
sys.stdin.read()
"""


@pytest.mark.process
def test_a_write_that_fails_half_way_is_cut_back(folder):
    """A disk that takes only part of a batch keeps none of it; what was there stays whole."""
    result = subprocess.run(
        [sys.executable, "-c", WRITER, str(folder)], input=b"", capture_output=True, check=True, timeout=60
    )

    assert result.stdout.decode().strip() == "[True, False, 'File too large']"
    assert replay(Spool(folder, 1 << 20)) == [0, 1, 2]


@pytest.mark.process
def test_a_killed_writer_s_rows_are_replayed_by_another(folder):
    """Its lock goes with it."""
    process = subprocess.Popen(
        [sys.executable, "-c", WRITER, str(folder)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    with process:
        assert process.stdout is not None
        process.stdout.readline()
        spool = Spool(folder, 1 << 20)
        assert replay(spool) == []
        process.send_signal(signal.SIGKILL)
        process.wait()

        assert replay(spool) == [0, 1, 2]


def test_a_row_is_on_the_disk_before_it_counts_as_kept(folder, monkeypatch):
    """Its journal slot is freed next; what a power cut takes then would be nowhere."""
    synced = []
    monkeypatch.setattr("services.proxy.outbox.spool._sync", synced.append)
    spool = Spool(folder, 1 << 20)
    assert spool.write([row(1)])
    assert spool.write([row(2)])
    assert len(synced) == 2
    spool.close()


def test_a_disk_that_fails_to_sync_keeps_nothing_half(folder, monkeypatch):
    """The batch is cut back off, and the next one stands whole behind what was there."""
    spool = Spool(folder, 1 << 20)
    assert spool.write([row(1)])

    def fail(fd):
        raise OSError(5, "Input/output error")

    with monkeypatch.context() as broken:
        broken.setattr("services.proxy.outbox.spool._sync", fail)
        assert not spool.write([row(2)])
    assert spool.error == "Input/output error"
    assert spool.write([row(3)])
    assert replay(spool) == [1, 3]

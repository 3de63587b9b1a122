"""The buffer's promise: bounded, in order, and no row is out of the count before it is safe elsewhere."""

from services.proxy.outbox.buffer import BATCH_ROWS, Buffer


def filled(count, max_bytes=1 << 20):
    """A buffer with that many rows of ten bytes, and those that gave way."""
    buffer = Buffer(max_bytes)
    gone = [old for number in range(count) for old in buffer.put((str(number), b"0123456789"))]
    return buffer, gone


def test_a_batch_is_the_oldest_rows_in_order():
    """At most a batch's worth at a time; nothing is left out between two."""
    buffer, _ = filled(BATCH_ROWS + 3)

    taken = [*buffer.take(), *buffer.take()]
    assert [name for name, _ in taken] == [str(number) for number in range(BATCH_ROWS + 3)]
    assert buffer.take() == []


def test_rows_that_were_taken_count_until_they_are_settled():
    """Between the buffer and the queue a row is neither; whoever adds up must still find it."""
    buffer, _ = filled(5)

    buffer.take()
    assert len(buffer) == 5
    buffer.settle()
    assert len(buffer) == 0


def test_the_oldest_rows_give_way():
    """Bytes are the bound, and each row that goes is handed back to be counted."""
    buffer, gone = filled(12, max_bytes=100)

    assert [name for name, _ in gone] == ["0", "1"]
    assert (len(buffer), buffer.bytes) == (10, 100)

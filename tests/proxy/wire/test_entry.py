"""A flow that has ended leaves its row, whatever else goes wrong with it."""

from types import SimpleNamespace

from services.proxy.backends.backend import Backend
from services.proxy.flow import Flow
from services.proxy.wire.entry import leave


def test_a_row_that_cannot_be_shown_holds_no_other_up():
    """Many rows are booked in one go at the end of the process."""
    rows = []

    def fail(_):
        raise ZeroDivisionError

    ctx = SimpleNamespace(
        key=b"k" * 32,
        settings=SimpleNamespace(tenant_header=None),
        outbox=SimpleNamespace(put=rows.append),
        metrics=SimpleNamespace(observe=fail),
    )
    flow = Flow(backend=Backend(name="b", url="http://b"), method="GET", path="/")
    leave(ctx, flow, 0)
    assert [row.id for row in rows] == [flow.id]

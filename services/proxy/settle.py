"""What a request's answer proves: measured reuse, the causes of what was not reused, and their cost.

Pure steps over a `Flow`; what they know besides comes through `Knowledge`, the few long-lived parts they read
and teach. `foresee` runs before the headers leave, `settle` when the answer ended; neither raises, neither waits.
"""

from typing import Protocol

from services.proxy.explain import Explanations
from services.proxy.flow import Flow
from services.proxy.row import headline, record_of
from services.proxy.speed import Speeds
from services.proxy.usage import measure

__all__ = ["Knowledge", "foresee", "headline", "record_of", "settle"]


class Knowledge(Protocol):
    """The long-lived parts of the process that settling reads and teaches."""

    @property
    def speeds(self) -> Speeds:
        """Learnt prefill rates."""

    @property
    def explanations(self) -> Explanations:
        """Where the explanation is kept for whoever asks."""


def foresee(flow: Flow, ctx: Knowledge) -> None:
    """Name the causes known before the answer; fills `flow.causes`."""


def settle(flow: Flow, ctx: Knowledge) -> None:
    """Take the engine's figures, finish the causes and their cost; fills `measured`, `causes`, `lost_*`."""
    if flow.outcome is not None and flow.dialect is not None:
        flow.measured = measure(flow.outcome, flow.dialect, flow.backend)
    if flow.verdict is not None:
        ctx.explanations.put(flow)

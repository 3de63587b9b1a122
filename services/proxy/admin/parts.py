"""What the admin routes need of the proxy: a view on its long-lived parts, each owned elsewhere."""

from collections.abc import Sequence
from typing import Protocol

from services.proxy.admin.metrics import Metrics
from services.proxy.admin.recent import Recent
from services.proxy.admin.strips import Strips
from services.proxy.answers.cache import ResponseCache
from services.proxy.backends.backend import Backend
from services.proxy.live import Live
from services.proxy.outbox import Outbox
from services.proxy.placing.texts import Texts
from services.proxy.placing.tokens import Estimator
from services.proxy.settling.billing import Billing
from services.proxy.settling.explain import Explanations
from services.proxy.settling.speed import Speeds
from services.proxy.splicing.fix import Breakpoints
from services.proxy.state.base import State
from services.settings import Settings


class Parts(Protocol):
    """`services.proxy.context.Context`, as far as it is read here."""

    settings: Settings
    key: bytes
    state: State
    texts: Texts
    estimator: Estimator
    speeds: Speeds
    explanations: Explanations
    billing: Billing
    breakpoints: Breakpoints | None  # None where that is off
    outbox: Outbox
    metrics: Metrics
    recent: Recent
    strips: Strips
    live: Live
    answers: ResponseCache | None  # None where it is off, or has no Redis

    @property
    def backends(self) -> Sequence[Backend]:
        """The model servers, the first one being the default."""

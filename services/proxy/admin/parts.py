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

    @property
    def settings(self) -> Settings:
        """The settings of this process."""

    @property
    def outbox(self) -> Outbox:
        """Rows on their way out."""

    @property
    def state(self) -> State:
        """The hit state."""

    @property
    def billing(self) -> Billing:
        """What requests to clouds cost."""

    @property
    def breakpoints(self) -> Breakpoints | None:
        """What puts cache breakpoints into requests; None where that is off."""

    @property
    def explanations(self) -> Explanations:
        """Explanations of the latest requests."""

    @property
    def metrics(self) -> Metrics:
        """Counters of this process."""

    @property
    def recent(self) -> Recent:
        """The rows that ended last here."""

    @property
    def backends(self) -> Sequence[Backend]:
        """The model servers, the first one being the default."""

    @property
    def strips(self) -> Strips:
        """How the latest prompts were made up."""

    @property
    def live(self) -> Live:
        """The flows under way."""

    @property
    def speeds(self) -> Speeds:
        """How fast each model prefills."""

    @property
    def estimator(self) -> Estimator:
        """What was learnt about each model's tokens."""

    @property
    def answers(self) -> ResponseCache | None:
        """The response cache; None where it is off or has no Redis."""

    @property
    def texts(self) -> Texts:
        """Prompt texts this process remembers."""

    @property
    def key(self) -> bytes:
        """The installation key."""

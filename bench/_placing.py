"""The place step without the shared state, whose answer is at hand here: text, query, comparison, verdict."""

from services.proxy.backends.backend import Backend
from services.proxy.dialects.base import Dialect
from services.proxy.flow import Flow, Verdict
from services.proxy.identity import identify
from services.proxy.placing.place import query_of
from services.proxy.placing.texts import Texts
from services.proxy.placing.tokens import Estimator
from services.proxy.placing.verdict import decide
from services.proxy.prompt import Prompt
from services.proxy.state.base import Past, Query, Sighting
from services.settings import Settings


class Placing:
    """One process's memory of one conversation."""

    def __init__(self, dialect: Dialect) -> None:
        self._dialect = dialect
        self._backend = Backend(name="bench", url="http://127.0.0.1:1")
        self._settings = Settings()
        self._texts = Texts(256 << 20, 3600, enabled=True)
        self._estimator = Estimator()
        self._sighting = Sighting()

    def first(self, prompt: Prompt) -> None:
        """Take in the turn that `next` continues."""
        query = self._query(prompt)
        assert query.node is not None
        self._texts.put(prompt, self._dialect)
        self._sighting = Sighting(system_seen=True, tools_seen=True, candidates=[Past(node=query.node)])

    def next(self, prompt: Prompt) -> Verdict:
        """Place the next turn."""
        query = self._query(prompt)
        self._texts.put(prompt, self._dialect)
        return decide(prompt, query, self._sighting, self._texts, self._estimator)

    def _query(self, prompt: Prompt) -> Query:
        flow = Flow(backend=self._backend, method="POST", path="/", dialect=self._dialect, prompt=prompt)
        flow.identity = identify([], prompt, b"k" * 32, None)
        return query_of(flow, self._settings, self._estimator)

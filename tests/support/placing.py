"""Requests placed without HTTP: real dialects, real state, one call a request."""

import json
from typing import Any

from services.proxy.backends.backend import Backend
from services.proxy.chunking.analysis import Analyser
from services.proxy.dialects import for_route
from services.proxy.flow import Flow
from services.proxy.identity import identify
from services.proxy.later import Later
from services.proxy.placing.place import marks_of, place, query_of
from services.proxy.placing.texts import Texts
from services.proxy.placing.tokens import Estimator
from services.proxy.state.base import Settled, State
from services.proxy.state.local import LocalState
from services.settings import Settings
from tests.support.queries import KEY

CHAT = "/v1/chat/completions"


class Proxy:
    """What one proxy process would know; `send` places a body and returns its flow."""

    def __init__(self, state: State | None = None, *, keep_text: bool = True, **settings: Any) -> None:
        self.settings = Settings(keep_text=keep_text, **settings)
        self.key = KEY
        self.state = state or LocalState(self.settings.state_max_bytes)
        self.texts = Texts(64 << 20, 3600, keep_text)
        self.estimator = Estimator()
        self.later = Later()
        self.backend = Backend(name="engine:1", url="http://engine:1")
        self._analyser = Analyser(1 << 20)

    def read(self, body: Any, headers: dict[str, str] | None = None, path: str = CHAT) -> Flow:
        """A flow as it is when its body has been read."""
        raw = body if isinstance(body, bytes) else json.dumps(body, ensure_ascii=False).encode()
        pairs = [(k.encode(), v.encode()) for k, v in (headers or {}).items()]
        dialect = for_route("POST", path)
        assert dialect is not None, path
        flow = Flow(backend=self.backend, method="POST", path=path, headers=pairs, dialect=dialect)
        flow.prompt = self._analyser.read(dialect, raw, self.backend.name)
        flow.identity = identify(pairs, flow.prompt, self.key, self.settings.tenant_header)
        return flow

    async def send(self, body: Any, headers: dict[str, str] | None = None, path: str = CHAT) -> Flow:
        """Place a request and settle it at once."""
        flow = self.read(body, headers, path)
        await place(flow, self)
        assert flow.verdict is not None
        settled = Settled(
            id=flow.id, lineage=flow.verdict.lineage, ended=flow.received_at, status="completed"
        )
        self.state.settle(query_of(flow, self.settings, self.estimator), settled, marks_of(flow, self))
        return flow

    async def chat(self, *messages: dict[str, Any], session: str | None = None, **more: Any) -> Flow:
        """Place an OpenAI chat request of model "m"."""
        headers = {"X-MetalAnchor-Session": session} if session else {}
        return await self.send({"model": "m", "messages": list(messages), **more}, headers)


def system(text: Any) -> dict[str, Any]:
    return {"role": "system", "content": text}


def user(text: Any) -> dict[str, Any]:
    return {"role": "user", "content": text}


def assistant(text: Any, **more: Any) -> dict[str, Any]:
    return {"role": "assistant", "content": text, **more}


def tool_result(text: str) -> dict[str, Any]:
    return {"role": "tool", "tool_call_id": "call_1", "content": text}


def calls(arguments: str, name: str = "weather") -> dict[str, Any]:
    function = {"name": name, "arguments": arguments}
    return assistant(None, tool_calls=[{"id": "call_1", "type": "function", "function": function}])


def tool(name: str, description: str = "does it", **parameters: Any) -> dict[str, Any]:
    function = {"name": name, "description": description, "parameters": parameters or {"type": "object"}}
    return {"type": "function", "function": function}


def seen(flow: Flow) -> list[str]:
    """The breakers of a flow as ``change path@offset``."""
    assert flow.verdict is not None
    return [f"{b.change} {b.path}@{b.offset}" for b in flow.verdict.breakers]

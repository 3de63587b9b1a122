"""A working day on one machine as its dashboard shows it: several agents, losses with causes, live calls."""

import random
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from services.record import Record
from tests.support.admin import Office, fill
from tests.support.backend import Backend, Received, Reply
from tests.support.backend.script import as_json, sse
from tests.support.proxy import Proxy
from tests.support.records import make_record
from tests.support.samples import fill_samples

DAY_MS = 86_400_000
AGENTS = {
    "openclaw": ("qwen3:14b", "timestamp", "system[0]"),
    "claude-code": ("qwen3:14b", "client_attribution_token", "system[0]"),
    "hermes": ("qwen3:14b", "evicted_by", None),
    "opencode": ("gemma3:27b", "tool_result_pruned", "messages[14]"),
    "open-webui": ("gemma3:27b", None, None),
}
SLOW = "openclaw"  # it loses the most time, by the clock in its prompt


def day() -> list[Record]:
    """Requests of the last two days, the last hour among them, oldest first."""
    pick = random.Random(4)
    now = time.time_ns() // 1_000_000
    ages = sorted((int(pick.random() ** 3 * 2 * DAY_MS) for _ in range(420)), reverse=True)
    parents: dict[str, str] = {}
    return [_turn(pick, now - age, parents) for age in ages]


def _turn(pick: random.Random, at: int, parents: dict[str, str]) -> Record:
    agent = pick.choices(list(AGENTS), [5, 4, 6, 3, 2])[0]
    model, cause, place = AGENTS[agent]
    tokens = pick.randint(2_000, 48_000)
    broken = cause is not None and pick.random() < (0.6 if agent == SLOW else 0.15)
    share = pick.uniform(0.02, 0.2) if broken else pick.uniform(0.85, 0.99)
    cached = int(tokens * share)
    prefill = (tokens - cached) / 0.7  # tokens a millisecond of a laptop
    lost = int((tokens - cached) * 0.9) if broken else 0
    session = f"{agent}-{at // (DAY_MS // 6)}"
    causes = [] if cause is None or not broken else [_cause(cause, place, parents)]
    record = make_record(
        received_at=at, agent=agent, model=model, session=session, lineage=session, prompt_tokens=tokens,
        cached_tokens=cached, predicted_tokens=cached, predicted_reuse=round(share, 4) if place else 0.97,
        prefill_ms=prefill, ttft_ms=prefill + 40, total_ms=prefill + 4_000, cause=cause if broken else None,
        causes=causes, diverged_at=place if broken else None, byte_offset=1_204 if broken and place else None,
        lost_tokens=lost or None, lost_ms=lost / 0.7 if lost else None, parent_id=parents.get(session),
        hit="prefix" if not broken else pick.choice(["system+tools", "tools_only", "none"]), fixes=[],
        relation="append" if not broken else "rewrite", message_count=14, chunk_count=16, reused_chunks=15,
        chunk_hashes="0123456789abcdef" * 16, cached_source="usage", cached_field=
        "usage.prompt_tokens_details.cached_tokens", cached_confidence=1.0, evicted_by=None,
    )  # fmt: skip
    if broken:
        record.reused_chunks = 2
    parents[session] = parents["last"] = record.id
    return record


def _cause(code: str, place: str | None, parents: dict[str, str]) -> dict[str, Any]:
    if code == "evicted_by":
        detail = {
            "kind": "side_request",
            "request": parents.get("last"),
            "agent": "open-webui",
            "session": None,
        }
        return {"code": code, "severity": "loss", "at": None, "detail": detail}
    return {
        "code": code,
        "severity": "break",
        "at": place,
        "detail": {"inserted": 8, "deleted": 8, "byte_offset": 1_204},
    }


class Gallery(Office):
    """A proxy over such a day, with a backend that answers chats, slowly where the model is ``slow``."""

    def say(self, text: str, clock: str, *, agent: str = "Hermes/1.2", model: str = "quick") -> str:
        """One turn with a clock in its system prompt; the id of its request."""
        system = f"You are a careful assistant.{' Never guess.' * 60} It is {clock}. Answer briefly."
        tools = [
            {
                "type": "function",
                "function": {"name": name, "description": f"{name} a file", "parameters": {"type": "object"}},
            }
            for name in ("read", "write", "search")
        ]
        messages = [{"role": "system", "content": system}, {"role": "user", "content": "Hello. " * 40}]
        messages += [{"role": "assistant", "content": "Hello."}, {"role": "user", "content": text}]
        value = {"model": model, "stream": True, "tools": tools, "messages": messages}
        answer = self.proxy.chat(value, [("User-Agent", agent), ("X-Session-Id", f"live-{model}")])
        assert answer.status == 200, answer.body
        return answer.ours["request-id"]


def answer(received: Received) -> Reply:
    """A streamed chat answer; `slow` models take seconds to their first token."""
    if received.method == "GET":
        return as_json({"version": "0.33.3"}) if received.path == "/api/version" else Reply(status=404)
    slow = received.json()["model"] == "slow"
    usage = {"prompt_tokens": 900, "completion_tokens": 3, "prompt_tokens_details": {"cached_tokens": 80}}
    pieces: list[Any] = [{"choices": [{"index": 0, "delta": {"content": f"word {n} "}}]} for n in range(8)]
    pieces += [{"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}]
    return sse(
        [*pieces, {"choices": [], "usage": usage}, "data: [DONE]\n\n"],
        first=2.0 if slow else 0.02,
        gap=0.25 if slow else 0.0,
    )


@pytest.fixture(scope="session")
def gallery(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gallery]:
    """One proxy with such a day behind it."""
    folder: Path = tmp_path_factory.mktemp("gallery")
    url = f"sqlite:///{folder / 'history.sqlite'}"
    records = day()
    fill(url, records)
    fill_samples(url)
    backend = Backend().start()
    backend.answer(answer)
    proxy = Proxy(folder, backend.url, database_url=url).start()
    yield Gallery(proxy, records)
    assert proxy.stop() == 0
    backend.stop()
    assert "Traceback" not in proxy.log.read_text()
    assert " failed: " not in proxy.log.read_text()

"""Why the real llama.cpp did not reuse a prompt: one slot, no host cache, so that each loss is a loss."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from services import engine
from services.probe import probe_blocking
from tests.engine.chat import Stack, Turn, system_prompt
from tests.support.proxy import Proxy, free_port
from tests.support.rows import wait_for

pytestmark = [pytest.mark.engine, pytest.mark.process, pytest.mark.timeout(300)]

ONE_SLOT = """
import sys
from pathlib import Path
from services import engine
from services.supervisor import leave_with_parent
leave_with_parent()
engine.HOST_CACHE_MIB = 0
engine.serve(int(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3]), 1)
"""
RULES = 18  # some 400 tokens: enough to tell cold from warm, and a third of the wait
COLD = 0.1  # of the prompt: at most the template's own first words are found again


class Narrow:
    """A real engine with one slot, at one address, that can be ended and launched again otherwise."""

    def __init__(self, folder: Path) -> None:
        self._folder, self._model, self._port = folder, engine.prepare_model(folder), free_port()
        self._process: subprocess.Popen[bytes] | None = None
        self.url = f"http://127.0.0.1:{self._port}"

    def start(self, context: int = 4096) -> None:
        """Launch it and wait until it answers."""
        line = [sys.executable, "-c", ONE_SLOT, str(self._port), str(self._model), str(context)]
        root, log = Path(engine.__file__).parent.parent, self._folder / "engine.log"
        env = {**os.environ, **engine.environment(self._folder)}
        with log.open("ab") as out:
            self._process = process = subprocess.Popen(line, stdout=out, stderr=out, cwd=root, env=env)
        wait_for(lambda: process.poll() is not None or _ready(self.url), 60.0)
        assert process.poll() is None, log.read_text()

    def stop(self) -> None:
        """End the process; nobody listens at its address then."""
        assert self._process is not None
        self._process.terminate()
        self._process.wait(15)

    def close(self) -> None:
        """End it and remove the model."""
        self.stop()
        self._model.unlink()


@pytest.fixture(scope="module")
def single(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Narrow]:
    """An engine with one slot that keeps nothing beside it."""
    made = Narrow(tmp_path_factory.mktemp("narrow"))
    try:
        made.start()
        yield made
    finally:
        made.close()


@pytest.fixture(scope="module")
def narrow(single: Narrow, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    """A proxy before it."""
    proxy = Proxy(tmp_path_factory.mktemp("proxy"), single.url).start()
    wait_for(lambda: proxy.json("/status")["backend"]["status"] == "up")
    yield Stack(proxy, single.url)
    assert proxy.stop() == 0


def _ready(url: str) -> bool:
    found = probe_blocking(url)
    return found is not None and found.kind == "llama-server" and "busy" not in found.facts


def say(text: str) -> dict[str, str]:
    return {"role": "user", "content": text}


def named(*names: str) -> list[dict[str, Any]]:
    parameters = {"type": "object", "properties": {"path": {"type": "string"}}}
    return [
        {"type": "function", "function": {"name": n, "description": n, "parameters": parameters}}
        for n in names
    ]


def explained(stack: Stack, turn: Turn) -> dict[str, Any]:
    return dict(stack.proxy.json(f"/api/requests/{turn.ours['request-id']}/explain"))


def codes(stack: Stack, turn: Turn) -> list[str]:
    return [cause["code"] for cause in explained(stack, turn)["causes"]]


def test_a_title_request_takes_the_only_slot(narrow: Stack) -> None:
    """The chat is a pure append, and yet cold: the request in between is named, not the text."""
    messages = [{"role": "system", "content": system_prompt("Gacrux", RULES)}, say("Name part 7.")]
    first = narrow.openai(messages)
    title = narrow.openai([say("Create a 3 word title for: Name part 7.")])
    messages += [{"role": "assistant", "content": first.text}, say("And part 14?")]
    second = narrow.openai(messages)

    assert second.measured_reuse < COLD
    assert second.row["relation"] == "append"
    assert second.row["predicted_reuse"] > 0.9
    assert second.ours["cause"] == second.row["cause"] == "evicted_by"
    assert second.row["evicted_by"] == title.ours["request-id"]
    assert second.row["lost_tokens"] == pytest.approx(first.prompt, abs=0.1 * first.prompt)
    assert second.row["lost_ms"] > 0


def test_a_clock_at_the_head(narrow: Stack) -> None:
    """New from its eleventh byte on: nothing was to be reused, nothing was, and the clock is named."""
    rules = system_prompt("Fawaris", RULES)
    narrow.openai([{"role": "system", "content": f"It is 10:15:07.\n{rules}"}, say("Go.")])
    changed = narrow.openai([{"role": "system", "content": f"It is 10:16:09.\n{rules}"}, say("Go.")])

    assert changed.measured_reuse < COLD
    assert changed.row["predicted_reuse"] == pytest.approx(changed.measured_reuse, abs=0.05)
    assert changed.row["cause"] == "timestamp"
    assert changed.row["lost_tokens"] > 0.7 * changed.prompt


def test_an_engine_that_was_started_anew(narrow: Stack, single: Narrow) -> None:
    """Twice between two turns of a chat, the second time with a smaller context: the text held each time."""
    messages = [{"role": "system", "content": system_prompt("Lesath", RULES)}, say("Name part 7.")]
    turns = [narrow.openai(messages)]
    for context in (4096, 2048):
        single.stop()
        single.start(context)
        messages += [{"role": "assistant", "content": turns[-1].text}, say(f"And part {context}?")]
        turns.append(narrow.openai(messages))
    after = narrow.openai([*messages, {"role": "assistant", "content": turns[-1].text}, say("Thanks.")])

    for turn in turns[1:]:
        assert (turn.row["relation"], turn.measured_reuse < COLD) == ("append", True)
        assert turn.row["predicted_reuse"] > 0.9
        assert turn.ours["cause"] == turn.row["cause"] == "model_reload"
        assert turn.row["lost_tokens"] > 0.9 * turns[0].prompt
    same, smaller = (explained(narrow, turn)["causes"][0]["detail"] for turn in turns[1:])
    assert (same["option"], same["evidence"] in {"new_process", "was_away"}) == (None, True)
    assert (smaller["option"], smaller["old"], smaller["new"]) == ("n_ctx", 4096, 2048)
    assert after.row.get("cause") is None
    assert after.measured_reuse > 0.9


def test_a_warm_conversation_has_no_cause(narrow: Stack) -> None:
    """What the engine keeps, text and answers included, is found again, and nothing is blamed."""
    messages = [{"role": "system", "content": system_prompt("Hadar", RULES)}, say("Name part 7.")]
    for number in range(3):
        turn = narrow.openai(messages)
        messages += [{"role": "assistant", "content": turn.text}, say(f"And part {number}?")]
        assert number == 0 or turn.row.get("cause") is None
    assert turn.measured_reuse > 0.9


def test_a_changed_attribution_block(narrow: Stack) -> None:
    """llama-server itself pins this token on /v1/messages, so the block goes through the chat route here."""
    head = "x-anthropic-billing-header: cc_version=2.1.90.aaa; cc_entrypoint=cli; cch={};\n"
    rules = system_prompt("Izar", RULES)
    narrow.openai([{"role": "system", "content": head.format("11111") + rules}, say("Go.")])
    changed = narrow.openai([{"role": "system", "content": head.format("22222") + rules}, say("Go.")])

    assert changed.measured_reuse < COLD
    assert changed.row["cause"] == "client_attribution_token"
    assert changed.row["diverged_at"] == "system"
    assert changed.row["lost_tokens"] > 0.7 * changed.prompt


def test_tools_in_another_order_are_named_whatever_the_template_does_with_them(narrow: Stack) -> None:
    system = {"role": "system", "content": system_prompt("Jabbah", RULES)}
    narrow.openai([system, say("Go.")], tools=named("read", "write"))
    changed = narrow.openai([system, say("Go.")], tools=named("write", "read"))
    assert changed.row["cause"] == "tool_reorder"
    assert changed.row["diverged_at"] == "tools[0]"


def test_a_late_edit(narrow: Stack) -> None:
    """Only the last message changed; how much that costs is the engine's affair, and said if much."""
    system = {"role": "system", "content": system_prompt("Kochab", RULES)}
    first = narrow.openai(
        [system, say("Name part 7, please."), {"role": "assistant", "content": "Seven."}, say("Next?")]
    )
    changed = narrow.openai(
        [system, say("Name part 7, please."), {"role": "assistant", "content": "Seven."}, say("Other?")]
    )
    assert first.prompt > 300
    assert changed.row["predicted_reuse"] > 0.9
    assert changed.row["cause"] == "history_rewrite"
    assert changed.row["diverged_at"] == "messages[3]"
    costly = changed.measured_reuse < 0.8 * changed.row["predicted_reuse"]
    assert ("checkpoint_or_window" in codes(narrow, changed)) is costly

"""Labelled conversations whose cause lies in the text, and clean ones that have none."""

from collections.abc import Iterator
from typing import Any

from tests.labelled import words
from tests.labelled.conversations import (
    DIALECTS,
    LANGUAGES,
    Case,
    Step,
    changed,
    grown,
    swapped,
    talk_of,
    tools,
    variants,
)
from tests.labelled.shapes import Talk, Turn

TOKEN = "x-anthropic-billing-header: cc_version=2.1.90.{}; cc_entrypoint=cli; cch={};"


def clean_cases() -> list[Case]:
    """Appends that change nothing, in every shape, with the noise that clients add."""
    cases = []
    for name, dialect, language, traits in variants():
        cases += [
            Case(f"clean-{name}-{upto}", dialect, None, grown(talk_of(language, **traits), upto))
            for upto in (2, 3, 5)
        ]
        steps = grown(talk_of(language, **traits), 3)
        for k, step in enumerate(steps):
            step.talk.extra = {"metadata": {"n": str(k)}, "temperature": 0.1 * k}
        cases.append(Case(f"clean-noise-{name}", dialect, None, steps))
        head = words.CLOCKS[0][0]
        cases.append(
            Case(f"clean-clock-{name}", dialect, None, grown(talk_of(language, head=head, **traits), 4))
        )
    return cases


def text_cases() -> list[Case]:
    """One case a cause and shape."""
    return [*_system_cases(), *_tool_cases(), *_message_cases(), *_other_cases()]


def _headed(label: str, pairs: Any) -> Iterator[Case]:
    for k, (name, dialect, language, traits) in enumerate(variants()):
        old, new = pairs[k % len(pairs)]
        talk = talk_of(language, head=old, **traits)

        def change(last: Talk, old: str = old, new: str = new) -> None:
            last.system[0] = last.system[0].replace(old, new, 1)

        yield Case(f"{label}-{old[:6]}{len(new)}-{name}", dialect, label, changed(grown(talk, 3), change))


def _system_cases() -> Iterator[Case]:
    for label, pairs in (
        ("timestamp", words.CLOCKS),
        ("date_rollover", words.DAYS),
        ("counter", words.COUNTS),
        ("workspace_snapshot", words.SNAPSHOTS),
        ("system_edit", words.EDITS),
    ):
        yield from _headed(label, pairs)
        yield from _headed(label, (*pairs[3:], *pairs[:3]))
    for k, (name, dialect, language, traits) in enumerate(variants()):
        talk = talk_of(language, **traits)
        talk.system = [TOKEN.format("aaa", "1a2b3"), *talk.system]

        def token(last: Talk, k: int = k) -> None:
            last.system[0] = TOKEN.format("aaa" if k % 2 else "f0f", "9f8e7" if k % 2 else "1a2b3")

        yield Case(f"token-{name}", dialect, "client_attribution_token", changed(grown(talk, 3), token))
        first, second, third = words.MEMORIES[k % len(words.MEMORIES)]
        steps = grown(talk_of(language, head=first, **traits), 4)
        for step, text in zip(steps[2:], (second, third), strict=True):
            step.talk.system[0] = step.talk.system[0].replace(first, text)
        yield Case(f"block-{name}", dialect, "dynamic_block", steps)


def reorder(last: Talk) -> None:
    last.tools = [last.tools[2], last.tools[0], last.tools[1]]


def add(last: Talk) -> None:
    last.tools.append({**tools()[0], "name": "mcp_search"})


def remove(last: Talk) -> None:
    del last.tools[1]


def keys(last: Talk) -> None:
    last.tools[1]["parameters"] = dict(reversed(list(last.tools[1]["parameters"].items())))


def describe(last: Talk) -> None:
    last.tools[0]["description"] += " Last used at 10:41."


def describe_inside(last: Talk) -> None:
    last.tools[2]["parameters"]["properties"]["path"]["description"] = "Where, below /home."


def schema(last: Talk) -> None:
    last.tools[0]["parameters"]["properties"]["mode"]["enum"] = ["fast", "safe", "slow"]


def _tool_cases() -> Iterator[Case]:
    for label, change in (
        ("tool_reorder", reorder),
        ("tools_added", add),
        ("tools_removed", remove),
        ("tool_schema_key_order", keys),
        ("tool_description_dynamic", describe),
        ("tool_description_dynamic", describe_inside),
        ("tool_schema_changed", schema),
    ):
        for dialect in DIALECTS:
            for language in LANGUAGES:
                steps = changed(grown(talk_of(language, with_tools=True), 3), change)
                yield Case(f"{label}-{change.__name__}-{dialect}-{language}", dialect, label, steps)


def _message_cases() -> Iterator[Case]:
    for dialect in DIALECTS:
        for language in LANGUAGES:
            name = f"{dialect}-{language}"
            yield from _history(name, dialect, language)
            yield from _replays(name, dialect, language)
            yield from _transient(name, dialect, language)


def _history(name: str, dialect: str, language: str) -> Iterator[Case]:
    def args(last: Talk) -> None:
        last.turns[1].calls[0].arguments = swapped(last.turns[1].calls[0].arguments)

    def reasoning(last: Talk) -> None:
        last.turns[1].reasoning = ""

    def prune(last: Talk) -> None:
        last.turns[2].text = "[tool output removed]"

    def shorten(last: Talk) -> None:
        last.turns[2].text = last.turns[2].text[:60] + " …"

    def rewrite(last: Talk) -> None:
        last.turns[3].text = "Rewritten by the client."

    def ask_again(last: Talk) -> None:
        last.turns[4].text = last.turns[4].text.upper() + " (edited by hand, in another order of words)"

    def summarise(last: Talk) -> None:
        summary = "Summary of the conversation so far: " + words.SAYS[language][0]
        last.turns = [Turn("user", summary), *last.turns[-2:]]

    talk = talk_of(language, with_tools=True, reasoning=True)
    for label, change, upto in (
        ("tool_args_reserialised", args, 4),
        ("reasoning_dropped_by_client", reasoning, 4),
        ("tool_result_pruned", prune, 4),
        ("tool_result_pruned", shorten, 5),
        ("history_rewrite", rewrite, 5),
        ("history_rewrite", ask_again, 5),
        ("compaction", summarise, 6),
    ):
        steps = changed(grown(talk, upto), change)
        if label == "compaction":
            steps = [Step(step.talk, step.reply, {"headers": {"x-session-id": "ses_1"}}) for step in steps]
        yield Case(f"{label}-{change.__name__}-{name}", dialect, label, steps)


def _replays(name: str, dialect: str, language: str) -> Iterator[Case]:
    """The last answer comes back otherwise than it was relayed."""

    def dropped(last: Talk) -> None:
        last.turns[-2].reasoning = ""

    def altered(last: Talk) -> None:
        last.turns[-2].text = last.turns[-2].text[:-1] + "!!"

    plain = talk_of(language, reasoning=True)
    yield Case(
        f"reply-dropped-{name}", dialect, "reasoning_dropped_by_client", changed(grown(plain, 3), dropped)
    )
    plain = talk_of(language)
    yield Case(f"reply-altered-{name}", dialect, "reply_altered_by_client", changed(grown(plain, 3), altered))

    def args(last: Talk) -> None:
        last.turns[1].calls[0].arguments = swapped(last.turns[1].calls[0].arguments)

    called = talk_of(language, with_tools=True)
    yield Case(f"reply-args-{name}", dialect, "tool_args_reserialised", changed(grown(called, 2), args))


def _transient(name: str, dialect: str, language: str) -> Iterator[Case]:
    reminder = "<system-reminder>Today you have 3 open tasks.</system-reminder>"
    talk = talk_of(language)
    steps = grown(talk, 3)
    before = steps[1].talk.turns[-1]
    if dialect == "ollama":
        before.text += "\n" + reminder
    else:
        before.blocks = [before.text, reminder]
    yield Case(f"transient-{name}", dialect, "transient_block_removed", steps)
    steps = grown(talk, 3)
    steps[1].talk.turns.append(Turn("user", reminder))
    steps[2].talk.turns.append(Turn("user", reminder))
    yield Case(f"transient-moved-{name}", dialect, "transient_block_removed", steps)


def _other_cases() -> Iterator[Case]:
    names = {"chat": "reasoning_effort", "responses": "reasoning", "anthropic": "thinking", "ollama": "think"}
    values: dict[str, tuple[Any, Any]] = {
        "chat": ("low", "high"),
        "responses": ({"effort": "low"}, {"effort": "high"}),
        "anthropic": ({"type": "enabled", "budget_tokens": 1024}, {"type": "enabled", "budget_tokens": 4096}),
        "ollama": (True, False),
    }
    for dialect in DIALECTS:
        for language in LANGUAGES:
            steps = grown(talk_of(language), 3)
            for step in steps[:-1]:
                step.talk.extra = {names[dialect]: values[dialect][0]}
            steps[-1].talk.extra = {names[dialect]: values[dialect][1]}
            yield Case(f"param-{dialect}-{language}", dialect, "template_param_changed", steps)
            talk = talk_of(language)

            def switch(last: Talk) -> None:
                last.model = "other"

            yield Case(
                f"model-{dialect}-{language}", dialect, "model_switch", changed(grown(talk, 3), switch)
            )
            yield _alternating(dialect, language)


def _alternating(dialect: str, language: str) -> Case:
    steps = grown(talk_of(language, with_tools=True), 6)
    for step in steps[1::2]:
        step.talk.tools = step.talk.tools[:2]
    facts = {"total_slots": 2, "num_parallel": 2}
    return Case(
        f"alternating-{dialect}-{language}", dialect, "alternating_variants", steps[:4], 2, None, facts
    )


__all__ = ["Step", "clean_cases", "text_cases"]

"""Labelled conversations whose text held: another request, a reload or the engine's rules cost it."""

from collections.abc import Iterator
from typing import Any

from tests.labelled import words
from tests.labelled.conversations import DIALECTS, LANGUAGES, Case, Step, grown, talk_of
from tests.labelled.shapes import Talk, Turn


def engine_cases() -> list[Case]:
    """One case a cause and shape."""
    cases: list[Case] = []
    for dialect in DIALECTS:
        for language in LANGUAGES:
            name = f"{dialect}-{language}"
            cases += _evictions(name, dialect, language)
            cases += _shapes_of_miss(name, dialect, language)
            cases += _notes(name, dialect, language)
    for language in LANGUAGES:
        cases += _residency(language)
    return cases


def _title(language: str) -> Talk:
    ask = {"en": "Create a 3 word title for: ", "zh": "Generate a concise title for this chat: "}[language]
    return Talk([], [], [Turn("user", ask + words.ASKS[language][0])], extra={"max_tokens": 20})


def _evictions(name: str, dialect: str, language: str) -> Iterator[Case]:
    first, second, *_ = grown(talk_of(language, reasoning=True), 3)
    title = Step(_title(language), Turn("assistant", "Default port"))
    yield Case(f"side-{name}", dialect, "evicted_by", [first, title, second])
    roomy = {"total_slots": 2, "num_parallel": 2}
    yield Case(f"side-two-slots-{name}", dialect, None, [first, title, second], slots=2, facts=roomy)
    other = grown(talk_of(language, head="You are another agent with other duties entirely."), 1)
    other[0].talk.turns[0].text = "Something else altogether: " + words.ASKS[language][3]
    yield Case(f"other-{name}", dialect, "evicted_by", [first, other[0], second])
    fork = grown(talk_of(language), 1)
    fork[0].talk.turns[0].text = "You are a sub-agent. Search the docs for " + words.ASKS[language][2]
    fork[0].talk.turns[0].text *= 12
    yield Case(f"fork-{name}", dialect, "evicted_by", [first, fork[0], second])
    lines = [grown(talk_of(language, head=f"Agent {k}, with duties of kind {k * 'x'}."), 3) for k in range(3)]
    for k, line in enumerate(lines):
        for step in line:
            step.talk.turns[0].text = f"{k}: " + words.ASKS[language][k]
    steps = [line[round_] for round_ in range(3) for line in lines]
    yield Case(f"capacity-{name}", dialect, "capacity_suspected", steps)


def _shapes_of_miss(name: str, dialect: str, language: str) -> Iterator[Case]:
    """Figures as given engines report them, the text being a pure append."""
    talk = talk_of(language, with_tools=True, reasoning=True)
    a, b, c, d = grown(talk, 4)
    yield Case(
        f"think-{name}",
        dialect,
        "template_history_rewrite_suspected",
        [_told(a, 1000, 0), _told(b, 1900, 990), _told(c, 2000, 240)],
    )
    yield Case(
        f"rerender-{name}",
        dialect,
        "tool_turn_rerender_suspected",
        [_told(a, 1000, 0), _told(b, 1900, 400)],
    )
    plain = grown(talk_of(language), 3)
    off: dict[str, Any] = {
        "chat": {"chat_template_kwargs": {"enable_thinking": False}},
        "responses": {"chat_template_kwargs": {"enable_thinking": False}, "reasoning": {"effort": "none"}},
        "anthropic": {"thinking": {"type": "disabled"}},
        "ollama": {"think": False},
    }[dialect]
    for step in plain:
        step.talk.extra = off
    steps = [_told(plain[0], 1000, 0), _told(plain[1], 1100, 970)]
    yield Case(f"empty-think-{name}", dialect, "template_generation_prompt_mismatch_suspected", steps)
    plain = grown(talk_of(language), 3)
    yield Case(
        f"unknown-{name}",
        dialect,
        "engine_unknown",
        [_told(plain[0], 1000, 0), _told(plain[1], 1100, 0), _told(plain[2], 1200, 0)],
    )
    again = Step(plain[1].talk, plain[1].reply)
    yield Case(
        f"rewind-{name}",
        dialect,
        "engine_no_rewind_suspected",
        [_told(plain[0], 1000, 0), _told(plain[1], 1100, 1000), _told(again, 1100, 0)],
    )
    edited = d.talk.copy()
    edited.turns[-1].text = "Edited: " + words.ASKS[language][4]
    late = [_told(c, 2000, 0), _told(d, 2100, 2000), _told(Step(edited, d.reply), 2100, 0)]
    yield Case(f"window-{name}", dialect, "history_rewrite", late)
    if dialect in ("chat", "anthropic"):
        plain = grown(talk_of(language), 2)
        steps = [_told(plain[0], 1600, 0), _told(plain[1], 1700, 1024)]
        yield Case(f"blocks-{name}", dialect, "engine_granularity", steps, kind="vllm")
    if dialect == "chat":
        plain = grown(talk_of(language), 2)
        for step in plain:
            step.talk.extra = {"cache_prompt": False}
        steps = [_told(plain[0], 1000, 0), _told(plain[1], 1100, 0)]
        yield Case(f"disabled-{name}", dialect, "client_disabled_cache", steps)


def _notes(name: str, dialect: str, language: str) -> Iterator[Case]:
    talk = talk_of(language, with_tools=True)
    first, second, third = grown(talk, 3)
    failed = Step(second.talk, second.reply, {"status": "upstream_reset"})
    yield Case(f"retry-{name}", dialect, "retry_of", [first, failed, second])
    left = Step(second.talk, second.reply, {"status": "client_cancelled"})
    yield Case(f"cancel-{name}", dialect, "after_cancel", [first, left, third])
    patient = {"headers": {"x-stainless-read-timeout": "30.0"}, "status": "client_cancelled", "took_s": 30.3}
    yield Case(
        f"timeout-{name}",
        dialect,
        "client_timeout_suspected",
        [first, Step(second.talk, second.reply, patient)],
    )
    frozen = [Step(s.talk.copy(), s.reply) for s in (first, first)]
    for step in frozen:
        step.talk.extra = {"options": {"temperature": 0}} if dialect == "ollama" else {"temperature": 0}
    frozen[1].reply = Turn("assistant", "An answer in other words.")
    yield Case(f"random-{name}", dialect, "nondeterministic_repeat", frozen)
    if dialect in ("chat", "anthropic"):
        ids = third.talk.copy()
        ids.turns[1].calls[0].id = ids.turns[2].call_id = "call0renamed"
        yield Case(f"ids-{name}", dialect, "tool_id_changed", [first, second, Step(ids, third.reply)])


def _residency(language: str) -> Iterator[Case]:
    """What Ollama does with its models."""
    a, b, c = grown(talk_of(language), 3)

    def sized(
        step: Step, options: dict[str, Any], total: int, cached: int, load_ms: float, **opts: Any
    ) -> Step:
        talk = step.talk.copy()
        talk.extra = {"options": options} if options else {}
        return Step(talk, step.reply, {"tokens": (total, cached), "load_ms": load_ms, **opts})

    big, bigger = {"num_ctx": 8192}, {"num_ctx": 9216}
    yield Case(
        f"reload-{language}",
        "ollama",
        "model_reload",
        [sized(a, big, 1000, 0, 5000), sized(b, bigger, 1100, 0, 5000)],
    )
    yield Case(
        f"reload-unset-{language}",
        "ollama",
        "model_reload",
        [sized(a, big, 1000, 0, 5000), sized(b, bigger, 1100, 0, 5000), sized(c, {}, 1200, 0, 5000)],
    )
    batch = {"num_ctx": 8192, "num_batch": 256}
    yield Case(
        f"reload-batch-{language}",
        "ollama",
        "model_reload",
        [sized(a, big, 1000, 0, 5000), sized(b, batch, 1100, 0, 3000)],
    )
    sampling = [sized(a, big, 1000, 0, 5000), sized(b, {**big, "temperature": 0.9}, 1100, 1000, 20)]
    yield Case(f"sampling-{language}", "ollama", None, sampling)
    yield Case(
        f"idle-{language}",
        "ollama",
        "model_unloaded",
        [sized(a, {}, 1000, 0, 5000), sized(b, {}, 1100, 0, 4000, after_s=312.0)],
    )
    kept = [sized(a, {}, 1000, 0, 5000), sized(b, {}, 1100, 1000, 15, after_s=200.0)]
    yield Case(f"kept-{language}", "ollama", None, kept)
    short = sized(a, {}, 1000, 0, 5000)
    short.talk.extra = {"keep_alive": "10s"}
    yield Case(
        f"idle-short-{language}",
        "ollama",
        "model_unloaded",
        [short, sized(b, {}, 1100, 0, 900, after_s=20.0)],
    )
    bye = Step(
        Talk([], [], [Turn("user", "Hi there, other client.")], extra={"keep_alive": 0}),
        Turn("assistant", "Hi"),
    )
    yield Case(
        f"bye-{language}",
        "ollama",
        "model_unloaded",
        [sized(a, {}, 1000, 0, 5000), bye, sized(b, {}, 1100, 0, 4000)],
    )
    long = grown(talk_of(language), 3)
    for step in long:
        step.talk.turns[0].text = words.ASKS[language][0] * 200
    small = {"num_ctx": 2048}
    yield Case(
        f"truncated-{language}",
        "ollama",
        "context_truncated",
        [sized(long[0], small, 2048, 0, 5000), sized(long[1], small, 2048, 60, 10)],
    )


def _told(step: Step, total: int, cached: int) -> Step:
    return Step(step.talk, step.reply, {"tokens": (total, cached)})

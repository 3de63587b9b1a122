"""The first page's sentence; pure."""

from services.proxy.admin.pages.language import ENGLISH, load
from services.proxy.admin.pages.sentence import headline


def loser(agent="openclaw", *causes, requests=12):
    """An agent that lost time by causes (code, milliseconds), worst first."""
    found = [
        {"cause": code, "lost_ms": ms, "requests": 3, "worst_id": "w", "backend_kind": "ollama"}
        for code, ms in causes
    ]
    return {"agent": agent, "lost_ms": sum(ms for _, ms in causes), "requests": requests, "causes": found}


def test_one_cause_takes_all():
    """Agent, time, number of requests and the cause, without a share that says nothing."""
    found = headline([loser("openclaw", ("timestamp", 252_000.0))], 3_600, ENGLISH, requests=40)

    assert found.text == (
        "In the last hour, openclaw lost the most time: 4.2 min over 12 requests, "
        "because a clock time in the prompt changed."
    )
    assert (
        found.advice
        == "Turn off the clock in OpenClaw's system prompt, or move it into the newest user message."
    )
    assert (found.worst_id, found.agent, found.cause, found.bad) == ("w", "openclaw", "timestamp", True)


def test_the_worst_of_several_causes_is_named_with_its_share():
    """The others are a click away."""
    losers = [loser("hermes", ("evicted_by", 60_000.0), ("compaction", 20_000.0), requests=1)]
    found = headline(losers, 3_600, ENGLISH, requests=9)

    assert found.text == (
        "In the last hour, hermes lost the most time: 1.3 min over 1 request, "
        "75 % of it because another request took its place in the engine's cache."
    )
    assert "OLLAMA_NUM_PARALLEL" in found.advice


def test_a_loss_without_a_cause_and_an_agent_without_a_name():
    """It is said that neither is known."""
    found = headline([loser(None, (None, 3_000.0))], 86_400, ENGLISH, requests=9)

    assert found.text.startswith("In the last 24 hours, an unnamed agent lost the most time: 3.0 s")
    assert "a reason not visible from outside" in found.text
    assert found.advice is None


def test_nothing_lost_and_nothing_there():
    """A quiet hour is no loss, and no request is something else than no loss."""
    assert headline([], 3_600, ENGLISH, requests=5).text == "In the last hour no time was lost."
    assert headline([], 3_600, ENGLISH, requests=0).text == "In the last hour no request came."
    assert not headline([], 3_600, ENGLISH, requests=5).bad


def test_in_chinese():
    """Sentence, reason and advice."""
    found = headline([loser("openclaw", ("timestamp", 252_000.0))], 3_600, load()["zh"], requests=40)

    assert (
        found.text == "最近一小时，openclaw 损失的时间最多：12 个请求共 4.2 min，原因是提示词中的时间变了。"
    )
    assert "OpenClaw" in found.advice
    assert "move it" not in found.advice

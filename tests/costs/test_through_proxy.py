"""A real proxy in front of the simulated Anthropic API: what breakpoints save, and what they leave alone."""

import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import anthropic
import pytest

from tests.support.anthropic_cache import RefusedError, Service, rendered
from tests.support.cloud import MARK, OUTPUT, RULES, TOOL, as_sent, by_hand, send, turn, without_marks
from tests.support.proxy import Proxy

pytestmark = pytest.mark.process


@pytest.fixture(scope="module")
def shared() -> Iterator[Service]:
    with Service() as service:
        yield service


@pytest.fixture(scope="module")
def on(shared: Service, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Proxy]:
    """A proxy that places breakpoints."""
    proxy = Proxy(
        tmp_path_factory.mktemp("on"), shared.backend.url, backend_kind="anthropic", breakpoints="auto"
    )
    yield proxy.start()
    proxy.stop()


@pytest.fixture(scope="module")
def off(shared: Service, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Proxy]:
    """A proxy as it is by default."""
    proxy = Proxy(tmp_path_factory.mktemp("off"), shared.backend.url, backend_kind="anthropic")
    yield proxy.start()
    proxy.stop()


@pytest.fixture
def service(shared: Service) -> Service:
    """The service with an empty cache and nothing received."""
    shared.cache.entries.clear()
    shared.bodies.clear()
    shared.usages.clear()
    shared.refused.clear()
    shared.starts_in, shared.repeat_counts = 0.0, True
    shared.refuses, shared.forgets = "", False
    return shared


def test_off_by_default_nothing_is_put_in(off: Proxy, service: Service) -> None:
    """The bytes that went in come out, and every token is paid for in full."""
    for number in range(4):
        answer = send(off, turn(number), "plain")
        assert "fix" not in answer.ours
        row = off.row(answer)
        assert service.bodies[-1] == as_sent(turn(number))
        assert row["cost_usd"] == pytest.approx(by_hand(service.usages[-1])[1])
        assert row["savings_usd"] == 0.0
        assert "fixes" not in row


@pytest.mark.parametrize("stream", [False, True])
def test_a_conversation_is_paid_for_once(on: Proxy, service: Service, stream: bool) -> None:
    """Ten turns: what is charged is what was worked out by hand, under half of what it was without."""
    spent = plain = saved = 0.0
    for number in range(10):
        answer = send(on, turn(number, stream=stream), f"saves-{stream}")
        row = on.row(answer)
        cost, without = by_hand(service.usages[-1])
        assert row["cost_usd"] == pytest.approx(cost)
        assert row["savings_usd"] == pytest.approx(without - cost)
        assert row["cached_tokens"] == service.usages[-1].read
        assert row["prompt_tokens"] == service.usages[-1].total
        spent, plain, saved = spent + cost, plain + without, saved + row["savings_usd"]
    print(f"10 turns: {plain:.4f} dollars without caching, {spent:.4f} with, {saved / plain:.0%} saved")
    assert saved / plain > 0.5
    assert service.refused == []
    # From the third turn on only the newest question and answer are written, all before is read.
    for usage in service.usages[2:]:
        assert usage.written + usage.fresh < 500
        assert usage.read > 6_000


def test_what_was_put_in_is_named(on: Proxy, service: Service) -> None:
    """In the header and in the row; the rest of the body is as received."""
    send(on, turn(0), "named")
    answer = send(on, turn(1), "named")
    names = "breakpoint:tools,breakpoint:system,breakpoint:messages.0,breakpoint:messages.2"
    assert answer.ours["fix"] == names
    assert on.row(answer)["fixes"] == names.split(",")
    assert without_marks(service.bodies[-1]) == as_sent(turn(1))
    assert [b.text for b in rendered(json.loads(service.bodies[-1]))] == [b.text for b in rendered(turn(1))]


@pytest.mark.parametrize(
    "own",
    [
        {"cache_control": MARK},
        {"system": [{"type": "text", "text": RULES, "cache_control": {"type": "ephemeral", "ttl": "1h"}}]},
        {"tools": [{**TOOL, "cache_control": MARK}]},
    ],
)
def test_a_clients_own_is_untouched(on: Proxy, service: Service, own: dict[str, Any]) -> None:
    """Byte for byte; and its costs are counted as any."""
    session = f"own-{next(iter(own))}"
    for number in range(3):
        answer = send(on, turn(number, **own), session)
        assert service.bodies[-1] == as_sent(turn(number, **own))
        assert "fix" not in answer.ours
        cost, without = by_hand(service.usages[-1])
        row = on.row(answer)
        assert (row["cost_usd"], row["savings_usd"]) == pytest.approx((cost, without - cost))


def test_the_real_client_library_sees_what_the_row_says(on: Proxy, service: Service) -> None:
    """A conversation through Anthropic's own SDK, streamed, without a word about caching in it."""
    with anthropic.Anthropic(
        api_key="sdk", base_url=on.url, max_retries=0, default_headers={"X-MetalAnchor-Session": "sdk"}
    ) as client:
        history: list[Any] = []
        for number in range(3):
            history.append({"role": "user", "content": f"Question {number:04d}. " * 100})
            with client.messages.stream(
                model="claude-sonnet-5", max_tokens=OUTPUT, system=RULES, tools=[TOOL], messages=history
            ) as stream:
                message = stream.get_final_message()
            history.append(
                {"role": "assistant", "content": [block.model_dump() for block in message.content]}
            )
            usage = service.usages[-1]
            assert message.usage.cache_read_input_tokens == usage.read
            assert message.usage.output_tokens == OUTPUT
    rows = on.wait_rows(3, lambda row: row.get("session") == "sdk")
    assert [row["cost_usd"] for row in rows] == pytest.approx([by_hand(usage)[0] for usage in service.usages])
    assert [row["cached_tokens"] > 0 for row in rows] == [False, False, True]


def test_a_tool_loop_of_many_blocks_is_found_again(on: Proxy, service: Service) -> None:
    """A turn of 30 tool calls and results: the service looks back 20 blocks from each breakpoint."""
    value = turn(0)
    send(on, value, "loop")
    for step in range(3):
        calls = [
            {"type": "tool_use", "id": f"t{step}-{k}", "name": "run", "input": {"k": k}} for k in range(30)
        ]
        results = [
            {"type": "tool_result", "tool_use_id": call["id"], "content": "done " * 20} for call in calls
        ]
        value["messages"] += [{"role": "assistant", "content": calls}, {"role": "user", "content": results}]
        send(on, value, "loop")
    assert service.usages[-1].read >= service.usages[-2].total - 1


def test_a_clock_in_the_system_prompt_leaves_the_tools(on: Proxy, service: Service) -> None:
    """A section that changes each turn gets none: no write is paid for that nobody can read."""
    for number in range(4):
        answer = send(on, turn(number, system=f"It is 10:4{number}. {RULES}"), "clock")
        if number:
            assert answer.ours["fix"] == "breakpoint:tools"
    written = [usage.written for usage in service.usages]
    assert written[2:] == [0, 0]
    assert service.usages[-1].read > 2_000


def test_requests_at_the_same_time_each_write(on: Proxy, service: Service) -> None:
    """An entry is readable once its answer began; the row says what that cost."""
    send(on, turn(0), "parallel")
    service.starts_in = 0.4
    with ThreadPoolExecutor(3) as pool:
        answers = list(pool.map(lambda _: send(on, turn(1), "parallel"), range(3)))
    assert [usage.read for usage in service.usages[1:]] == [0, 0, 0]
    assert all(on.row(answer)["savings_usd"] < 0 for answer in answers)


def test_a_refusal_of_what_was_put_in_never_reaches_the_client(tmp_path: Path) -> None:
    """The request is sent once more as received, and that model gets no breakpoints again."""
    with Service() as service:
        proxy = Proxy(tmp_path, service.backend.url, backend_kind="anthropic", breakpoints="auto").start()
        try:
            service.refuses = "cache_control"
            sent = [turn(number) for number in range(4)]
            answers = [send(proxy, value, "refused") for value in sent]
            assert service.refused == ["cache_control"]
            assert service.bodies[-3:] == [as_sent(value) for value in sent[1:]]
            assert [answer.ours.get("fix") for answer in answers] == [None] * 4
            proxy.wait_rows(4)
        finally:
            proxy.stop()


def test_writes_that_are_never_read_come_to_an_end(tmp_path: Path) -> None:
    """A service that keeps nothing costs a quarter more for a few turns, not for ever; /status says so."""
    with Service() as service:
        proxy = Proxy(tmp_path, service.backend.url, backend_kind="anthropic", breakpoints="auto").start()
        try:
            service.forgets = True
            given = ["fix" in send(proxy, turn(number), "forgets").ours for number in range(8)]
            assert given == [False, True, True, True, True, False, False, False]
            (stopped,) = proxy.json("/status")["breakpoints"]["stopped"]
            assert (stopped["model"], stopped["reason"]) == ("claude-sonnet-5", "never_read")
            # Another model of the same service is judged by itself.
            for number in range(2):
                answer = send(proxy, turn(number, model="claude-opus-5"), "other")
            assert "fix" in answer.ours
        finally:
            proxy.stop()


def test_a_request_that_is_wrong_itself_is_refused_as_ever(on: Proxy, service: Service) -> None:
    """The service's own error comes back, once; the model keeps its breakpoints."""
    send(on, turn(0), "wrong")
    service.refuses = "Question"
    answer = on.chat(
        turn(1), [("X-MetalAnchor-Session", "wrong"), ("x-api-key", "wrong")], path="/v1/messages"
    )
    assert answer.status == 400
    assert json.loads(answer.body)["error"]["type"] == "invalid_request_error"
    service.refuses = ""
    assert "fix" in send(on, turn(1), "wrong").ours


def test_prices_of_ones_own(tmp_path: Path) -> None:
    """A file named by the setting; a model that is in no table has no price."""
    table = tmp_path / "prices.toml"
    table.write_text(
        '[[price]]\nvendor = "anthropic"\nmodel = "house"\ninput = 100\noutput = 1000\n'
        'source = "a contract"\ndate = "2026-11"\n'
    )
    with Service() as service:
        proxy = Proxy(tmp_path / "p", service.backend.url, backend_kind="anthropic", prices=table).start()
        try:
            row = proxy.row(send(proxy, turn(0, model="house"), "house"))
            assert row["cost_usd"] == pytest.approx((service.usages[-1].total * 100 + OUTPUT * 1000) / 1e6)
            unknown = proxy.row(send(proxy, turn(0, model="claude-x"), "unknown"))
            assert "cost_usd" not in unknown
            assert "savings_usd" not in unknown
        finally:
            proxy.stop()


def test_the_simulator_is_as_strict_over_the_wire(service: Service, off: Proxy) -> None:
    """The fifth breakpoint is an error that the proxy passes on."""
    five = [{"type": "text", "text": letter, "cache_control": MARK} for letter in "abcde"]
    answer = off.chat(turn(0, system=five), path="/v1/messages")
    assert answer.status == 400
    assert b"maximum of 4" in answer.body
    with pytest.raises(RefusedError):
        service.cache.take(turn(0, system=five))


def test_a_large_body_is_marked_in_a_thread(on: Proxy, service: Service) -> None:
    """Two megabytes; the service reads what was written the turn before."""
    value = turn(0, system=RULES * 150)
    assert len(as_sent(value)) > 2_000_000
    send(on, value, "large")
    value["messages"] += turn(1)["messages"][1:]
    answer = send(on, value, "large")
    assert len(answer.ours["fix"].split(",")) == 4
    assert without_marks(service.bodies[-1]) == as_sent(value)
    send(on, value, "large")
    assert service.usages[-1].fresh == 0


@pytest.mark.parametrize(
    "body",
    [
        b"not json",
        b"",
        b"[]",
        b'{"model": "claude-sonnet-5", "messages": "none"}',
        b'{"model": "claude-sonnet-5", "messages": [1, null]}',
        b'{"model":"claude-sonnet-5","messages":[{"role":"user","content":"\xff"}]}',
    ],
)
def test_what_is_no_request_goes_out_as_it_came(on: Proxy, service: Service, body: bytes) -> None:
    on.request("POST", "/v1/messages", body, [("Content-Type", "application/json")])
    assert service.bodies[-1] == body


def test_a_client_that_leaves_while_its_request_waits_frees_everything(on: Proxy, service: Service) -> None:
    """The row says that it left, and the next request of the session is served."""
    send(on, turn(0), "leaves")
    service.starts_in = 5.0
    with on.client() as client:
        client.socket.sendall(
            b"POST /v1/messages HTTP/1.1\r\nHost: 127.0.0.1\r\nX-MetalAnchor-Session: leaves\r\n"
            b"Content-Type: application/json\r\nContent-Length: %d\r\n\r\n"
            % len(as_sent(turn(1)))
            + as_sent(turn(1))
        )
        service.backend.wait(lambda: service.backend.active > 0)
    on.wait_rows(1, lambda row: row["status"] == "client_cancelled")
    service.backend.wait(lambda: service.backend.active == 0)
    service.starts_in = 0.0
    assert "fix" in send(on, turn(1), "leaves").ours

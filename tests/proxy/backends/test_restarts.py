"""Restarts by what a server says of itself: what proves one, when it was, and what does not."""

import pytest

from services.proxy.backends.restarts import Life, Restart

FACTS = {"n_ctx": 4096, "total_slots": 1, "model": "m.gguf", "process": "a", "version": "b1"}


def life(**changes):
    """A server seen once between 100 and 110, and the facts it shows afterwards."""
    seen = Life()
    assert seen.seen(FACTS, 100, 110) is None
    return seen, {**FACTS, **changes}


def test_a_server_that_says_the_same_has_not_restarted():
    seen, facts = life()
    assert seen.seen(facts, 200, 210) is None


@pytest.mark.parametrize(
    ("option", "value"), [("n_ctx", 8192), ("total_slots", 4), ("model", "n.gguf"), ("version", "b2")]
)
def test_another_launch_option_is_named(option, value):
    """A relaunch is also another process; the option says more."""
    seen, facts = life(**{option: value, "process": "b"})
    assert seen.seen(facts, 200, 210) == Restart(100, 210, "options", option, FACTS[option], value)


def test_the_same_options_in_another_process():
    seen, facts = life(process="b")
    assert seen.seen(facts, 200, 210) == Restart(100, 210, "new_process")
    assert seen.seen(facts, 300, 310) is None


def test_a_port_on_which_nobody_listened():
    """An older server shows nothing of its process; that it was gone at an instant is proof enough."""
    seen, facts = life()
    seen.refused(150)
    seen.refused(160)
    assert seen.seen(facts, 200, 210) == Restart(100, 150, "was_away")


def test_one_that_was_never_seen_before_has_not_come_back():
    seen = Life()
    seen.refused(50)
    assert seen.seen(FACTS, 100, 110) is None


def test_a_model_put_to_sleep_is_told_once():
    seen, facts = life(sleeping=True)
    assert seen.seen(facts, 200, 210) == Restart(100, 210, "asleep")
    assert seen.seen(facts, 300, 310) is None
    assert seen.seen(FACTS, 400, 410) is None

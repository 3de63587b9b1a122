"""Budgets of a machine that also runs the other tests: what is late on an idle one is not late here."""

import pytest

from services.semantic import matcher


@pytest.fixture(autouse=True)
def patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """Seconds instead of milliseconds, so that only what hangs is taken for away."""
    monkeypatch.setattr(matcher, "REDIS_S", 5.0)
    monkeypatch.setattr(matcher, "EMBED_S", 5.0)

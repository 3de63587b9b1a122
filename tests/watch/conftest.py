"""What the tests of watching share."""

from collections.abc import Iterator

import pytest

from tests.support.engine_counters import MovingVllm


@pytest.fixture
def vllm() -> Iterator[MovingVllm]:
    """A running vLLM with moving counters."""
    server = MovingVllm()
    yield server
    server.stop()

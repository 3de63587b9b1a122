"""How many clients a proxy takes at once follows from the descriptors it has."""

import resource

from services.proxy.server import BACKPRESSURE, connections


def test_every_client_that_is_let_in_may_have_a_connection_to_the_backend() -> None:
    """Two descriptors a client, some kept for the proxy itself; never none, never more than the cap."""
    assert connections(256, ports=1) * 2 < 256
    assert connections(256, ports=3) * 6 < 256
    assert connections(8, ports=1) == 1
    assert connections(1 << 20, ports=1) == BACKPRESSURE
    assert connections(resource.RLIM_INFINITY, ports=2) == BACKPRESSURE

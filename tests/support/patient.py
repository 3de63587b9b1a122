"""Starts the proxy as `python -m services.cli` does, with more patience for Redis and embeddings.

A request waits 40 ms for Redis, then it is a miss. On a machine whose cores are all busy that is no defect,
and a test of what hits would fail by chance. Tests of what a slow Redis costs start the proxy as it is.
"""

import sys

from services.cli import main
from services.proxy.answers import cache, digests, store
from services.proxy.state import client, redis
from services.semantic import matcher

PATIENCE_S = 5.0
TIMES = ((client, "BUDGET_S"), (redis, "BUDGET_S"), (store, "BUDGET_S"), (store, "PUT_S"),
         (cache, "LANDING_S"), (digests, "WAIT_S"), (matcher, "REDIS_S"), (matcher, "EMBED_S"))  # fmt: skip

if __name__ == "__main__":
    for module, name in TIMES:
        assert hasattr(module, name), name
        setattr(module, name, PATIENCE_S)
    sys.exit(main())

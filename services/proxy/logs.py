"""What the proxy process prints: its own few lines and the HTTP server's errors, on standard error.

No access log: a query may hold a key. No traceback of a broken answer: it is how the server is told to cut a
connection.
"""

import logging
import logging.config
from typing import Any


class NotOurCut(logging.Filter):
    """Drops granian's report of an exception out of the application; all but our own cuts are caught."""

    def filter(self, record: logging.LogRecord) -> bool:
        """Whether to print it."""
        return not record.getMessage().startswith("Application callable raised an exception")


LOGGING: dict[str, Any] = {
    "version": 1,
    "disable_existing_loggers": False,
    "filters": {"cut": {"()": NotOurCut}},
    "formatters": {"plain": {"format": "%(asctime)s %(levelname)s %(message)s"}},
    "handlers": {
        "stderr": {
            "class": "logging.StreamHandler",
            "formatter": "plain",
            "filters": ["cut"],
            "stream": "ext://sys.stderr",
        },
    },
    "loggers": {
        "metalanchor": {"handlers": ["stderr"], "level": "INFO", "propagate": False},
        "_granian": {"handlers": ["stderr"], "level": "ERROR", "propagate": False},
    },
}


def configure_logging() -> None:
    """Send the log to standard error."""
    logging.config.dictConfig(LOGGING)

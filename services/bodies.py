"""The contract for copies of bodies: what the proxy hands to the worker where a user wants them kept.

They travel beside the rows, in jobs of their own: a row without its body is a row, and a body that is lost is
counted. Both bodies are compressed with zlib and masked before they leave the proxy.
"""

import msgspec

JOB = "services.logger.jobs.keep"


class Bodies(msgspec.Struct, kw_only=True, omit_defaults=True, gc=False):
    """The bodies of one request; the sizes are those as they passed, `cut` says that only the head is kept.

    `answer` is None where none came. `received_at` is in epoch milliseconds.
    """

    id: str
    received_at: int
    request: bytes
    request_bytes: int
    request_cut: bool = False
    answer: bytes | None = None
    answer_bytes: int = 0
    answer_cut: bool = False


_decoder = msgspec.json.Decoder(list[Bodies])


def decode(text: str | bytes) -> list[Bodies]:
    """The bodies of a job's argument; raises `msgspec.DecodeError` on anything else."""
    return _decoder.decode(text)

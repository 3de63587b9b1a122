"""What one of the doctor's checks answers with."""

from typing import NamedTuple


class Verdict(NamedTuple):
    """`level` is ok, warn or fail; `about` what was seen, `advice` the next step where there is one."""

    level: str
    about: str
    advice: str = ""

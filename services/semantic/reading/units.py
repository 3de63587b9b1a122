"""Units of measurement and what is equal among their spellings. Pure.

Symbols are read with their case, because MB is not Mb; words without. Only what stands behind a number is a
unit.
"""

# ruff: noqa: E501 - one pattern a line

import re

_SPELLINGS: dict[str, tuple[str, ...]] = {
    "mm": ("millimeter", "millimetre"), "cm": ("centimeter", "centimetre"), "m": ("meter", "metre"),
    "km": ("kilometer", "kilometre"), "mi": ("mile",), "ft": ("feet", "foot"), "yd": ("yard",),
    "mg": ("milligram",), "g": ("gram",), "kg": ("kilogram", "kilo"), "lb": ("lbs", "pound"), "oz": ("ounce",),
    "ml": ("mL", "milliliter", "millilitre"), "l": ("L", "liter", "litre"), "gal": ("gallon",),
    "ns": ("nanosecond",), "us": ("µs", "microsecond"), "ms": ("millisecond",),
    "s": ("sec", "secs", "second"), "min": ("mins", "minute"), "h": ("hr", "hrs", "hour"), "d": ("day",),
    "KB": ("kB", "kilobyte"), "MB": ("megabyte",), "GB": ("gigabyte",), "TB": ("terabyte",),
    "KiB": ("kibibyte",), "MiB": ("mebibyte",), "GiB": ("gibibyte",), "TiB": ("tebibyte",),
    "Kb": ("kbit", "kilobit"), "Mb": ("Mbit", "megabit"), "Gb": ("Gbit", "gigabit"), "B": ("byte",), "b": ("bit",),
    "Mbps": ("Mbit/s", "Mb/s"), "Gbps": ("Gbit/s", "Gb/s"), "MBps": ("MB/s",),
    "Hz": ("hertz",), "kHz": ("kilohertz",), "MHz": ("megahertz",), "GHz": ("gigahertz",),
    "W": ("watt",), "kW": ("kilowatt",), "kWh": ("kilowatt hour",), "V": ("volt",), "A": ("amp", "ampere"),
    "°C": ("degrees celsius", "degrees c", "celsius", "℃"), "°F": ("degrees fahrenheit", "fahrenheit", "℉"),
    "K": ("kelvin",), "%": ("percent", "per cent"), "mph": ("miles per hour",), "km/h": ("kph", "kmh"),
    "USD": ("dollars", "dollar", "us dollars"), "EUR": ("euros", "euro"), "GBP": ("gbp",), "JPY": ("yen",),
    "week": ("weeks",), "month": ("months",), "year": ("years", "yr", "yrs"),
}  # fmt: skip


def _table() -> dict[str, str]:
    found = {}
    for symbol, words in _SPELLINGS.items():
        found[symbol] = symbol
        for word in words:
            found[word] = symbol
            if word.isalpha() and word.islower() and len(word) > 3 and not word.endswith("s"):
                found[word + "s"] = symbol
    return found


_CANONICAL = _table()
_LOWER = {spelling.lower(): sign for spelling, sign in _CANONICAL.items() if len(spelling) > 2}
_WORDS = {spelling for spelling in _CANONICAL if spelling.islower() and len(spelling) > 3}
_SYMBOLS = set(_CANONICAL) - _WORDS


def _any(spellings: set[str]) -> str:
    return "|".join(re.escape(spelling) for spelling in sorted(spellings, key=lambda s: (-len(s), s)))


_NUMBER = r"(?<![\w.])[-+]?\d+(?:,\d{3})*(?:\.\d+)?"
PATTERN = rf"{_NUMBER}(?:\s?(?:{_any(_SYMBOLS)})|[ -]?(?i:{_any(_WORDS)}))(?![A-Za-z0-9])"
_PARTS = re.compile(r"([-+]?\d[\d,]*(?:\.\d+)?)[ -]?(.+)", re.DOTALL)


COUNTS = {
    "two": "2", "three": "3", "four": "4", "five": "5", "six": "6", "seven": "7", "eight": "8", "nine": "9", "ten": "10",
    "eleven": "11", "twelve": "12", "fifteen": "15", "twenty": "20", "thirty": "30", "forty": "40", "fifty": "50",
    "sixty": "60", "ninety": "90",
}  # fmt: skip
SPELLED = re.compile(rf"\b({'|'.join(COUNTS)})[ -]({_any(_WORDS)})(?![A-Za-z0-9])")


def symbol(word: str) -> str:
    """A unit's symbol, where a lower-case word names one; else the word."""
    return _CANONICAL.get(word, _LOWER.get(word, word))


def measured(piece: str) -> str:
    """A number and its unit in one spelling, as in ``5 km``."""
    found = _PARTS.fullmatch(piece)
    assert found is not None
    number, unit = found.groups()
    unit = _CANONICAL.get(unit) or _CANONICAL[unit.lower()]
    return f"{re.sub(',', '', number)} {unit}"

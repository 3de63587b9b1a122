"""Reads a question in whichever language it is. Pure."""

from services.semantic.reading import chinese, english
from services.semantic.reading.base import Reading
from services.semantic.reading.normal import normal, script, spaced
from services.semantic.reading.payload import parted
from services.semantic.reading.spans import protect


def read(text: str) -> Reading:
    """The form in which two questions are compared."""
    head, payload = parted(text)
    plain = normal(head)
    language = script(plain)
    if language == "other":
        return Reading("other", "", tuple(spaced(plain).rstrip(" .?!").split(" ")), payload=payload)
    masked, spans = protect(plain)
    reader = chinese.read if language == "zh" else english.read
    return reader(masked, spans)._replace(payload=payload)

"""What a question says, in the one form in which two of them are compared. Pure data."""

from typing import NamedTuple


class Reading(NamedTuple):
    """A question, taken apart. Two questions ask the same when every field is equal.

    `script` is en, zh or other; `ask` the class of the question (``how to``, ``why``, ``yes or no``; empty
    for commands); `words` what it is about, in the order that matters; `flags` what may stand anywhere
    (negation, tense, modality, manner); `setting` the language or tool it is asked for; `payload` text that
    the question brings along and asks something about, letter by letter.
    """

    script: str
    ask: str
    words: tuple[str, ...]
    flags: tuple[str, ...] = ()
    setting: tuple[str, ...] = ()
    payload: str = ""

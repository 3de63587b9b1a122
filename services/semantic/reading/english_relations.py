"""English questions that ask for one property in different words: "how tall is X", "the height of X". Pure.

Works on the lower-case string after `english_frames`. A capital word in the result cannot be typed by anybody,
so it never meets a word of the question.
"""

# ruff: noqa: E501 - one pattern a line

import re
from collections.abc import Callable

from services.semantic.reading.english_frames import addressed
from services.semantic.reading.english_words import singular
from services.semantic.reading.words import rewriting

_IS = r"(?:is|are|was|were)"
_HOLE = "\ue000-\uf8ff"
_NP = r"(?P<x>.+)"


_MEANING = (
    r"(?:what (?:is|are) )?(?:the )?(?:meaning|meanings) of (?:the (?:word|term|phrase|expression|idiom) )?"
)
_RULES = rewriting(
    (r"^(?:tell(?: me| us)?|give(?: me| us)?|state) the (?P<y>[^ ]+(?: [^ ]+)? of .+)$", r"what is the \g<y>"),
    (r"^(?:calculate|compute|work out) (?:the )?(?P<x>.+)$", r"what is \g<x>"),
    (r"^(?:name|tell(?: me)?) the (?P<x>[a-z]+est (?:[^ s]+|[^ ]+[^s])(?: (?:in|of|on) .+)?)$", r"what is the \g<x>"),
    (r"^(?P<x>(?:the )?square root of .+)$", r"what is \g<x>"),
    (rf"^what (?P<y>(?!kind|type|sort)[a-z]+(?: [a-z]+)?) (?:do|does) {_NP} have$", r"what is \g<y> of \g<x>"),
    (rf"^what (?:is|are) {_NP} (?:short|an? abbreviation|an acronym) for$", r"ABBREVIATED \g<x>"),
    (r"^what is (?P<x>.+?)(?: used)? for$", r"what is purpose of \g<x>"),
    (rf"^what makes {_NP}$", r"why \g<x>"),
    (rf"^(?:convert|change) (?P<y>[{_HOLE}]) (?:in)?to (?P<x>[a-z]+)$", r"CONVERT \g<y> \g<x>"),
    (rf"^(?:what|how much) is (?P<y>[{_HOLE}]) in (?P<x>[a-z]+)$", r"CONVERT \g<y> \g<x>"),
    (rf"^how many (?P<x>[a-z]+) (?:is|are|make)(?: there)?(?: in)? (?P<y>[{_HOLE}])$", r"CONVERT \g<y> \g<x>"),
    (r"^what (?P<y>[a-z]+(?: [a-z]+)?) is (?:the )?(?P<z>best|worst|[a-z]+est|most [a-z]+) (?P<x>(?:for|in|to|at|of) .+)$",
     r"what is \g<z> \g<y> \g<x>"),
    (rf"^what (?:does|do) (?:the (?:word|term|phrase|expression|idiom) )?{_NP} mean$", r"MEANING \g<x>"),
    (rf"^{_MEANING}{_NP}$", r"MEANING \g<x>"),
    (rf"^what (?:does|do) {_NP} mean (?P<r>in .+)$", r"MEANING \g<x> \g<r>"),
    (rf"^what (?:is|are) meant by (?:the (?:word|term|phrase) )?{_NP}$", r"MEANING \g<x>"),
    (rf"^what (?:does|do) {_NP} stand for$", r"ABBREVIATED \g<x>"),
    (rf"^how deep (?P<be>{_IS}) {_NP}$", r"DEPTH \g<be> \g<x>"),
    (rf"^what (?P<be>{_IS}) the depth of {_NP}$", r"DEPTH \g<be> \g<x>"),
    (rf"^how wide (?P<be>{_IS}) {_NP}$", r"WIDTH \g<be> \g<x>"),
    (rf"^what (?P<be>{_IS}) the width of {_NP}$", r"WIDTH \g<be> \g<x>"),
    (rf"^how long (?P<be>{_IS}) {_NP}$", r"LENGTH \g<be> \g<x>"),
    (rf"^what (?P<be>{_IS}) the length of {_NP}$", r"LENGTH \g<be> \g<x>"),
    (rf"^how fast (?P<be>{_IS}) {_NP}$", r"SPEED \g<be> \g<x>"),
    (rf"^what (?P<be>{_IS}) the speed of {_NP}$", r"SPEED \g<be> \g<x>"),
    (rf"^how heavy (?P<be>{_IS}) {_NP}$", r"WEIGHT \g<be> \g<x>"),
    (rf"^what (?P<be>{_IS}) the weight of {_NP}$", r"WEIGHT \g<be> \g<x>"),
    (rf"^(?:how much|what) (?:do|does) {_NP} weigh$", r"WEIGHT is \g<x>"),
    (r"^what do (?P<y>i|we|you) do (?P<x>(?:if|when|in case of) .+)$", r"what should \g<y> do \g<x>"),
    (rf"^how tall (?P<be>{_IS}) {_NP}$", r"HEIGHT \g<be> \g<x>"),
    (rf"^what (?P<be>{_IS}) the height of {_NP}$", r"HEIGHT \g<be> \g<x>"),
    (rf"^how old (?P<be>{_IS}) {_NP}$", r"AGE \g<be> \g<x>"),
    (rf"^what (?P<be>{_IS}) the age of {_NP}$", r"AGE \g<be> \g<x>"),
    (rf"^(?:how much|what) (?:does|do) {_NP} cost$", r"PRICE \g<x>"),
    (rf"^what (?:is|are) the (?:price|cost) of {_NP}$", r"PRICE \g<x>"),
    (r"^how (?:big|large|high) is the population of (?P<x>.+)$", r"POPULATION \g<x>"),
    (rf"^how many people (?:live|are living|are there) in {_NP}$", r"POPULATION \g<x>"),
    (rf"^what is the population of {_NP}$", r"POPULATION \g<x>"),
    (rf"^who (?:wrote|authored) {_NP}$", r"AUTHOR \g<x>"),
    (rf"^who (?:is|was) the (?:author|writer) of {_NP}$", r"AUTHOR \g<x>"),
    (rf"^who invented {_NP}$", r"INVENTOR \g<x>"),
    (rf"^who (?:is|was) the inventor of {_NP}$", r"INVENTOR \g<x>"),
    (rf"^who (?:was|were) {_NP} (?:invented by)$", r"INVENTOR \g<x>"),
    (rf"^who discovered {_NP}$", r"DISCOVERER \g<x>"),
    (rf"^who (?:is|was) the discoverer of {_NP}$", r"DISCOVERER \g<x>"),
    (rf"^who painted {_NP}$", r"PAINTER \g<x>"),
    (rf"^who (?:is|was) the painter of {_NP}$", r"PAINTER \g<x>"),
    (rf"^who directed {_NP}$", r"DIRECTOR \g<x>"),
    (rf"^who (?:is|was) the director of {_NP}$", r"DIRECTOR \g<x>"),
    (rf"^what (?:causes|cause) {_NP}$", r"CAUSE \g<x>"),
    (rf"^what (?:is|are) the causes? of {_NP}$", r"CAUSE \g<x>"),
    (rf"^how much time does it take to {_NP}$", r"how long does it take to \g<x>"),
    (rf"^how long will it take to {_NP}$", r"how long will it take to \g<x>"),
    (rf"^(?:what is the reason|for what reason|for which reason|how come|what is the reason why)(?: that| why)? {_NP}$", r"why \g<x>"),
    (rf"^why is it that {_NP}$", r"why \g<x>"),
    (rf"^can (?:i|one) {_NP}$", r"POSSIBLE \g<x>"),
    (rf"^what (?:is|are) the date of birth of {_NP}$", r"when was \g<x> born"),
    (rf"^what (?:is|are) the location of {_NP}$", r"where is \g<x>"),
    (rf"^where (?P<be>is|are) {_NP} (?:located|situated)$", r"where \g<be> \g<x>"),
    (rf"^what (?:is|are) the number of (?P<y>.+?) in {_NP}$", r"how many \g<y> are there in \g<x>"),
    (rf"^how many (?P<y>[^ ]+(?: [^ ]+)?) (?:are|exist) (?:in|on) {_NP}$", r"how many \g<y> are there in \g<x>"),
    (rf"^how many (?P<y>[^ ]+(?: [^ ]+)?) (?:does|do) {_NP} have$", r"how many \g<y> are there in \g<x>"),
)  # fmt: skip

_DIFFERENCE = tuple(
    re.compile(pattern)
    for pattern in (
        r"^(?:(?:what (?:is|are)|explain|describe|tell(?: me)?|give) )?(?:the )?differences? between (?P<a>.+?) and (?P<b>.+)$",
        r"^how (?:is|are) (?P<a>.+?) different from (?P<b>.+)$",
        r"^how (?:does|do) (?P<a>.+?) differ from (?P<b>.+)$",
        r"^how (?:does|do) (?P<a>.+?) and (?P<b>.+) differ$",
        r"^how (?:is|are) (?P<a>.+?) and (?P<b>.+) different$",
        r"^in what ways? (?:is|are) (?P<a>.+?) different from (?P<b>.+)$",
        r"^in what ways? (?:does|do) (?P<a>.+?) differ from (?P<b>.+)$",
        r"^what (?:makes|sets) (?P<a>.+?) (?:different|apart) from (?P<b>.+)$",
        r"^what distinguishes (?P<a>.+?) from (?P<b>.+)$",
    )
)
_SYMMETRIC = (
    (re.compile(r"^how far (?:is|are) (?P<a>.+?) from (?P<b>.+)$"), "DISTANCE"),
    (re.compile(r"^(?:what is )?the distance (?:between|from) (?P<a>.+?) (?:and|to) (?P<b>.+)$"), "DISTANCE"),
    (re.compile(r"^compare (?P<a>.+?) (?:and|with|to|vs|versus) (?P<b>.+)$"), "COMPARE"),
    (re.compile(r"^how (?:does|do) (?P<a>.+?) compare (?:with|to) (?P<b>.+)$"), "COMPARE"),
    (
        re.compile(r"^(?:what (?:is|are) )?(?:the )?similarit(?:y|ies) between (?P<a>.+?) and (?P<b>.+)$"),
        "ALIKE",
    ),
    (re.compile(r"^what (?:do|does) (?P<a>.+?) and (?P<b>.+) have in common$"), "ALIKE"),
    (re.compile(r"^how (?:is|are) (?P<a>.+?) and (?P<b>.+) (?:similar|alike)$"), "ALIKE"),
)
_BEST = r"(?P<z>[a-z]+er|better|worse|(?:more|less) [a-z]+)"
_FOR = r"(?P<r>(?: (?:in|for|at|on) .+)?)"
_WHETHER = (
    re.compile(rf"^(?:is|are) (?P<a>[^,]+?) or (?P<b>[^,]+?) {_BEST}{_FOR}$"),
    re.compile(rf"^(?P<a>[^,.]+?) or (?P<b>[^,.]+?)\s*[,.:-]? (?:which|what)(?: one)? is {_BEST}{_FOR}$"),
)
_CHOICE = re.compile(
    r"^(?P<head>(?:which (?:one )?|who )(?:is|are) [^ ]+(?: [^ ]+){0,3}?), (?P<a>[^,]+?) or (?P<b>[^,]+)$"
)
# "in which year", "for how long": the preposition says nothing that the rest does not.
_LED = re.compile(
    r"^(?:in (?=(?:what|which) (?:year|month|century)\b)|at (?=(?:what|which) (?:age|time)\b)"
    r"|on (?=(?:what|which) day\b)|for (?=how long\b))"
)
_WHICH = re.compile(
    r"^which (?!is\b|are\b|was\b|were\b|one\b|of\b|do\b|does\b|did\b|can\b|will\b|should\b|has\b|have\b)"
)
_DAILY = "(?:eat|drink|feed|take|swim|exercise|wear|bathe|shower|give|reheat|refreeze|sleep)"
_POSSIBLE = re.compile(rf"^is it possible(?: for (?:me|us|you|one))? to (?!{_DAILY}\b)")
_FINE = re.compile(rf"^is it fine(?: for (?:me|us|you|one))? to (?={_DAILY}\b)")
_SOME_WAY = re.compile(r"^is there (?:a|any) way to ")
_PLACE = re.compile(r"^in (?:what|which) places? ")
_INTO = re.compile(r"^(translate|convert|transform) (.+) into ")
_SOME_OF = re.compile(r"^(what (?:is|are)) some (?!of\b)")
_EITHER_WAY = (
    "differences?|distance|relation|relationship|relations|similarity|similarities|connection|link|border|boundary|correlation"
    "|comparison|choose|decide|overlap|contrast|distinguish|conflict|friendship|interaction|tell"
)
_BETWEEN = re.compile(
    rf"\b(?P<head>{_EITHER_WAY}) between ((?:(?!and\b)[^ ,]++ ?){{1,4}}) and ((?:(?!and\b|in\b|on\b|for\b)[^ ,]++ ?){{1,4}})$"
)
_OF = re.compile(r"\b(symbol|formula|treatment|cure|recipe|abbreviation|price|cost) for\b")
_WORLD = re.compile(r"\b(?:in|of) (?:the (?:whole |entire )?)?world$")
_WHERE = re.compile(r"^where (can|could|do|would) (i|you|we|one) (?!be\b)(.+)$")
_JOINED = re.compile(r"\b(?:and|or|from|to)\b")
_POSSESSIVE = re.compile(
    rf"\b((?:(?:my|your|his|her|our|their|a|an|the) )?[\w~{_HOLE}]+)'s ((?:[\w~{_HOLE}]+ ){{0,3}}?[\w~{_HOLE}]+)(?= (?:in|on|at|for|with|from|to|when|if)\b|[?.!]|$)"
)
# "Who was Abraham Lincoln's wife": the owner is all that stands before it.
_OWNED = re.compile(
    rf"^((?:who|what|where|when) (?:is|are|was|were)) ((?:[\w~{_HOLE}]+ ){{1,3}}[\w~{_HOLE}]+)'s ((?:[\w~{_HOLE}]+ ){{0,3}}[\w~{_HOLE}]+)$"
)
_NO_OWNER = frozenset(
    {"of", "in", "on", "for", "to", "at", "from", "with", "and", "or", "about", "wrong", "a", "an"}
)
_PARTICLE = re.compile(
    rf"\b(turn|switch|shut|log|plug|power|back) ((?:the |my |a |an )?[\w{_HOLE}]+(?: [\w{_HOLE}]+)?) (on|off|down|up|out|in)$"
)


def relation(text: str, read: Callable[[str], str]) -> str:
    """The question with a property's different phrasings made one; `read` puts spans back into a side."""
    text = _PLACE.sub("where ", text)
    text = _WHICH.sub("what ", _INTO.sub(r"\1 \2 to ", _LED.sub("", text)))
    text = _BETWEEN.sub(lambda found: _sorted(found, read), _SOME_OF.sub(r"\1 ", text))
    text = _WORLD.sub("of world", _OF.sub(r"\1 of", text))
    if (found := _WHERE.match(text)) and _anybody(*found.groups()):
        return f"WHERE {found[3]}"
    if two := _compared(text, read):
        return two
    for pattern, result in _RULES:
        if pattern.match(text):
            return pattern.sub(result, text)
    return text


def _compared(text: str, read: Callable[[str], str]) -> str | None:
    """A question about two things, with these in one order; None where it is about something else."""
    for pattern in _DIFFERENCE:
        if found := pattern.match(text):
            return _pair("DIFFERENCE", found, read)
    for pattern, name in _SYMMETRIC:
        if found := pattern.match(text):
            return _pair(name, found, read)
    if found := _CHOICE.match(text):
        return _pair(found["head"], found, read, single=True)
    for pattern in _WHETHER:
        if (found := pattern.match(text)) and not _JOINED.search(found["a"] + " " + found["b"]):
            return _pair(f"which is {found['z']}", found, read, single=True) + found["r"]
    return None


def allowed(text: str, *, technical: bool) -> str:
    """Read "is it fine to eat" and "is it possible to move" as "can I", "is there a way to" of tools as "how do I"."""
    text = _POSSIBLE.sub("can i ", _FINE.sub("can i ", text))
    return _SOME_WAY.sub("how do i ", text) if technical else text


def ordered(text: str) -> str:
    """Read "Japan's capital" as "the capital of Japan", and "turn it off" as "turn off it"."""
    text = _OWNED.sub(_of_owner, text)
    before = None
    while before != text:
        before = text
        text = _POSSESSIVE.sub(r"the \2 of \1", text, count=1)
    return _PARTICLE.sub(r"\1 \3 \2", text)


def _of_owner(found: re.Match[str]) -> str:
    if _NO_OWNER & set(f"{found[2]} {found[3]}".split()):
        return found[0]
    return f"{found[1]} the {found[3]} of {found[2]}"


def _anybody(modal: str, who: str, rest: str) -> bool:
    """Whether the place is the same whoever asks: "where do you live" is not "where do I live"."""
    return not addressed(who, rest) and (who == "i" or modal in {"can", "could"})


def _sorted(found: re.Match[str], read: Callable[[str], str]) -> str:
    sides = sorted((side.strip() for side in found.groups()[1:]), key=read)
    return f"{found['head']} between {' and '.join(sides)}"


def _pair(name: str, found: re.Match[str], read: Callable[[str], str], *, single: bool = False) -> str:
    """Both sides in one order; as they stand where it is not certain where a side ends."""
    sides = [re.sub(r"^(?:a|an|the) ", "", found[side].strip(" ,")) for side in "ab"]
    if single:
        sides = [singular(side) for side in sides]
    if not any(_JOINED.search(side) for side in sides):
        sides.sort(key=read)
    return f"{name} {sides[0]} AND {sides[1]}"

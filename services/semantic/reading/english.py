"""Reads an English question: frames off, flags apart, words folded. Pure."""

# ruff: noqa: E501 - one pattern a line

import re

from services.semantic.reading import (
    english_frames,
    english_grammar,
    english_phrasing,
    english_relations,
    english_words,
)
from services.semantic.reading.base import Reading
from services.semantic.reading.spans import FIRST, HOLE, LAST, Span, measured

# Characters. What is longer is seldom asked in other words, and would take long to read; it is left as it is.
LONGEST = 600
_WH = frozenset({"what", "why", "when", "where", "who", "whom", "whose", "which", "how"})
_AUX = frozenset({
    "is", "are", "am", "was", "were", "do", "does", "did", "can", "could", "will", "would", "shall", "should",
    "must", "may", "might", "has", "have", "had",
})  # fmt: skip
_MODAL = frozenset({"can", "could", "will", "would", "shall", "should", "must", "may", "might"})
_DO: dict[str, list[str]] = {"do": [], "does": [], "did": ["#past"]}
_BE = {"is": "#be", "are": "#be", "am": "#be", "was": "#was", "were": "#was"}
_PRONOUNS = frozenset({"i", "you", "we", "they", "he", "she", "it", "to"})
# With one of these about, it is not certain what a negation or a modal verb belongs to.
_CLAUSES = frozenset(
    {"that", "which", "who", "if", "and", "or", "but", "because", "when", "while", "to", "than", "."}
)
_DEGREES = frozenset(
    [
        "many",
        "much",
        "long",
        "far",
        "often",
        "old",
        "tall",
        "big",
        "large",
        "fast",
        "deep",
        "wide",
        "high",
        "heavy",
        "soon",
        "hot",
        "cold",
        "small",
        "well",
        "bad",
        "good",
        "likely",
        "early",
        "late",
        "quickly",
        "easily",
        "thick",
        "loud",
        "close",
        "strong",
        "hard",
        "dangerous",
        "safe",
        "expensive",
        "common",
        "rare",
        "important",
    ]
)
# Beside these it matters what a "not" stands before: not all, all not.
_SCOPE = frozenset({
    "all", "every", "each", "both", "any", "some", "many", "most", "few", "only", "always", "just", "even",
    "also", "never", "either", "everyone", "everybody", "everything", "no",
})  # fmt: skip
_MANNER = frozenset({
    "quickly", "easily", "safely", "properly", "correctly", "manually", "automatically", "briefly", "efficiently",
    "permanently", "temporarily", "legally", "politely", "cheaply", "naturally", "effectively", "gently", "securely",
    "shortly", "concisely",
})  # fmt: skip
# Verbs whose "to" leads no second verb.
_MOVING = frozenset({
    "convert", "change", "turn", "translate", "move", "copy", "add", "connect", "switch", "go", "get",
    "send", "upload",
})  # fmt: skip
_FRONTED = re.compile(
    rf"^((?:in|on|with|using|at|for|from|under|as|during|by) (?:[\w'{FIRST:c}-{LAST:c}~]++ ?){{1,4}}), (.+)$".replace(
        f"{FIRST:c}-{LAST:c}", HOLE[1:-1]
    )
)
_CONDITION = re.compile(r"^((?:if|when|while) (?:[^ ,]+ ){1,7}[^ ,]+), ([^,]+)$")
_ASKING = re.compile(
    rf"^(?:{'|'.join(sorted(_WH | _AUX))}|please|tell|explain|give|write|list|show|summari[sz]e|describe|compare)\b"
)
# Where the words themselves are asked about, no word stands for another.
_METALINGUISTIC = re.compile(
    r"\b(?:mean(?:s|ing)?|meant|defin\w+|translat\w+|rewrit\w+|rephras\w+|paraphras\w+|proofread\w*|transcri\w+"
    r"|spell\w*|pronounc\w+|rhym\w+|synonyms?|antonyms?|conjugat\w+|plurals?|singular|tenses?|stands? for|acronyms?"
    r"|abbreviat\w+|short for|(?<!cover )(?<!resignation )(?<!apology )letters?(?! (?:to|for|from)\b)|syllables?|sentences?|words"
    r"|(?<!\bin )(?<!\binto )(?<!\bto )(?<!\bfrom )(?<!microsoft )word(?! (?:documents?|docs?|files?|templates?|processor)\b)|phrases?|nouns?|verbs?|adjectives?|adverbs?"
    r"|called|says?|said|saying|etymology|idioms?|puns?|palindromes?|anagrams?|grammar|grammatical\w*|capitali[sz]\w*"
    r"|vowels?|consonants?|terms?|spelt|opposite|do (?:you|we|they|people) call)\b"
)


def read(masked: str, spans: tuple[Span, ...]) -> Reading:
    """The reading of a normalised question whose spans are cut out."""
    text = english_words.lowered(masked)
    text = _ended(text)
    if len(text) > LONGEST:
        return Reading("en", "", tuple(_filled(word, spans) for word in text.split(" ")))
    if not _about_words(text):
        text, spans = measured(english_words.corrected(text), spans)
    direct = text.startswith("what")
    text = _turned(english_frames.bare(text, strict=_about_words(text)))
    text = text if direct else _EMBEDDED.sub(r"what do \g<x> \g<y>", text)
    text = english_relations.ordered(text)
    strict = _about_words(text)
    text = english_grammar.plain(english_phrasing.plain(text, strict=strict), strict=strict)
    text = english_relations.allowed(text, technical=english_words.technical(text))
    text, setting = english_words.setting(text) if not strict else (text, ())
    defining = english_words.defining(text)
    if not strict:
        text = english_words.phrases(text, defining=defining)
    todo = english_frames.how_to(text)
    if todo is not None:
        todo = english_grammar.task(todo)
    else:
        text = english_relations.relation(text, lambda side: _filled(side, spans))
        text, more = english_words.setting(text) if not strict else (text, ())
        setting += more
    subject = todo is None and _SUBJECT.match(text) is not None
    ask, tokens, flags = _asked(text) if todo is None else ("how to", _tokens(todo), [])
    words = english_words.folded(
        tokens, ask, strict=strict, defining=defining, place=setting, subject=subject
    )
    words, manner = (words, []) if strict else _manner(words)
    filled = tuple(_filled(word, spans) for word in words)
    place = tuple(_filled(word, spans) for word in setting)
    return Reading("en", ask, filled, tuple(sorted([*flags, *manner])), place)


def _about_words(text: str) -> bool:
    return _METALINGUISTIC.search(text) is not None


def _ended(text: str) -> str:
    return text.rstrip(" .?!;,:").lstrip(" ,.")


def _turned(text: str) -> str:
    """Read "In Excel, how do I …" as "how do I … in Excel"."""
    found = _FRONTED.match(text) or _CONDITION.match(text)
    if found and _ASKING.match(found[2]):
        text = english_frames.bare(f"{found[2]} {found[1].strip()}")
    return text


# "What do koalas eat": nothing that is chosen from koalas.
_SUBJECT = re.compile(r"^what (?:do|does) (?:an? |the )?(?!the\b|my\b|your\b)\w+ (?!have\b)")
# "Tell me what koalas eat".
_EMBEDDED = re.compile(
    r"^what (?P<x>[a-z]{2,}[^s\W]s) (?!is\b|are\b|was\b|were\b|do\b|did\b|can\b|will\b|have\b)(?P<y>[a-z]+[^s\W](?: (?:in|on|at|for|to) .+)?)$"
)
_MARKS = re.compile(rf"[,:\"'()]|-(?![a-z])|(?<={HOLE})-")


def _tokens(text: str) -> list[str]:
    return re.sub(r"\s*[.?!;]+\s*", " . ", _MARKS.sub(" ", text)).split()


def _asked(text: str) -> tuple[str, list[str], list[str]]:
    """The class of the question, its words and its flags."""
    tokens = _tokens(text)
    if not tokens:
        return "", [], []
    first = tokens[0]
    if first in _WH:
        ask = f"how {tokens[1]}" if first == "how" and _DEGREES & set(tokens[1:2]) else first
    elif first.isupper():
        ask = first.lower()
    elif first in _AUX:
        ask = "yes or no"
    else:
        return "", tokens, []
    return ask, *_flagged(tokens)


def _flagged(tokens: list[str]) -> tuple[list[str], list[str]]:
    """Words without the auxiliaries that a statement and a question place differently, and these as flags."""
    tokens, flags = _told(list(tokens))
    simple = not _CLAUSES & set(tokens[1:])
    for at, word in enumerate(tokens[:-1]):
        if word in _DO and (at == 0 or tokens[at - 1] not in _PRONOUNS):
            del tokens[at]
            flags += _DO[word] or (["#do"] if at == 1 and tokens[0] in {"what", "which", "who"} else [])
            break
    if be := next((word for word in tokens if word in _BE), None):
        tokens.remove(be)
        flags.append(_BE[be])
    modals = [token for token in tokens if token in _MODAL]
    if len(modals) == 1 and (simple or tokens[0] in _MODAL):
        tokens.remove(modals[0])
        flags.append(modals[0])
    if simple and tokens.count("not") == 1 and not _bound(tokens, being=be is not None):
        tokens.remove("not")
        flags.append("not")
    return tokens, flags


def _bound(tokens: list[str], *, being: bool) -> bool:
    """Whether it matters where "not" stands: "people not wearing masks", "not all"."""
    after = tokens[tokens.index("not") + 1 :][:1]
    return bool(_SCOPE & set(tokens)) or (not being and bool(after) and after[0].endswith("ing"))


def _told(tokens: list[str]) -> tuple[list[str], list[str]]:
    """Read "when the wall fell" as "when did the wall fall", and "can not I" as "can I not"."""
    for at in range(1, len(tokens) - 1):
        if tokens[at] == "not" and tokens[at - 1] in _AUX and tokens[at + 1] in _PRONOUNS:
            tokens[at : at + 2] = [tokens[at + 1], "not"]
            break
    if tokens[0] not in {"when", "where", "why", "how"} or _AUX & set(tokens) or _DEGREES & set(tokens[1:2]):
        return tokens, []
    past = [at for at, token in enumerate(tokens) if english_words.present(token) is not None]
    if len(past) != 1:
        return tokens, []
    tokens[past[0]] = english_words.present(tokens[past[0]]) or ""
    return tokens, ["#past"]


def _manner(words: list[str]) -> tuple[list[str], list[str]]:
    found = [word for word in words if word in _MANNER]
    if len(found) != 1 or (_CLAUSES & set(words) and words[0] not in _MOVING):
        return words, []
    return [word for word in words if word not in _MANNER], found


def _filled(word: str, spans: tuple[Span, ...]) -> str:
    """A word with the spans back in it; a number reads as it is, other spans say what they are."""
    if not any(FIRST <= ord(letter) <= LAST for letter in word):
        return word
    parts = []
    for letter in word:
        if FIRST <= ord(letter) <= LAST:
            span = spans[ord(letter) - FIRST]
            parts.append(span.text if span.kind == "number" else f"{span.kind}:{span.text}")
        else:
            parts.append(letter)
    return "".join(parts)

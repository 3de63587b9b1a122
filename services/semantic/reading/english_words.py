"""English words made one of their spellings, numbers and synonyms. Pure; reads `data/english.toml` once."""

# ruff: noqa: E501 - one pattern a line

import re
from collections.abc import Iterable

from services.semantic.reading import units
from services.semantic.reading.english_frames import base_form
from services.semantic.reading.spans import HOLE
from services.semantic.reading.words import alternatives, groups, load

_DATA = load("english")
_NAMES = groups(_DATA["names"])
_SYNONYMS = groups(_DATA["synonyms"]) | _NAMES
_GROUPED = frozenset({*_SYNONYMS, *_SYNONYMS.values()})
_CODED = groups(_DATA["coded"])
_PHRASES = {phrase: first for phrase, first in _SYNONYMS.items() if " " in phrase}
# Beside these a group is not one: "remove a drive" is not "erase a drive".
_UNLESS = {first: frozenset(words.split()) for first, words in _DATA["unless"].items()}
_VERBS = frozenset(_DATA["verbs"].split())
_NOUN_BEFORE = frozenset({
    "a", "an", "the", "of", "my", "your", "his", "her", "our", "their", "its", "no", "best", "some", "any",
    "this", "that", "is", "are",
})  # fmt: skip
_NOUN_AFTER = frozenset({
    "statement", "function", "method", "keyword", "command", "query", "clause", "switch", "operator",

})  # fmt: skip
_ARTICLES = frozenset({"a", "an", "the"})
# Who made it: there the name of a work is asked about, and "Aliens" is not "Alien".
_TITLED = frozenset({"author", "director", "painter"})
# Before these an article is no article, or says how many.
_NO_NOUN = frozenset({
    "or", "and", "in", "on", "with", "of", "a", "an", "the", "few", "little", "number", "from", "to", "for",
    "than", "is", "as", "at", "by",
})  # fmt: skip
_SPELLING = groups(_DATA["spelling"])
_PLURALS = groups(_DATA["plurals"])
_PAST = groups(_DATA["past"])
_PARTICIPLES = groups(_DATA["participles"])
PARTICIPLES = alternatives({*_PARTICIPLES, *_PAST})
_NUMBERS = {word: digits for line in _DATA["numbers"] for word, _, digits in [line.partition(", ")]}
_TOOLS = frozenset(_DATA["tools"].split())
_DOUBTFUL = frozenset(_DATA["doubtful"].split())
_UNCOUNTABLE = frozenset(_DATA["uncountable"].split())
# Beside these, one and several are told apart: an order, or a choice of one or of several.
_COUNTED = frozenset(_DATA["counted"].split())
DEFINITE = frozenset({"the", "my", "your", "his", "her", "our", "their", "its"})
BEHIND = frozenset({"of", "in", "on", "for", "to", "at", "from", "with", "between", "about", "when", "if"})
_SUPERLATIVE = re.compile(r"^[a-z]{2,}est$")
_NO_SUPERLATIVES = frozenset(
    {
        "test",
        "request",
        "forest",
        "interest",
        "chest",
        "digest",
        "harvest",
        "invest",
        "suggest",
        "honest",
        "guest",
        "nest",
        "rest",
        "west",
        "protest",
        "manifest",
        "pest",
        "vest",
        "quest",
        "arrest",
        "conquest",
        "everest",
        "contest",
        "modest",
    }
)
_ORDINALS = {"1st": "first", "2nd": "second", "3rd": "third", "4th": "fourth", "5th": "fifth"}

_CAPITAL = re.compile(r"(?<![.?!:] )(?<!^)\b([A-Z][A-Za-z]*)\b")
# Behind another name a plural is a name of its own: John Adams is not John Adam.
_SURNAME = re.compile(r"(?<=[a-z] )(?:[A-Z][a-z]+|[A-Z]\.) ([A-Z][a-z]+s)\b(?!')")
_DOTTED = re.compile(r"\b(USA?|UK|EU)\.(?= [a-z])")
_PHRASED = frozenset(word for phrase in _PHRASES for word in phrase.split())
_NEGATED = re.compile(
    r"\b(can|wo|sha|do|does|did|is|are|was|were|has|have|had|could|would|should|must|might|need)n't\b|\bcan't\b|\bcannot\b"
)
_STEMS = {"wo": "will", "sha": "shall"}
_BARE = {
    "whats": "what is", "hows": "how is", "wheres": "where is", "whos": "who is", "whens": "when is", "dont": "do not",
    "doesnt": "does not", "didnt": "did not", "cant": "can not", "isnt": "is not", "arent": "are not", "wont": "will not",
    "wasnt": "was not", "couldnt": "could not", "wouldnt": "would not", "shouldnt": "should not", "im": "i am",
    "ive": "i have", "theres": "there is", "thats": "that is",
}  # fmt: skip
# "man-eating" is not "man eating".
_HYPHEN = re.compile(r"(?<=[a-z])-(?=[a-z])(?![a-z]+ing\b)")
_UNMARKED = re.compile(rf"\b(?:{alternatives(_BARE)})\b")
_SHORT = (
    (re.compile(r"\b(what|who|where|when|why|how|which|that|there|here|it|he|she|this|everything|something)'s\b"), r"\1 is"),
    (re.compile(r"\b(let)'s\b"), r"\1 us"),
    (re.compile(r"\bi'm\b"), "i am"),
    (re.compile(r"(\w)'re\b"), r"\1 are"),
    (re.compile(r"(\w)'ll\b"), r"\1 will"),
    (re.compile(r"(\w)'ve\b"), r"\1 have"),
    (re.compile(r"\b(i|you|he|she|we|they|it)'d\b"), r"\1 would"),
)  # fmt: skip
_PHRASE = re.compile(rf"\b(?:{alternatives(_PHRASES)})\b")
_PLAINLY = alternatives(_TOOLS - frozenset(_DATA["doubtful_tools"].split()))
TOOL = alternatives(_TOOLS)
_AFTER = r"(?=$| (?:in|on|for|with|from|to|at|using|when|if|without|and|step|as|so|by|line by line|that|which)\b|[,.?!])"
_SETTING = re.compile(
    rf" (?:in|using|with|via|on|under) (?:a |an |the |my )?((?:{TOOL})~?(?: {HOLE})?){_AFTER}"
)
_BEFORE = re.compile(
    rf"(?<!of )(?<!for )(?<!from )(?<!to )(?<!into )(?<!than )(?<!and )(?<!or )(?<!about )(?<!with )(?<!my )"
    rf"\b({_PLAINLY}) (?!(?:{alternatives(_DATA['belongings'].split())})\b)(?=[a-z])"
)
_W = rf"[\w~{HOLE[1:-1]}]+"
_DEFINING = re.compile(
    rf"^what (?:(?:is|are|was|were) (?:an? |the )?(?P<x>(?:{_W} ){{0,2}}{_W})|(?:an? |the )?(?P<y>(?:{_W} ){{0,2}}{_W}) (?:is|are))$"
)
_TYPOS = groups(_DATA["typos"])
_TYPO = re.compile(rf"\b(?:{alternatives(_TYPOS)})\b")
_NAMED = re.compile(rf"\b(?:{_PLAINLY})\b")
_LANGUAGE = re.compile(rf"\b({TOOL}) (?:programming )?language\b")
_PROGRAMMED = re.compile(
    r"^(?:in|using|with|on) ((?:" + TOOL + r")~?),? (?=how|what|why|which|where|when|is|can|do|does)"
)


def lowered(text: str) -> str:
    """Lower case with contractions written out; a capital that makes another word of it is kept as ``~``."""
    if any(letter.islower() for letter in text):
        text = _SURNAME.sub(_kept, _DOTTED.sub(r"\1", text))
        few = len(text.split()) <= 4
        end = len(text.rstrip(" ?.!"))
        text = _CAPITAL.sub(lambda found: _marked(found[1], few=few and found.end() == end), text)
    text = _NEGATED.sub(_not, text.lower())
    text = _UNMARKED.sub(lambda found: _BARE[found.group()], text)
    for pattern, written in _SHORT:
        text = pattern.sub(written, text)
    return _HYPHEN.sub(" ", text)


def _kept(found: re.Match[str]) -> str:
    lower = found[1].lower()
    return found[0] if lower in _PHRASED or singular(lower) == lower else f"{found[0]}~"


def _marked(word: str, *, few: bool) -> str:
    if word == "US":
        return "usa"
    lower = word.lower()
    if word in {"A", "IT", "WHO", "AIDS"} or (lower in _DOUBTFUL and (few or lower not in _TOOLS)):
        return f"{lower}~"
    return lower


def _not(found: re.Match[str]) -> str:
    stem = found[1]
    return "can not" if stem is None else f"{_STEMS.get(stem, stem)} not"


def phrases(text: str, *, defining: bool) -> str:
    """Synonyms of several words made the one that stands for them."""
    words = frozenset(text.split())

    def one(found: re.Match[str]) -> str:
        first = _PHRASES[found.group()]
        kept = (defining and found.group() not in _NAMES) or _UNLESS.get(first, frozenset()) & words
        return found.group() if kept else first

    return _PHRASE.sub(one, text)


def defining(text: str) -> bool:
    """Whether it is asked what something is: then a word stands for no other, and "an iron" is not "iron"."""
    found = _DEFINING.match(text)
    words = (found["x"] or found["y"]).split() if found else []
    return bool(words) and not (BEHIND & set(words)) and not any(map(counted, words))


def technical(text: str) -> bool:
    """Whether a language, tool or system is named."""
    return _NAMED.search(text) is not None


def corrected(text: str) -> str:
    """Frequent slips of the fingers set right; none of them is a word."""
    return _TYPO.sub(lambda found: _TYPOS[found.group()], text)


def setting(text: str) -> tuple[str, tuple[str, ...]]:
    """The text without the language, tool or system that it is asked for, and these."""
    found: list[str] = []

    def take(hit: re.Match[str]) -> str:
        found.append(hit[1].rstrip("~").replace("~ ", " "))
        return ""

    text = _PROGRAMMED.sub(take, _LANGUAGE.sub(r"\1", text))
    text = _SETTING.sub(take, text)
    if not found and len(_NAMED.findall(text)) == 1:
        text = _BEFORE.sub(take, text)
    return text.strip(), tuple(placed(name) for name in found)


def placed(name: str) -> str:
    """One name for each language, tool or system; elsewhere a Mac is a computer, or an address of one."""
    return {"mac": "macos", "golang": "go", "nodejs": "node"}.get(name) or _SYNONYMS.get(name, name)


def folded(
    tokens: list[str], ask: str, *, strict: bool, defining: bool, place: Iterable[str], subject: bool
) -> list[str]:
    """Each word as the one that stands for it; where words are what is asked about, as it is."""
    said = [token for at, token in enumerate(tokens) if not _article(tokens, at, defining=defining)]
    if strict:
        return said if ask and ask != "meaning" else tokens
    countable = (
        bool(ask) and not ask.startswith("which") and ask not in _TITLED and not any(map(counted, tokens))
    )
    if ask == "convert":
        said = [units.symbol(token) for token in said]
    head = _head(said) if ask in {"what", "who"} and said[0] == ask and not subject else 0
    plain = [_plain(token, countable=countable and at >= head) for at, token in enumerate(said)]
    firsts = [_first(plain, at, defining=defining, place=frozenset(place)) for at in range(len(plain))]
    classes: dict[str, set[str]] = {}
    for word, first in zip(plain, firsts, strict=True):
        classes.setdefault(first, set()).add(word)
    # Two words of one group in one question are told apart by it.
    single = (first if len(classes[first]) == 1 else word for word, first in zip(plain, firsts, strict=True))
    return " ".join(single).split(" ") if plain else []


def _article(tokens: list[str], at: int, *, defining: bool) -> bool:
    """Whether it is an article that says nothing."""
    after = tokens[at + 1].lower() if at + 1 < len(tokens) else "or"
    if tokens[at] not in _ARTICLES or (after in _NO_NOUN and after != tokens[at]):
        return False
    if not defining:
        return True
    return tokens[at] == "the" and len(tokens) > 3


def _first(words: list[str], at: int, *, defining: bool, place: frozenset[str]) -> str:
    """The word that stands for the one at this place, here."""
    word = words[at]
    if defining:
        return _NAMES.get(word, word)
    first = _SYNONYMS.get(word) or (_CODED.get(word) if place else None)
    several = _PLURALS.get(word) or word.removesuffix("s")
    if first is None and several != word and several in _GROUPED:
        first = f"{_SYNONYMS.get(several, several)}s"
    if first is None or _UNLESS.get(first.rstrip("s"), frozenset()) & {
        beside.rstrip("~") for beside in (*words, *place)
    }:
        return word
    return word if first in _VERBS and _is_noun(words, at) else first


def _is_noun(words: list[str], at: int) -> bool:
    before, after = set(words[max(at - 1, 0) : at]), set(words[at + 1 : at + 2])
    return bool(before and not after) or bool(_NOUN_BEFORE & before or _NOUN_AFTER & after)


def _head(tokens: list[str]) -> int:
    """Where that ends which is asked for as one or as several: "what country", "who is the king"."""
    if tokens[1:2] and tokens[1] in DEFINITE:
        return next((at for at, token in enumerate(tokens) if token in BEHIND), len(tokens))
    return 2


def counted(word: str) -> bool:
    """Whether one and several are two questions beside this word."""
    return word in _COUNTED or (_SUPERLATIVE.match(word) is not None and word not in _NO_SUPERLATIVES)


def _plain(word: str, *, countable: bool) -> str:
    word = _ORDINALS.get(word, word)
    word = _NUMBERS.get(word, word)
    word = _spelled(word)
    if countable:
        word = _spelled(singular(word))
    return re.sub(r"(?<=[a-z]{3})is(?=(?:e|ed|es|ing|ation)$)", "iz", word) if _british(word) else word


def _spelled(word: str) -> str:
    if word in _SPELLING or not word.endswith("s"):
        return _SPELLING.get(word, word)
    return f"{_SPELLING.get(word[:-1], word[:-1])}s"


def _british(word: str) -> bool:
    return word not in _WITH_S and re.search(r"[a-z]{3}is(?:e|ed|es|ing|ation)$", word) is not None


_WITH_S = frozenset(
    [
        "exercise",
        "advertise",
        "advise",
        "arise",
        "comprise",
        "compromise",
        "disguise",
        "enterprise",
        "excise",
        "franchise",
        "improvise",
        "merchandise",
        "otherwise",
        "precise",
        "premise",
        "promise",
        "raise",
        "rise",
        "supervise",
        "surprise",
        "televise",
        "wise",
        "noise",
        "poise",
        "praise",
        "cruise",
        "bruise",
        "concise",
        "paradise",
        "expertise",
        "treatise",
        "demise",
        "despise",
        "devise",
        "revise",
        "likewise",
        "clockwise",
        "appraise",
        "braise",
        "liaise",
        "raised",
        "raising",
        "rising",
        "promised",
        "promising",
        "surprised",
        "surprising",
        "advising",
        "advised",
        "revised",
        "exercising",
    ]
)


def present(word: str) -> str | None:
    """The base form of a verb in the past tense; None where it is none."""
    if word in _PAST:
        return _PAST[word]
    if word.endswith("ed") and len(word) > 4:
        return base_form(word.removesuffix("ed"))
    return None


def participle(word: str) -> str | None:
    """The base form of a verb's past participle; None where it is none."""
    return _PARTICIPLES.get(word) or present(word)


def singular(word: str) -> str:
    """A plural's singular, by ending, where it is not a word that merely ends alike."""
    if word in _PLURALS:
        return _PLURALS[word]
    if len(word) < 4 or not word.endswith("s") or word in _UNCOUNTABLE or word.endswith(("ss", "us", "is")):
        return word
    if word.endswith("ies"):
        return word[:-3] + "y"
    if word.endswith(("ches", "shes", "xes", "sses", "zes")):
        return word[:-2]
    return word[:-1]

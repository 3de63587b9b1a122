"""English questions asked in one of several everyday ways: another verb, another order, two sentences for one. Pure.

Works on the lower-case string before `english_grammar`, so that each rule leaves what that module reads. A rule
belongs here only where both ways ask the same of anything that fits the pattern.
"""

# ruff: noqa: E501 - one pattern a line

import re

from services.semantic.reading import english_words
from services.semantic.reading.english_frames import base_form, infinitive
from services.semantic.reading.spans import HOLE
from services.semantic.reading.words import fitting, rewriting

_W = rf"[\w'~{HOLE[1:-1]}]+"
_NP = rf"(?:{_W} ){{0,3}}?{_W}"
_PERSON = r"(?:i|you|we|one|people|someone|anyone)"
_MAKER = "(?P<v>founded|created|composed|designed)"
_OF_MAKER = {"founder": "founded", "creator": "created", "composer": "composed", "designer": "designed"}
_PAST = {
    "written": "wrote", "sung": "sang", "drawn": "drew", "built": "built", "made": "made", "found": "found",
    "won": "won", "led": "led", "taught": "taught", "shot": "shot", "said": "said", "sold": "sold",
}  # fmt: skip
LANGUAGES = (
    "(?:english|french|german|spanish|italian|portuguese|dutch|russian|polish|turkish|arabic|hebrew|hindi|japanese|chinese"
    "|mandarin|cantonese|korean|latin|greek|swedish|norwegian|danish|finnish|thai|vietnamese|czech|ukrainian|welsh|irish)"
)
_VERBS = {
    "used": "use",
    "made": "make",
    "built": "build",
    "found": "find",
    "won": "win",
    "led": "lead",
    "said": "say",
}
_DONE = rf"(?P<v>\w{{3,}}ed|{'|'.join(_PAST)})"
# What no model does by itself, so that "can you freeze it" asks nothing of one.
_HOUSEHOLD = "(?:freeze|refreeze|reheat|microwave|recycle|compost|reuse|bleach)"
_WRITTEN = (
    "(?:poem|haiku|story|essay|email|letter|message|speech|song|joke|limerick|sonnet|tagline|slogan|paragraph"
    "|review|dialogue|screenplay|monologue|caption|tweet|post|description|introduction|conclusion)"
)
_DEFAULT = (
    "(?:port|encoding|shell|editor|timezone|isolation level|font|value|username|password|timeout|branch)"
)
_ADJECTIVE = r"(?:\w{3,}(?:ed|ible|able|ful|less|ous)|acidic|basic|alkaline|active|passive|true|false|good|bad|safe|dangerous|hot|cold|wet|dry|hard|soft)"
# The second of a pair, asked of two things the other way round, is the first.
_LESS = {
    "slower": "faster", "smaller": "bigger", "lighter": "heavier", "younger": "older", "weaker": "stronger",
    "colder": "hotter", "lower": "higher", "worse": "better", "thinner": "thicker", "poorer": "richer",
}  # fmt: skip
_SIDE = r"(?:(?!(?:is|are|and|or|of|in|on|for|to|at|from|with|between|about|when|if|not|that|which|much|even|far|a lot)\b)[^ ,]++ ?){1,3}"
_THAN = re.compile(
    rf"^(?P<head>(?:why )?(?:is|are)) (?P<a>{_SIDE}) (?P<v>{'|'.join(_LESS)}) than (?P<b>{_SIDE})$"
)
_EITHER = re.compile(
    rf"^(?P<head>(?:is|are|was|were) .*(?<!very)(?<!too)(?<!more)(?<!most)(?<!less)(?<!not)) (?P<a>{_ADJECTIVE}) or (?P<b>{_ADJECTIVE})$"
)


_JUDGED = "(?:rude|safe|legal|illegal|healthy|unhealthy|bad|good|hard|easy|dangerous|necessary|worth it|unethical|ethical|wrong)"
_SUBJECT = (
    "(?:economics|physics|math|maths|mathematics|chemistry|biology|statistics|programming|computing|computer science"
    "|psychology|philosophy|finance|law|medicine|linguistics|machine learning|networking|accounting|marketing|geometry)"
)
_ONE_OF = re.compile(
    r"^(?P<head>(?:is|are|was|were) .*(?<! with)(?<! of)(?<! in)(?<! on)(?<! than)(?<! for)) (?P<a>an? \w+) or (?P<b>an? \w+)$"
)


def _gerund(found: re.Match[str]) -> str:
    """Read "is tipping rude" as "is it rude to tip"."""
    return f"is it {found['y']} to {infinitive(found['x'])}{found['r']}"


def _did(found: re.Match[str]) -> str:
    """Read "what was discovered by X" as "what did X discover"."""
    return f"what did {found['x']} {_verb(found['v'])}"


def _maker(found: re.Match[str]) -> str:
    """Read "X is made by which company" as "which company makes X"."""
    return f"which {found['y']} {_verb(found['v'])}s {found['x']}"


def _can_be(found: re.Match[str]) -> str:
    """Read "which plants can be eaten" as "what plants can I eat"."""
    return f"what {found['x']} can i {_verb(found['v'])}{found['r']}"


def _is_made(found: re.Match[str]) -> str:
    return f"how is {found['y']} {'made' if found['x'] == 'make' else 'produced'}"


def _verb(done: str) -> str:
    return _VERBS.get(done) or english_words.participle(done) or done


def _by(found: re.Match[str]) -> str:
    """Read "who was X written by" as "who wrote X"."""
    return f"who {_PAST.get(found['v'], found['v'])} {found['x']}"


def _done_by(found: re.Match[str]) -> str:
    """Read "what gas is absorbed by plants" as "what gas do plants absorb"."""
    return f"what {found['x']} do {found['y']} {_verb(found['v'])}"


def _possible(found: re.Match[str]) -> str:
    verb = english_words.participle(found["v"]) or ""
    return f"can i {verb} {found['x']}{found['r'] or ''}" if re.fullmatch(_HOUSEHOLD, verb) else found[0]


def _how(found: re.Match[str]) -> str:
    return f"how do i {infinitive(found['x'])}"


def _declined(found: re.Match[str]) -> str:
    return f"{found['head']} to {base_form(found['v'])} "


def _made(found: re.Match[str]) -> str:
    return f"who {_OF_MAKER[found['v']]} {found['x']}"


_REWRITTEN = rewriting(
    # Two sentences for one.
    (r"^(?:what|which) ingredients (?:do i need|are needed|are required) (?:for|to make) ", "what are the ingredients of "),
    (r"^i am (?:using|on|working with|working in|running) (?P<x>(?:[^ .]+ ){0,2}[^ .]+)\s*[.,] (?P<y>(?:how|why|what) [^.]+)$", r"\g<y> in \g<x>"),
    (r"^i (?:want|would like|need|am trying|have) to (?P<x>[^.,]+)[.,] (?:but )?how (?:do|can|should|could|would) i(?: do (?:it|that|this|so))?$", r"how do i \g<x>"),
    (r"^(?P<x>i (?:can not|do not|am|have|feel|keep) [^.]+|my [^.]+)\. what (?P<y>can|should) i do(?: about (?:it|this|that))?$", r"what \g<y> i do if \g<x>"),
    # Instructions.
    (r"^(?:walk|guide|take) me through (?:how to |the (?:process|steps) (?:of|to|for) )?(?P<x>.+)$", _how),
    (r"^(?:give|provide|i need|show|share)(?: me)? (?:the |some |a |detailed |clear )*(?:step by step )?(?:instructions|steps|guide|tutorial|guidance) (?:on how to|to|for|on|of) (?P<x>.+)$", _how),
    (r"^(?:i am|we are) looking for (?:a|the) (?:good |best )?way to (?P<x>.+)$", _how),
    # Necessity, advice, permission.
    (r"^(?:do i have to|must i|is it necessary(?: for me)? to) ", "do i need to "),
    (rf"^is (?P<x>an? {_NP}) (?:required|needed|necessary) (?P<y>(?:to|for) .+)$", r"do i need \g<x> \g<y>"),
    (r"^is it (?:advisable|recommended|a good idea)(?: for me)? to ", "should i "),
    (r"^can i safely (?=\w)", "is it safe to "),
    (r"^is it safe for me to ", "is it safe to "),
    (r"^why am i (?:unable|not able) to ", "why can i not "),
    (rf"^can (?:you|we|one) (?={_HOUSEHOLD}\b(?!.*\b(?:for me|me|my|i)\b))", "can i "),
    (rf"^can (?P<x>(?!i |you |we |they |it |he |she |my |your ){_NP}) be (?P<v>\w+)(?P<r> .+)?$", _possible),
    (rf"^what (?:do {_PERSON} need|is (?:needed|required)) (?=(?:for|to) (?!know\b|do\b))", "what is needed "),
    # Who did it.
    (rf"^(?:by whom (?:was|were) (?P<x>{_NP}) {_DONE})$", _by),
    (rf"^who (?:was|were) (?P<x>{_NP}) {_DONE} by$", _by),
    (rf"^(?P<x>{_NP}) (?:was|were) {_DONE} by (?:who|whom)$", _by),
    (rf"^(?:what|which) (?P<x>\w+) (?:is|are) (?P<v>\w{{3,}}ed|eaten|made|used|written|built) by (?P<y>(?!\w+ing\b){_NP})$", _done_by),
    (r"^who (?:was|is|were|are) the (?P<v>founder|creator|composer|designer)s? of (?P<x>.+)$", _made),
    (r"^who (?:was|is) the (?:person|one|individual) (?:who|that) (?=\w+(?:ed|wrote|built|made|won)\b)", "who "),
    (rf"^(?:what|which) (?P<x>{_NP}) can be (?P<v>\w{{3,}}ed|eaten|made|used|grown)(?P<r>(?: (?:in|on|at|with|for|as) .+)?)$", _can_be),
    (rf"^how (?:is|are) (?P<x>{_NP}) able to ", r"how do \g<x> "),
    (r"^how do (?:they|people|companies|manufacturers) (?P<x>make|produce) (?P<y>.+)$", _is_made),
    # Measures.
    (r"^how hot (?:is|are) (?P<x>.+)$", r"what is the temperature of \g<x>"),
    (r"^what is the size of (?P<x>.+)$", r"how big is \g<x>"),
    (r"^how high (?=is (?:the )?(?:mount|mountain|tower|building|peak|everest|kilimanjaro)\b)", "how tall "),
    (r"^what does it cost to ", "how much does it cost to "),
    (r"^how many (?P<x>\w+) (?:make(?: up)?|are in|are there in|does it take to make) (?:a|an|one) (?P<y>\w+)$", r"how many \g<x> are there in a \g<y>"),
    (r"^at (?:what|which) temperature (?:does|do|will) (?P<x>.+) freeze$", r"what is the freezing point of \g<x>"),
    (r"^what (?:is|are) (?P<x>.+) (?:made up of|composed of|made out of)$", r"what is \g<x> made of"),
    (r"^what (?:does|do) (?P<x>.+) consist of$", r"what is \g<x> made of"),
    (r"^what are (?:the )?uses (?:of|for) (?P<x>.+)$", r"what is \g<x> used for"),
    (r"^(?P<x>(?:what|why) (?:is|are|was|were) .+?) (?:best )?known for$", r"\g<x> famous for"),
    (r"^(?P<x>what (?:do|does) .+) feed on$", r"\g<x> eat"),
    (r"^what (?P<y>[a-z]+(?: [a-z]+)?) is (?:the )?(?P<z>(?!the\b)[a-z]+est|best|worst)$", r"what is the \g<z> \g<y>"),
    (r"^which (?P<y>[a-z]+(?: [a-z]+)?) is (?:the )?(?P<z>(?!the\b)[a-z]+est|best|worst)$", r"what is the \g<z> \g<y>"),
    (rf"^(?:what|which) (?P<x>{_DEFAULT}) (?:does|do) (?P<y>.+) use by default$", r"what is the default \g<x> of \g<y>"),
    (rf"^what is the default (?P<x>{_DEFAULT}) (?:for|in) ", r"what is the default \g<x> of "),
    (r"\b(?P<x>usa|uk) (?P<y>president|vice president|government|constitution|population|economy|flag|senate|congress)\b", r"\g<y> of \g<x>"),
    # Commands.
    (r"^(?P<x>explain|describe) (?P<y>.+) to (?:me|us)$", r"\g<x> \g<y>"),
    (r"^describe (?=(?:the process of|how)\b)", "explain "),
    (r"^give (?:some )?examples (?=(?:of|for)\b)", "what are examples "),
    (r"^what are some examples ", "what are examples "),
    (r"^(?:give|write|make|design) (?=an? (?:\w+ ){0,3}(?:plan|schedule|itinerary|routine)\b)", "create "),
    (r"^what (?:is|would be) a good (?P<x>name|title|slogan|tagline|caption) for ", r"recommend a \g<x> for "),
    (r"^tell (?=an? (?:\w+ ){0,2}(?:story|joke)\b)", "write "),
    (r"^(?:give|make|provide|create|write) (?:me )?a list of (?:some )?", "list "),
    (rf"^write an? (?P<x>{HOLE}) (?P<y>(?:function|program|class|script|method) (?:to|that) .+)$", r"write a \g<y> in \g<x>"),
    (r"\b(?P<x>apology|resignation|complaint) letter\b", r"letter of \g<x>"),
    (r"^(?:list|state|name|give)(?: me)? the (?=(?:first|last) (?:two|three|four|five|six|seven|eight|nine|ten|twenty|" + HOLE + r") )", "what are the "),
    (r"^describe the (?=(?:steps|stages|phases) of )", "what are the "),
    # Other words around the same.
    (r"\blog into\b", "log in to"),
    (r"\boff of (?=(?:a|an|the|my|your) )", "off "),
    (r"^for (?=how long\b)", ""),
    (r"^how old (?:was|were) (?P<x>.+) when (?:he|she|they) died$", r"what age did \g<x> die"),
    (r"^why will not (?=my\b)", "why does not "),
    (r"^why will (?P<x>my .+?) not (?=\w+$)", r"why does \g<x> not "),
    (rf"^(?P<x>my {_NP}) (?P<y>will|does|do|is|are|can) not (?P<z>[^.]+)\. why$", r"why \g<y> not \g<x> \g<z>"),
    (r"^i (?P<x>have|get|feel) (?P<y>[^.]+)\. why$", r"why do i \g<x> \g<y>"),
    (r"^what makes me (?=(?:feel|get|sneeze|cough|cry|laugh)\b)", "why do i "),
    (rf"^what is (?P<x>[a-z]+) in (?P<y>{LANGUAGES})$", r"translate \g<x> to \g<y>"),
    (rf"^what is the (?P<y>{LANGUAGES}) (?:word|translation|term) (?:for|of) (?P<x>.+)$", r"translate \g<x> to \g<y>"),
    (rf"^how (?:do|does|would|can) (?:you|i|one|we) say (?P<x>.+) in (?P<y>{LANGUAGES})$", r"translate \g<x> to \g<y>"),
    (rf"^(?P<x>{_NP}) (?:is|are) (?P<v>made|owned|produced|used|built|published) by (?:which|what) (?P<y>\w+)$", _maker),
    (r"^what is the number of (?P<x>\w+) (?:that )?(?P<y>an? \w+) has$", r"how many \g<x> does \g<y> have"),
    (r"^what is the birthplace of (?P<x>.+)$", r"where was \g<x> born"),
    (r"\bkey (?=(?:features|differences|concepts|points|benefits|components|principles|ideas|characteristics)\b)", "main "),
    (r"\b(?P<x>tell|convince|persuade) (?P<y>my \w+|him|her|them|people|someone) that (?=(?:i|my|we) )", r"\g<x> \g<y> "),
    (r"^what will happen if ", "what happens if "),
    (r"^which (?P<y>[a-z]+(?: [a-z]+)?) is (?:the )?(?P<z>most [a-z]+)$", r"what is the \g<z> \g<y>"),
    (r"^(?P<x>when|where|why|how) do (?:people|they|we) celebrate (?P<y>.+)$", r"\g<x> is \g<y> celebrated"),
    (r"\b(?:on|at) (?:startup|boot)\b", "at startup"),
    (rf"^(?P<p>in|on|to|from|with|for|at) (?:what|which) (?P<x>(?!(?:year|month|day|age|time|temperature|ways?|order|place|century|reasons?|extent|case|means)\b)(?:{_W} ){{0,2}}{_W}) (?P<y>(?:do|does|did|is|are|was|were|can|should) .+)$", r"which \g<x> \g<y> \g<p>"),
    (r"^(?P<x>how (?:many|much) .*\b(?:eat|drink|take|sleep)) in a (?P<y>day|week|month)$", r"\g<x> per \g<y>"),
    (r"^what (?:should|do) (?:i|you|we|people) (?P<x>bring|wear|pack) (?=(?:to|for|on)\b)", r"what should i \g<x> "),
    (r"^whom? (?:should|do) i (?P<x>contact|call|ask|email|report|see|talk|speak) ", r"who should i \g<x> "),
    (rf"^(?:what|which) (?P<x>(?!steps?\b){_NP}) (?:do i need|(?:is|are) (?:needed|required)) (?=(?:to|for)\b)", r"what \g<x> do i need "),
    (r"^recommend (?:some )?good (?=(?:names|titles) for\b)", "recommend "),
    (r"^what makes (?P<x>.+) so (?P<y>\w+)$", r"why is \g<x> so \g<y>"),
    (rf"^is (?P<x>\w{{3,}}ing) (?P<y>{_JUDGED})(?P<r>(?: (?:in|at|during|on) .+)?)$", _gerund),
    (rf"^what (?:was|were) {_DONE} by (?P<x>{_NP})$", _did),
    (r"^how (?:is|are) (?P<x>.+) formed(?P<r>(?: in .+)?)$", r"how does \g<x> form\g<r>"),
    (r"\bgo extinct\b", "become extinct"),
    (r"\bimprove (?:my|your) (?P<x>\w+ing)$", r"improve at \g<x>"),
    (r"\bmake (?P<x>.+?) (?P<y>lowercase|uppercase)\b", r"convert \g<x> to \g<y>"),
    (r"\bmake (?P<x>(?:my|the|a) \w+) (?=(?:sleep|eat|laugh|sit|stay|walk|listen)\b)", r"get \g<x> to "),
    (r"\bas (?:fast|quickly) as possible$", "quickly"),
    (r"\bas (?P<x>easily|cheaply|safely|efficiently) as possible$", r"\g<x>"),
    (r"^(?P<x>[^.]+?) (?:vs|versus|and|or) (?P<y>[^.]+?)\s*[,.:-]? what (?:is|are) the differences?$", r"what is the difference between \g<x> and \g<y>"),
    (rf"^(?:define|explain) (?P<x>{_NP}) in (?P<y>{_SUBJECT})$", r"what is \g<x> in \g<y>"),
    (r"^in (?:what|which) way (?=(?:do|does|did|is|are|can)\b)", "how "),
    (r"^what happens when ", "what happens if "),
    (r"^(?P<x>(?:is|are) .+?) considered (?:to be )?(?=\w)", r"\g<x> "),
    (r"^(?:generate|create|make|produce|craft|come up with) (?P<x>an? (?:\w+ ){0,2}?" + _WRITTEN + r")\b", r"write \g<x>"),
    (r"^come up with ", "recommend "),
    (r"^(?P<head>write an? (?:\w+ )?(?:email|letter|message|note|tweet|post)) (?P<v>\w+)ing (?=(?:an?|the|my)\b)", _declined),
    (r"^(?:list|state|name|give)(?: me| us)? the (?P<x>(?:\w+ )?\w+s (?:of|in) )", r"what are the \g<x>"),
    (rf"\b(?:get|make) (?P<x>(?:my|the|a|an) {_W}(?: (?!to\b){_W})?) (?:to )?stop (?P<y>\w+ing)\b", r"prevent \g<x> from \g<y>"),
    (r"\b(?:quit|give up) (?=\w+ing\b)", "stop "),
    (r"\blearn how to\b", "learn to"),
    (r"^explain (?P<x>[^ ]+(?: [^ ]+)?) (?P<y>in (?:" + english_words.TOOL + r"))$", r"what is \g<x> \g<y>"),
    (r"\b(?:make|issue) (?=(?:an? )?(?:\w+ )?request\b)", "send "),
    (r"\bpros of\b", "advantages of"),
    (r"(?<!and )\bcons of\b", "disadvantages of"),
    (r"^how long (?P<x>(?:does|do|will|can) .+?) (?:keep|stay fresh|stay good) in ", r"how long \g<x> last in "),
)  # fmt: skip


def plain(text: str, *, strict: bool) -> str:
    """The question in the first of the ways that it could have been asked in; `strict` where it is about words."""
    for pattern, result in fitting(_REWRITTEN, strict=strict):
        text = pattern.sub(result, text, count=1).strip()
    return _upright(text)


def _upright(text: str) -> str:
    """Read "A is slower than B" as "B is faster than A", and what is one or the other in one order."""
    if found := _THAN.match(text):
        return f"{found['head']} {found['b'].strip()} {_LESS[found['v']]} than {found['a'].strip()}"
    if found := _EITHER.match(text):
        return f"{found['head']} {' or '.join(sorted((found['a'], found['b'])))}"
    if found := _ONE_OF.match(text):
        return f"{found['head']} {' or '.join(sorted((found['a'], found['b'])))}"
    return text

"""English questions that say one thing in two grammars: passives, comparatives, nouns for verbs. Pure.

Works on the lower-case string between `english_frames` and the classes of questions; each rule leaves a sentence
that somebody could have typed, so that one rule may go on where another ends.
"""

# ruff: noqa: E501 - one pattern a line

import re

from services.semantic.reading import english_words
from services.semantic.reading.english_frames import infinitive
from services.semantic.reading.english_phrasing import LANGUAGES
from services.semantic.reading.english_words import TOOL
from services.semantic.reading.spans import HOLE
from services.semantic.reading.words import fitting, rewriting

_W = rf"[\w~{HOLE[1:-1]}]+"
_PRONOUN = r"(?:i|me|you|he|she|it|we|they|him|her|them|us|this|that|there|these|those|myself|yourself|one|people|anyone|someone)"
_X = rf"(?P<x>(?!{_PRONOUN}\b)(?:{_W} ){{0,4}}?{_W})"
_GIVE = r"(?:give|share|provide|offer|list|recommend|name|state|tell)(?: me| us)?"
_CAN = r"(?:can|could|should|might|may)"
_DEGREE = r"(?:many|much|long|often|big|large|old|tall|far|fast|heavy|deep|high)"
# Qualities that no verb is spelled like: "why is X open" is not "what makes X open".
_QUALITY = (
    "(?:blue|red|green|yellow|black|white|pink|purple|brown|salty|sour|bitter|sweet|spicy|hot|cold|important|popular"
    "|famous|expensive|dangerous|sticky|heavy|hard|soft|toxic|poisonous|fluffy|crispy|addictive|useful|special|unique"
    "|successful|healthy|happy|sad|angry|rich|poor|strong|weak|tired|sleepy|powerful|magnetic|radioactive|difficult)"
)
# What is looked up and not made: here checking, seeing and finding are one.
_PROPERTY = (
    "(?:version|size|ip address|mac address|disk space|disk usage|memory usage|cpu usage|status|balance|uptime"
    "|serial number|type|length|history|logs|screen resolution)"
)
# Verbs that ask the same of a thing whosever it is.
_HANDS_ON = (
    "(?:undo|clean|wash|reset|restart|reboot|charge|speed up|fix|repair|mend|sharpen|mute|silence|improve|protect"
    "|descale|defrost|unclog|insulate|calibrate|dry|polish|split|whiten|renew|trim|soften|back up|factory reset)"
)
_NAMES = r"(?:function|script|program|query|regex|regular expression|method|class|macro|formula|command|code)"


_COUNT = rf"(?:two|three|four|five|six|seven|eight|nine|ten|twenty|{HOLE})"


def _to(found: re.Match[str]) -> str:
    """Read "a function that reverses" as "a function to reverse"."""
    verb = re.sub(r"(?<=[^aeious])ies$", "y", found[2])
    verb = (
        verb
        if verb != found[2]
        else re.sub(r"(?:(?<=ss)|(?<=sh)|(?<=zz)|(?<=tch)|(?<=x)|(?<=o)|(?<=[nr]ch))es$|s$", "", verb)
    )
    return f"{found[1]} to {verb} "


def _did(found: re.Match[str]) -> str:
    """Read "when was X discovered by Y" as "when did Y discover X"."""
    verb = english_words.participle(found["v"])
    return f"{found['wh']} did {found['y']} {verb} {found['x']}"


_REWRITTEN = rewriting(
    (rf"^(?P<wh>when|where|why|how) (?:was|were) {_X} (?P<v>\w{{3,}}ed) by (?P<y>(?!\w+ing\b)\w+(?: \w+)?)$", _did),
    (r"^what (?:is|are) (?P<x>.+) caused by$", r"what causes \g<x>"),
    (r"^(?:describe|give|write)(?: me)? a (?:brief|short) (?:overview|summary|description) of ", "briefly summarize "),
    (rf"^what are ({_COUNT}) (?=(?:good |great )?(?:tips|ideas|reasons|examples|ways)\b)", r"give \1 "),
    (r"^what are (?:some )?(?:good )?(names|titles) (?=for )", r"recommend \1 "),
    (r"^give example (?=(?:for|of)\b)", "what is a example "),
    (r"^what (?:is|are) (?:the )?definition of (?=.)", "define "),
    (r"^give (?:the )?definition of (?=.)", "define "),
    (r"^what is (?:a synonym|another word) for ", "what is a synonym for "),
    (r"^give another word for ", "what is a synonym for "),
    (r"^what do (?:you|we|they|people) call (?P<x>(?!me\b|you\b|it\b|them\b).+)$", r"what is \g<x> called"),
    (r"^what (?:does|do) (?P<x>.+ (?:law|theorem|principle|rule|hypothesis|theory)) (?:state|say|mean)$", r"what is \g<x>"),
    (r"^what (?:does|do) (?P<x>the (?:\w+ )?(?:law|theorem|principle|rule) of \w+) (?:state|say)$", r"what is \g<x>"),
    (r"^state (?P<x>the .+ of .+ (?:law|theorem|principle|rule))$", r"what is \g<x>"),
    (r"^state (?P<x>(?:the )?(?:\w+ )?(?:law|theorem|principle|rule)(?: of .+)?)$", r"what is \g<x>"),
    (r"^when is the (?=best time (?:of|to|for)\b)", "what is the "),
    (r"^what are (?:the )?(?P<x>\w+(?: \w+)?) (?P<y>symptoms|side effects)$", r"what are the \g<y> of \g<x>"),
    (r"^(?:the )?(?P<x>symptoms|causes|benefits|advantages|disadvantages|side effects|ingredients|pros and cons) of (?=\w)", r"what are the \g<x> of "),
    (r"^(?:the )?(?P<x>capital|population|currency|height|length|area|meaning|definition|boiling point|melting point) of (?=\w)", r"what is the \g<x> of "),
    (r"\b(?:that|which) contains? (?=\S)", "containing "),
    (r"\bmost (easily|quickly|efficiently|safely)$", r"\1"),
    (rf"\bget (?!rid\b|out\b|off\b|the most\b){_X} off (?:of )?(?=(?:a|an|the|my|your) )", r"remove \g<x> from "),
    (r"^(?:in )?(?:what|which) year (?=(?:did|was|were|does|do|is|are|will)\b(?! it\b))", "when "),
    (rf"^what makes {_X} (?P<y>{_QUALITY})$", r"why is \g<x> \g<y>"),
    (r"^what makes (?:us|people|humans) (?=\w)", "why do people "),
    (r"^why do (?:we|humans|human beings) ", "why do people "),
    (r"^(why (?:do|does) .+ (?:make|give|help|keep)) (?:you|us|humans)(?= \w)", r"\1 people"),
    (rf"^why (?:do|does) {_X} (?:happen|occur|take place)$", r"what causes \g<x>"),
    (rf"^what (?:does|do) (?!my |your |his |her |our |their |(?:women|men|children|kids|parents|workers|citizens)\b){_X} do(?P<r> (?:in|on) .+)?$", r"what is the purpose of \g<x>\g<r>"),
    (r"^what is the (?:function|role|point|use) of (?=.)", "what is the purpose of "),
    (rf"\b(?:stop|prevent|keep) {_X} from (?P<y>\w+ing)\b", r"prevent \g<x> from \g<y>"),
    (r"\bstop ((?:my|your|the|a|an) \w+(?: \w+)?) (\w+ing)\b", r"prevent \1 from \2"),
    (rf"\bget (?!rid\b|out\b){_X} out of ", r"remove \g<x> from "),
    (r"\bspeed (?!up\b)((?:\w+ ){0,3}\w+) up$", r"speed up \1"),
    (rf"\bmake {_X} (?:(?:run|load|work|go) )?(?:faster|quicker)\b", r"speed up \g<x>"),
    (rf"\b(?:reduce|decrease) the size of {_X}(?=$| (?:in|on)\b)", r"make \g<x> smaller"),
    (rf"\b(?:increase|enlarge) the size of {_X}(?=$| (?:in|on)\b)", r"make \g<x> bigger"),
    (r"\b(?:reduce|decrease) the (\w+) size\b", r"make the \1 smaller"),
    (r"\bincrease the (\w+) size\b", r"make the \1 bigger"),
    (r"^(?:what|which) (\w+s) are (good|bad|safe|suitable|healthy) for ", r"what are \2 \1 for "),
    (r"^(how (?:much|many|often|long) .*(?<!for)(?<!in)(?<!of)(?<!spend)(?<!is)(?<!are)(?<!than)(?<!about)(?<!every)) a (day|week|month|year)(?=$| (?:to|if|when|for)\b)", r"\1 per \2"),
    (r"\b(once|twice|times|hours|minutes) a (day|week|month|year)\b", r"\1 per \2"),
    (r"\b(?:turn|change|transform) ((?:\w+ ){1,4}?)into\b", r"convert \1to"),
    (r"\bget better at\b", "improve at"),
    (r"^(?:what|which) language (?:do (?:they|people)) speak in ", "what language is spoken in "),
    (r"\b(books?|articles?|essays?|papers?|lectures?|documentary|documentaries) (?:on|regarding) ", r"\1 about "),
    (r"^give(?: me| us)? an? (synonym|antonym|example) (?=(?:for|of)\b)", r"what is a \1 "),
    (r"\b(lines|rows|columns|words|characters|elements) in (?=(?:a|the|my)\b)", r"\1 of "),
    (r"\bwithout using\b", "without"),
    (r"\bhow frequently\b", "how often"),
    (r"\bour solar system\b", "the solar system"),
    (r"^(.*)\b(plural|singular) form of\b", r"\1\2 of"),
    (r"\bsubstitute (\w+(?: \w+)?) for (\w+(?: \w+)?)$", r"use \1 instead of \2"),
    (r"^(?:what|which) (?:artist|painter) painted ", "who painted "),
    (r"^(?:what|which) (?:author|writer) wrote ", "who wrote "),
    (r"^(?:what|which) (?:scientist|person|inventor) (?=(?:invented|discovered)\b)", "who "),
    (r"^(?:what|which) city is the capital(?= )", "what is the capital"),
    (rf"^(?:in |on )?(?:what|which) (time zone|timezone|country|continent|hemisphere) is {_X}(?: located)?(?: in| on)?$", r"what is the \1 of \g<x>"),
    (rf"^(?:what|which) (time zone|timezone|currency|calendar|alphabet) (?:does|do) {_X} use$", r"what is the \1 of \g<x>"),
    (rf"^(?:what|which) (ingredients?|vitamins?|minerals?|nutrients?|substances?|foods?) (?:does|do) {_X} (?:contain|have)$", r"what \1 are in \g<x>"),
    (rf"^(?:what|which) ingredients are (?:there )?in {_X}$", r"what are the ingredients of \g<x>"),
    (r"\bingredients (?:in|for|to make) ", "ingredients of "),
    (rf"^at (?:what|which) temperature (?:does|do|will) {_X} (boil|melt|freez)e?(?P<r>(?: at .+)?)$", r"what is the \2ing point of \g<x>\g<r>"),
    (rf"^how long (?:does|do|can) {_X} live$", r"what is the lifespan of \g<x>"),
    (rf"^(?:what is|{_GIVE}) the amount of (\w+) in {_X}$", r"how much \1 is in \g<x>"),
    (rf"^how much (\w+) (?:does|do) {_X} (?:have|contain)$", r"how much \1 is in \g<x>"),
    (rf"^how much (\w+) (?:is|are) (?:there )?in {_X}$", r"how much \1 is in \g<x>"),
    (rf"^what is the number of {_X}$", r"how many \g<x> are there"),
    (rf"^how many {_X} exist$", r"how many \g<x> are there"),
    (rf"^how ({_DEGREE}(?: \w+)?) should (i|you|one|we) ", r"how \1 do \2 need to "),
    (rf"^(?:does|do) {_X} exist(?P<r> (?:in|on) .+)$", r"is there \g<x>\g<r>"),
    (rf"^(?:does|do) {_X} have (?P<y>\w+(?: \w+)?)$", r"is there \g<y> in \g<x>"),
    (r"^are there (?:any )?(?=\w)", "is there "),
    (r"^is there any (?=\w)", "is there "),
    (r"^is it (?:ok|okay|alright|all right|fine)(?: for me)? to ", "is it fine to "),
    (rf"^(?:is|are) {_X} (safe|legal|illegal|dangerous|hard|easy|difficult|healthy) to (\w+)(?P<r>(?: (?:in|at|for|during|after|before) .+)?)$", r"is it \2 to \3 \g<x>\g<r>"),
    (rf"^{_GIVE} (?:some |a few )?(tips|ideas|advice|suggestions|reasons) (?=\w)", r"what are \1 "),
    (r"^(?:name|list|give|recommend|suggest)(?: me| us)? (?=" + _COUNT + r" )", "give "),
    (r"^(?:list|state|name|tell|give)(?: me| us)? the (?=\w+s (?:of|in|for) )", "what are the "),
    (r"^(?:explain|describe) the (?=rules of )", "what are the "),
    (r"^(?:give|write|provide)(?: me| us)?(?: a| the)? summary of ", "summarize "),
    (rf"^(?:write|give|show|create|make)(?: me)? (an?) (?=(?:\w+ )?{_NAMES}\b(?! example))", r"write \1 "),
    (rf"^(write .*?{_NAMES}(?: in \w+)?) (?:that|which) (\w+s) ", _to),
    (rf"^how (?:do|does) (?:i|you|one) say ({HOLE}) in ([a-z]+)$", r"translate \1 to \2"),
    (rf"^(?:what is|translate) ({HOLE}) (?:in|into|to) ({LANGUAGES})$", r"translate \1 to \2"),
    (r"^what is the formula (?:for|of) (?:calculating )?(?=\w)", "how do i calculate "),
    (r"^what is the (?!chemical|molecular|empirical|structural|general)(\w+) formula (?:for|of) ", r"how do i calculate the \1 of "),
    (rf"^(?:{_GIVE}|write|what is|i (?:would like|want|need)|find)(?: the| an?)? recipe (?:for|of) (?=\w)", "how do i make "),
    (r"^(?:(?:give|share|provide|write|find)(?: me| us)?|i (?:would like|want|need)) an? ((?:\w+ ){1,4})recipe$", r"how do i make \1"),
    (r"^explain (?:the concept of )?((?!how\b|why\b|what\b|when\b|where\b|who\b|which\b|this\b|that\b|it\b|me\b|(?:my|your|his|her|our|their|its|yourself|these|those)\b|(?:the )?(?:rules|differences?)\b|the [^ ]+$)(?:(?!and\b|or\b|to\b|for\b|in\b|like\b|as\b|with\b|using\b|briefly\b)[^ ,]++ ?){1,4})$", r"what is \1"),
    (r"^define (?!an? (?:function|variable|class|method|macro|struct|constant|array|list|type)\b)(?!(?:my|your|his|her|our|their|its)\b|the [^ ]+$)((?:(?!and\b|or\b|for\b|in\b|as\b|using\b)[^ ,]++ ?){1,3})$", r"what is \1"),
)  # fmt: skip
_MANNER = {
    "fastest": "quickly", "quickest": "quickly", "easiest": "easily", "simplest": "easily", "safest": "safely",
    "cheapest": "cheaply", "most efficient": "efficiently", "most effective": "effectively",
}  # fmt: skip
_MANNERED = re.compile(rf"^what is the ({'|'.join(_MANNER)}) (?:way|method) (?:to|of|for) (.+)$")
_PARTICIPLE = rf"(?:(?!(?:speed|seed|feed|weed|breed|need)\b)\w{{3,}}ed|{english_words.PARTICIPLES})"
_PASSIVE = re.compile(rf"^how {_CAN} (?P<x>(?:{_W} ){{1,6}}?)be (?:(?P<m>\w+ly) )?(?P<v>\w+)(?: (?P<r>.+))?$")
_IS_DONE = re.compile(rf"^how (?:is|are) (?P<x>(?:{_W} ){{1,6}}?)(?P<m>)(?P<v>{_PARTICIPLE})(?: (?P<r>.+))?$")
_IN_TOOL = re.compile(rf"^(?:in|with|using|on) (?:{TOOL})$")
_KINDS = re.compile(rf"^what (?:are|is(?! a| the)) ((?:\w+ ){{0,2}})(\w+s)(| in (?:{TOOL}))$")
# Done by people only, so that how it is done is how one does it.
_BY_PEOPLE = frozenset(
    {
        "play",
        "pronounce",
        "spell",
        "calculate",
        "compute",
        "measure",
        "clean",
        "wash",
        "peel",
        "fold",
        "sharpen",
    }
)
# In a tool, these are too; others it may do by itself, as memory is managed.
_IN_TOOLS = frozenset({"declare", "define", "install", "resolve", "create", "delete", "rename", "convert"})
_COMMAND = re.compile(
    rf"^(?:what is the (?:(?P<t>{TOOL}) )?command|(?:what|which) (?:(?P<u>{TOOL}) )?command (?:(?:do|can|should|would) i use|is used))"
    r" (?P<p>to|for) (?P<r>.+)$"
)
_LOOKED_UP = re.compile(
    r"\b(?:(?:find out|check|tell|determine|figure out|identify|verify|know)"
    rf" (?=(?:which|what|who|whose|where|when|if|whether|how {_DEGREE})\b)"
    rf"|(?:find|see|test) (?=(?:which|if|whether|how {_DEGREE})\b)|see (?=what \w+ is\b))"
)
_CHECKED = re.compile(
    rf"^get (?=(?:the )?(?:length|size) of\b)|^(?:check|see|view|find out|find|look up|determine) (?=(?:(?:the|my|your|a) )?(?:{_W} ){{0,2}}{_PROPERTY}\b)"
)
_INSTALLED = re.compile(
    rf"^know what version of ({_W}) (?:do )?i (?:have|am using|am running|use)(?: installed)?$"
)
_FACTORY = re.compile(r"^(?:reset|restore) (.+) to (?:its )?factory (?:settings|defaults)\b")
_KILLED = re.compile(r"^(?:end|terminate) (?=(?:a|the|my) (?:\w+ )?process\b)")
_CRON = re.compile(r"^(?:run|set up|create) (?=(?:a )?cron job\b)")
_RIGHTLY = re.compile(r" (?:correctly|properly|the right way)$")
_LOWERED = re.compile(r"^lower (?=(?:my|the|your) )")
_SOLVED = re.compile(rf"^(?:resolve|solve) (?={HOLE}|.*\b(?:error|conflict|issue|exception|warning|bug)s?\b)")
_GOT = re.compile(r"^(?:obtain|acquire) ")
_CLEARED = re.compile(r"^clear (?=(?:\w+ )*(?:cache|cookies|history)\b)")
_BUILT = re.compile(
    r"^(?:build|develop) (?=(?:\w+ ){0,4}(?:website|app|application|chatbot|bot|game|portfolio|blog|dashboard|treehouse|birdhouse|bookshelf)\b)"
)
_OWN = re.compile(rf"^({_HANDS_ON}|cancel(?=.+ (?:subscription|membership)$)) my ")


def plain(text: str, *, strict: bool) -> str:
    """The question in the plainest of the grammars that it could have been asked in."""
    for pattern, result in fitting(_REWRITTEN, strict=strict):
        text = pattern.sub(result, text, count=1).strip()
    if found := _MANNERED.match(text):
        return f"how do i {infinitive(found[2])} {_MANNER[found[1]]}"
    if found := _COMMAND.match(text):
        tool = found["t"] or found["u"]
        todo = infinitive(found["r"]) if found["p"] == "for" else found["r"]
        return f"how do i {todo} in {tool}" if tool else f"how do i {todo}"
    return _active(_KINDS.sub(_one, text))


def task(text: str) -> str:
    """What is to be done, with one verb for all that look something up."""
    text = re.sub(r"\bknow which\b", "know what", _LOOKED_UP.sub("know ", text))
    text = _FACTORY.sub(r"factory reset \1", _KILLED.sub("kill ", _CRON.sub("schedule ", text)))
    text = _RIGHTLY.sub("", _LOWERED.sub("reduce ", _SOLVED.sub("fix ", text)))
    text = _BUILT.sub("create ", _GOT.sub("get ", _CLEARED.sub("delete ", text)))
    text = _INSTALLED.sub(r"check my \1 version", text)
    return _OWN.sub(r"\1 ", _CHECKED.sub("check ", text))


def _one(found: re.Match[str]) -> str:
    """Read "what are closures" as "what is a closure"; not where it matters how many there are."""
    words = [*found[1].split(), found[2]]
    apart = english_words.DEFINITE | english_words.BEHIND
    if any(english_words.counted(word) or word in apart for word in words):
        return found[0]
    one = english_words.singular(found[2])
    return found[0] if one == found[2] else f"what is a {found[1]}{one}{found[3]}"


def _active(text: str) -> str:
    """Read "how can a drain be unclogged" as "how do I unclog a drain"."""
    passive, done = _PASSIVE.match(text), _IS_DONE.match(text)
    found = passive or done
    verb = english_words.participle(found["v"]) if found else None
    if (
        found is None
        or verb is None
        or found["x"].split()[0] in {"i", "we", "you", "they", "it", "he", "she"}
    ):
        return text
    rest = found["r"] or ""
    if passive is None and verb not in (_BY_PEOPLE | _IN_TOOLS if _IN_TOOL.match(rest) else _BY_PEOPLE):
        return text
    return " ".join(part for part in ("how do i", verb, found["x"].strip(), rest, found["m"] or "") if part)

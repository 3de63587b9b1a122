"""What surrounds an English question and says nothing: greetings, politeness, ways of asking. Pure.

Works on a lower-case string in which spans are holes. Every pattern is anchored, and each replacement keeps
the class of the question, so that "how do I" and "can I" never meet.
"""

# ruff: noqa: E501 - one pattern a line

import re

WH = r"(?:what|why|when|where|who|whom|whose|which|how)\b"
_VERBS = (
    "write|give|list|explain|describe|tell|show|suggest|recommend|name|summari[sz]e|translate|create|generate|make"
    "|compare|define|convert|calculate|compute|solve|find|rewrite|rephrase|fix|correct|help|draft|compose|outline"
    "|provide|teach|walk|add|sort|count|classify|analy[sz]e|recite|draw|design|plan|outline|say|spell|use"
)
_ME = r"(?: to me| me| us| to us)?"
_AUX = "is|are|am|was|were|do|does|did|can|could|will|would|shall|should|must|may|might|has|have|had"
# Behind a greeting without a mark a sentence has to begin: "hey how …", but "Hey Jude".
_ON = rf"(?:[ ]*[,.:!][,.:! ]*| (?=(?:{WH}|{_AUX}|{_VERBS}|i|we|please|kindly|hi|hello|any|so|there|quick|one|just)\b))"
_OPENINGS = tuple(
    re.compile(pattern)
    for pattern in (
        r"(?:hi|hello|hey|hiya|greetings|good (?:morning|afternoon|evening|day))(?: there| all| everyone| guys| claude| chatgpt| gpt| assistant| ai| bot| buddy| friend| team| folks)?\b"
        + _ON,
        r"(?:ok|okay|so|well|um|uh|alright|sorry|excuse me|quick question|question|just (?:curious|wondering)|wondering|out of curiosity)\b"
        + _ON,
        r"(?:please|kindly|pls)\b[, ]*",
        r"(?:sorry (?:to (?:bother|disturb) you|for (?:bothering|disturbing) you)|if you do(?: not|n't) mind|one (?:more )?question|a (?:quick|simple) question|to bother you)\b[, ]*(?:but )?[,:. ]*",
        r"(?:do|would) you mind (?:telling|explaining|showing)" + _ME + r" (?=" + WH + ")",
        r"(?:i|we) (?:was|am|were|are) hoping (?:you|someone|somebody) (?:could|can|would) (?:tell|explain|show)"
        + _ME
        + r" (?="
        + WH
        + ")",
        r"(?:would|are) you (?:be )?able to (?:tell|explain|show)" + _ME + r" (?=" + WH + ")",
        r"(?:any ideas?|do you have any idea|any chance you know|may i ask|might i ask|can i ask|could i ask|may i know"
        r"|i have a question)\b[,.:? ]*(?=" + WH + ")",
        r"(?:i|we)(?: am|'m| was| just|'d| would| really| want| need| wish| wanted| have)*(?: like| love)?"
        r"(?: to)? (?:know|learn|ask(?: you)?|find out|understand|figure out|see|hear)(?: about)?,? (?="
        + WH
        + ")",
        r"(?:i|we)(?: am| was|'m| have been|'ve been)?(?: just)? (?:wondering|curious|asking(?: myself)?|trying to"
        r" (?:understand|figure out|find out|learn))(?: about)?,? (?=" + WH + ")",
        r"(?:i|we) (?:wonder|don't know|do not know|don't understand|do not understand),? (?=" + WH + ")",
        r"(?:do|does|did) (?:you|anyone|anybody|someone|somebody)(?: happen to)? know (?=" + WH + ")",
        r"(?:can|could|would|will) (?:you|someone|anyone|anybody|somebody)(?: please| kindly| possibly)?"
        r" (?:tell|explain|show|teach|remind)" + _ME + r" (?=" + WH + ")",
        r"(?:tell|show|explain|describe|teach|remind)" + _ME + r" (?=" + WH + ")",
        r"let me know (?=" + WH + ")",
        r"(?:help me understand|help me to understand|help me figure out) (?=" + WH + ")",
        rf"(?:can|could|would|will) you(?: please| kindly| possibly)? (?=(?:{_VERBS}|briefly|quickly)\b)",
        rf"(?:i|we) (?:would|'d) (?:really )?(?:appreciate it|be grateful|be glad|be happy) if you (?:could|can|would) (?=(?:{_VERBS})\b)",
        rf"(?:would it be possible(?: for you)? to|is there any chance (?:that )?you (?:could|can)|do you think you (?:could|can)) (?=(?:{_VERBS})\b)",
        r"(?:i|we) (?:am|are) (?:interested in (?:learning|knowing|finding out|understanding)|keen to (?:know|learn)|eager to (?:know|learn))(?: about)? (?="
        + WH
        + ")",
        rf"(?:i|we) (?:was|am|were|are) (?:wondering|hoping) (?:if )?you (?:could|can|would) (?=(?:{_VERBS})\b)",
        rf"would you mind (?=(?:{_VERBS})ing\b)",
        rf"(?:i|we)(?:'d| would| want| need|'ll| will)(?: like)? you to (?=(?:{_VERBS})\b)",
        rf"help me(?: to)? (?=(?:{_VERBS})\b)",
    )
)
_THANKS = r"(?:many thanks|thanks|thx|thank you|cheers|ta)(?: (?:a lot|a million|so much|very much|again|in advance|for your (?:help|time)))*"
_GRATEFUL = r"(?:any help (?:is|would be) (?:greatly |much )?appreciated|much appreciated|appreciate it|i (?:would|'d) appreciate (?:it|any help|your help)|let me know)"
_CLOSINGS = re.compile(
    rf"(?P<mark>[,.!?]*) *\b(?:please|pls|{_THANKS}|if you can|(?<=[.!?] ){_GRATEFUL})[ .!?]*$"
)
# Behind these such a word is what the question is about: "a letter of thanks".
_GOVERNS = re.compile(
    r"(?:^|\b(?:of|in|with|for|a|an|the|no|and|or|to|than|as|like|say|says|said|my|your|i|you|we|they|not|only|your|from|by))$"
)
_COUNT = r"(?:[\d\ue000-\uf8ff]|(?:one|two|three|four|five|six|seven|eight|nine|ten|twelve|half|once|twice|both|all|none|zero|a|an)\b)"
_FILLERS = re.compile(rf"\b(?:actually|basically|please|kindly|exactly(?! {_COUNT}))\b,? ?")
_GIVE_ME = re.compile(
    r"^(give|write|tell|show|make|find|suggest|recommend|list|name|draw|compose|draft|draw) (?:me|us) "
)

_SIMPLY = re.compile(r"\bin (?:simple|plain|layman's|easy) (?:terms|words|language|english)$")
_NEW = re.compile(r"\b(create|make|add|generate) (?:a )?new ")
_RELATIVE = re.compile(r"\b(?:that|which|who) (?:is|are) (?=\w+ing\b)")
_NEED_HELP = re.compile(r"^(?:i|we) (?:need|want|would like)(?: some| your)? help(?: with)? (\w+)ing (?=.)")
_COMMANDS = {
    "compose": "write", "draft": "write", "provide": "give", "suggest": "recommend", "propose": "recommend",
    "rephrase": "rewrite", "paraphrase": "rewrite",
    "count the number of": "count", "turn": "turn",
}  # fmt: skip
_COMMAND = re.compile(rf"^({'|'.join(_COMMANDS)})\b(?! (?:on|off|down|up)\b)")
_VERB = re.compile(r"^(?:give|recommend|write|show|create|make|generate|tell)\b")
_SOME = re.compile(r"\bsome (?!of\b)")
_FOR_ME = re.compile(r" for (?:me|us)$")
_EXAMPLE = re.compile(r"^(?:give|show|provide|tell) (?:an |some )?example\b")
_MANNERED_LATE = re.compile(r"^(explain|describe|summari[sz]e|tell) (briefly|shortly|concisely) (.+)$")
_MANNERED = re.compile(r"^(briefly|shortly|concisely) ((?:explain|describe|summari[sz]e|tell|outline)\b.+)$")

_WHO = "(?:i|you|we|one|someone|somebody|a person)"
_MODAL = "(?:do|does|can|could|would|should|might|may|shall)"
_WAY = "(?:way|method|approach|procedure|process|technique|trick)"
_GOOD = "(?:best |good |proper |right |correct |recommended |usual |standard |common |simplest )?"
_HOWTO = tuple(
    re.compile(pattern)
    for pattern in (
        rf"^how {_MODAL} (?P<who>{_WHO}) (?:best |go about |actually |possibly )?",
        rf"^how (?P<who>{_WHO}) (?:{_MODAL} )?(?:best |go about )?(?!am\b|are\b|is\b|was\b|were\b|did\b|had\b|have\b)",
        r"^(?:the )?how to (?:best |go about )?",
        rf"^(?:what (?:is|are|would be) )?(?:the |a |some )?{_GOOD}{_WAY}s? (?:to|of|for|in which to|in order to|how to) ",
        r"^(?:what (?:is|are|would be) )?(?:the |some )?(?:steps?|instructions?) (?:to|for|of|in order to|needed to|required to) ",
        rf"^what steps (?:are (?:needed|required|necessary)|(?:do|should|must) (?P<who>{_WHO}) (?:need to |have to )?(?:take|follow)) to ",
        rf"^what (?:can|could|should|do|would|might) (?P<who>{_WHO}) (?:do|need to do|have to do)(?: in order)? to ",
        rf"^in (?:what|which) ways? (?:can|could|should|do) (?P<who>{_WHO}) ",
        rf"^by what means (?:can|could|should|do) (?P<who>{_WHO}) ",
    )
)
# What anybody would be asked of himself: "how do you feel" is not "how do I feel".
_OF_YOU = re.compile(
    r"^(?:[^ ]+$|(?:feel|work|think|know|see|hear|remember|learn|sleep|live|process|handle|respond|generate|decide|store"
    r"|protect|answer|understand|like|love|want|spend|cope|earn|come|go|view|define|rate|compare|manage|make money|pay)\b)"
)
# How one does is not how one should: "how do I feel", "how should I feel".
_STATE = re.compile(r"^(?:feel|sound|seem|smell|appear|react|rank|die|look(?! (?:up|for|after|into|at)\b))\b")
_FIRST = re.compile(r"\b(?:i|me|my|mine|myself|we|us|our|ours|ourselves)\b")
_SECOND = re.compile(r"\b(?:you|your|yours|yourself|yourselves)\b")
_MINE = {"your": "my", "yours": "mine", "yourself": "myself", "you": "i"}
_OURS = {"our": "my", "ours": "mine", "ourselves": "myself", "us": "me"}
_ONES = {"one's": "my", "oneself": "myself"}


def bare(text: str, *, strict: bool = False) -> str:
    """The question without what surrounds it, in lower case as it came; `strict` where it is about words."""
    before = None
    while before != text:
        text = _MANNERED_LATE.sub(r"\1 \3 \2", text)
        before = text = _MANNERED.sub(r"\2 \1", text)
        for pattern in _OPENINGS:
            found = pattern.match(text)
            if found and found.end() < len(text):
                text = text[found.end() :].lstrip(" ,")
        text = _closed(text, strict=strict)
    text = text if strict else _FILLERS.sub("", text).strip(" ,") or text
    text = _SIMPLY.sub("simply", text)
    text = _NEW.sub(r"\1 ", text)
    text = _RELATIVE.sub("", _NEED_HELP.sub(_helped, text))
    text = _COMMAND.sub(lambda found: _COMMANDS[found[1]], text)
    if _VERB.match(text):
        text = _SOME.sub("", _FOR_ME.sub("", text))
    return _EXAMPLE.sub("give example", _GIVE_ME.sub(r"\1 ", text))


def _closed(text: str, *, strict: bool) -> str:
    found = _CLOSINGS.search(text)
    if found is None or (not found["mark"] and (strict or _GOVERNS.search(text[: found.start()]))):
        return text
    return text[: found.start()] or text


def how_to(text: str) -> str | None:
    """What is to be done, where the question asks how one does it; None where it asks something else."""
    for pattern in _HOWTO:
        found = pattern.match(text)
        if found is None or found.end() == len(text):
            continue
        who, rest = found.groupdict().get("who"), text[found.end() :]
        if who in {"you", "i", "we"} and addressed(who, rest):
            continue
        if _STATE.match(rest) or found.group().startswith("what would you "):
            return None
        if _OF_YOU.match(rest) and re.search(r"\b(?:do|would) (?:you|we) ", found.group()):
            continue
        return _as_mine(
            who, infinitive(rest) if found.group().endswith((" of ", " for ", " about ", " to ")) else rest
        )
    return None


def _helped(found: re.Match[str]) -> str:
    return base_form(found[1]) + " "


_VOWEL = re.compile(r"[aeiouy]")


def infinitive(text: str) -> str:
    """Read "boiling an egg" as "boil an egg"."""
    first, blank, rest = text.partition(" ")
    stem = first.removesuffix("ing")
    return base_form(stem) + blank + rest if stem != first and _VOWEL.search(stem) else text


def base_form(stem: str) -> str:
    """A verb's base form from what is left without ``ing`` or ``ed``; a wrong guess only refuses."""
    if re.search(r"([bdgmnprt])\1$|(?:canc|trav|mod|lab|contro|fu|tunn|exc)ell$|(?:contro|patro)ll$", stem):
        return stem[:-1]
    return (
        f"{stem}e"
        if re.search(
            r"(?:[^aeiou][aiou][^aeiouwxylnr]|at|iz|[aeiou]v|[uo]s|uc|ng|[lr]v|[nr]c|dg|[nrl]s|[bcdgkpftz]l|(?:ec|mp|ib)ut|[lp]ar|[^o]ur|[ts]tor|nor|plor|scal|[^aeiou][iu][lnr]|[^aeiou]y[pl])$",
            stem,
        )
        else stem
    )


def addressed(who: str, rest: str) -> bool:
    """Whether asker and asked both occur: then "how do I reach you" is not "how do you reach me"."""
    if who == "you":
        return bool(_FIRST.search(rest))
    return bool(_SECOND.search(rest))


def _as_mine(who: str | None, rest: str) -> str:
    table = {"you": _MINE, "we": _OURS}.get(who or "", _ONES)
    return " ".join(table.get(word, word) for word in rest.split(" "))

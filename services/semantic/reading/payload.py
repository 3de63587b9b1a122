"""Parts an instruction from the text it is about, as in "Summarise: …". Pure.

That text is compared letter by letter, apart from white space at its ends: a paraphrase of it is another
text.
"""

import re

# Words before the colon: more than that is a sentence which goes on behind it.
LONGEST_INSTRUCTION = 16
_COLON = re.compile(r"(?<!\d)[:：](?!//)(?:\s+|(?=[^\s\w/\\])|(?=[^\W\d_a-zA-Z]))(?=\S)|[：](?=\S)")
_ADDRESS = re.compile(
    r"^(?:(?:(?:hi|hello|hey),? )?(?:(?:i have )?(?:a )?(?:quick |simple )?question|i need (?:some )?help)"
    r"|hi|hello|hey|q|ask|你好|您好|问题|问|提问|请问|请教)$",
    re.IGNORECASE,
)
# "Which is better: A or B?" is one question, and so is "A or B: which is better?".
_CHOICE = re.compile(r"^(?:which|what)(?: one)? (?:is|are) \w+(?: \w+)?$", re.IGNORECASE)
_CHOICE_LAST = re.compile(
    r"^[^:.]+ (?:or [^:.]+: (?:which|what)(?: one)? is (?:better|worse|\w+er|more \w+)"
    r"|(?:vs|versus) [^:.]+: what(?:'s| is| are) the differences?) *\??$",
    re.IGNORECASE,
)


def parted(text: str) -> tuple[str, str]:
    """The instruction and what it is about; the latter empty where the question stands for itself."""
    lines = text.strip().split("\n", 1)
    if len(lines) > 1 and lines[1].strip():
        return lines[0], lines[1].strip("\n").rstrip()
    found = _COLON.search(text)
    if found is None:
        return text, ""
    head, tail = text[: found.start()], text[found.end() :].strip()
    if _ADDRESS.match(head.strip()):
        return parted(tail)
    if _size(head) > LONGEST_INSTRUCTION or not tail or head.count('"') % 2 or head.count("`") % 2:
        return text, ""
    if (_CHOICE.match(head) and " or " in tail) or _CHOICE_LAST.match(f"{head}: {tail}"):
        return f"{head}, {tail}", ""
    return head, tail


def _size(text: str) -> int:
    """Words; a Chinese character counts half of one."""
    han = len(re.findall(r"[\u4e00-\u9fff]", text))
    return len(text.split()) + han // 2

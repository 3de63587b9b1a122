"""What surrounds a Chinese question and says nothing: greetings, politeness, particles. Pure.

Works on text in simplified characters without blanks, in which spans are holes.
"""

# ruff: noqa: E501 - one pattern a line

import re

_ASKS = "什么|怎么|怎样|如何|为什么|为何|为啥|哪|谁|几|多少|多久|多长|多大|多高|多远|多重|何时|是否|是不是|能不能|会不会|有没有|啥"
_ASK = re.compile(_ASKS)
_YOU = "(?:你|您)"
_OPENINGS = tuple(
    re.compile(pattern)
    for pattern in (
        r"(?:老师们?(?:你|您)?好|你好|您好|嗨|哈喽|大家好|早上好|hi|hello|各位|同学们)(?:呀|啊)?[,.!~ ]+",
        r"(?:那么|那个|话说|嗯|额|呃|对了)[,. ]+",
        r"(?:我)?(?:想|要|想要)?(?:请问|请教(?=一下|下|个|[你您大各,:. 怎如为哪谁多几]|什么)|(?:咨询|问问|问)(?=一下|下|个问题|[你您大,:. ]))(?:一下|下|个问题)?(?:你|您|大家)?[,:. ]*(?=.)",
        r"(?:我)?(?:想|想要|很想|要)(?:知道|了解|弄清楚|搞清楚|弄明白)(?:一下|下)?[,: ]*(?=.*(?:"
        + _ASKS
        + "))",
        r"(?:麻烦|劳烦|烦请|劳驾|拜托)(?=[你您,帮解写告给问介列推翻说讲请把用总比计算生起举描改检])(?:你|您)?[, ]*",
        r"(?:请)?(?:你|您)?(?:能不能|能否|可不可以|可否|能|可以)?(?:请)?(?:帮我|给我|跟我|为我|替我|向我)?(?:告诉我|说说|讲讲|告知|解答一下|回答一下)"
        r"(?:一下|下)?[,: ]*(?=.*(?:" + _ASKS + "))",
        r"(?:有谁|谁|哪位)(?:能|可以|能够)(?:帮我|给我)?(?:告诉我|说说|讲讲)(?:一下|下)?[,: ]*(?=.*(?:"
        + _ASKS
        + "))",
        r"(?:有谁|谁|有人|有没有人|大家)知道[, ]*(?=.*(?:" + _ASKS + "))",
    )
)
# "给我妈妈写信" is to her, "替我妈妈写信" in her name, and neither is politeness.
_WHOM = (
    "(?:的|们|妈|爸|爷|奶|哥|弟|姐|妹|叔|舅|姨|姑|嫂|朋友|男|女|老(?:板|师|公|婆|人|爸|妈)|同(?:学|事)|孩|儿|家|父|母"
    "|领导|客户|上[司级]|下属|导师|狗|猫|公[公司]|婆|学[生校]|自己|亲|邻居|房东|太太|爱人|丈|妻)"
)
# A request in the shape of a question: what follows is a command, and the particle at its end goes with it.
_ASKED_TO = re.compile(
    rf"^(?:(?:请)?{_YOU}?(?:能不能|能否|可不可以|可否|能|可以)(?:请)?{_YOU}?(?:帮我|帮忙|给我|替我|为我)?)(?=(?:解释|写|列|介绍|推荐|翻译|总结|描述|比较|说明|告诉|讲|举|给出|画|算|计算|生成|起草|解答|分析))"
    rf"|^(?:请)?{_YOU}?(?:能不能|能否|可不可以|可否|能|可以)(?:请)?(?:帮我(?!{_WHOM})|帮忙)"
)
_FOR_ME = rf"(?:帮我|替我|给我)(?!{_WHOM})"
_COMMANDED = re.compile(
    rf"^(?:请(?![假客柬帖教愿求安示辞罪战]){_YOU}?|帮忙|{_FOR_ME}|来(?=[一两三几个段首篇点份张]))(?=[^问])(?:{_FOR_ME})?"
)
_YOU_KNOW = re.compile(rf"^{_YOU}(?:们)?知道(.+?)(?:吗|么|嘛)?$")
_CLOSINGS = re.compile(
    r"(?:[,.!?~ ]+|(?<![说复应答写达示收到受么何样]))(?:谢谢(?:你|您|啦|了|大家)?|多谢|感谢(?:不尽)?|拜托了?|辛苦了|谢了|thanks)[.!~ ]*$"
)
_PARTICLES = re.compile(
    r"[,.!?~ ]*(?:(?<!毛)呢|啊|呀|哦|(?<![二哈])哈|(?<!唢)呐|(?<!爪)哇|啦|嘞|(?<!英)哩)?[,.!?~; ]*$"
)
_REQUEST_END = re.compile(r"(?:吗|么|嘛|好吗|行吗|可以吗|(?<![酒网贴水餐书])吧)$")
_FILLERS = re.compile(r"到底|究竟|一下子?(?!子)|具体(?=是|怎|有|要)|其实|请问")


def bare(text: str) -> str:
    """The question without what surrounds it."""
    before = None
    while before != text:
        before = text
        text = _PARTICLES.sub("", _CLOSINGS.sub("", text)) or text
        for pattern in _OPENINGS:
            found = pattern.match(text)
            if found and found.end() and found.end() < len(text):
                text = _without_end(text[found.end() :])
        known = _YOU_KNOW.match(text)
        if known and _ASK.search(known[1]):
            text = known[1]
        text = _commanded(text)
    return _FILLERS.sub("", text).strip(" ,.") or text


def _without_end(text: str) -> str:
    """After "can you tell me what … 吗" the particle belongs to the politeness."""
    return (
        re.sub(r"(?:吗|么|嘛)$", "", text)
        if _ASK.search(text) and not text.endswith(("什么", "怎么"))
        else text
    )


def _commanded(text: str) -> str:
    if found := _ASKED_TO.match(text):
        return _REQUEST_END.sub("", text[found.end() :]) or text
    found = _COMMANDED.match(text)
    if found and found.end() and found.end() < len(text):
        return re.sub(r"(?:好吗|行吗|可以吗|(?<![酒网贴水餐书])吧)$", "", text[found.end() :]) or text
    return text

"""Chinese words made one of their synonyms and numerals. Pure; reads `data/chinese.toml` once."""

import re

from services.semantic.reading.english_words import _PLAINLY, TOOL, placed
from services.semantic.reading.spans import HOLE
from services.semantic.reading.words import alternatives, groups, load

_DATA = load("chinese")
_SYNONYMS = groups(_DATA["synonyms"])
_GROUPED = re.compile(alternatives({*_SYNONYMS, *_SYNONYMS.values()}))
_TAIWAN = groups(_DATA["taiwan"])
_TAIWANESE = re.compile(alternatives(_TAIWAN))
_DIGITS = {"零": 0, "一": 1, "二": 2, "两": 2, "三": 3, "四": 4, "五": 5, "六": 6, "七": 7, "八": 8, "九": 9}
_NUMERAL = re.compile(
    rf"(?<![一二三四五六七八九十百千万亿第周星期礼拜零{HOLE[1:-1]}])([一二两三四五六七八九]千(?:[一二三四五六七八九]百)?(?![百克米零一二三四五六七八九])|[一二两三四五六七八九]百(?:[一二三四五六七八九]十[一二三四五六七八九]?)?|[二两三四五六七八九]?十[一二三四五六七八九]?|[二两三四五六七八九])"
    rf"(?=(?:{alternatives(_DATA['measures'].split())}))"
)
# One of a unit, where it is converted.
_UNIT = re.compile(
    r"^一(?=(?:公?斤|公?里|公?顷|公?尺|[米克升吨亩寸尺两磅码]|英[里尺寸镑]|海里|[千毫厘分]米|美元|欧元|光年|小时|分钟)(?:等于|是|有|合))"
)
_ANY = f"{TOOL}|{alternatives(_DATA['tools'].split())}"
_PLACE = rf"((?:{_ANY})~?{HOLE}?)"
_OWNED = alternatives(set(_DATA["belongings"].split()) - {"的"})
_INSIDE = re.compile(
    rf"(?<![从到成为转比和与跟a-z])({_PLAINLY})(?:的(?!{_OWNED})|(?!的|{_OWNED}))(?=[\u4e00-\u9fff])"
)
_NAMED = re.compile(rf"(?<![a-z])(?:{TOOL})(?![a-z])")
# What a tool does by itself is not what somebody does with it: 抖音怎么推荐视频.
_ITSELF = alternatives(_DATA["itself"].split())
_SETTINGS = (
    re.compile(
        rf"(?:在|用|使用|通过|利用){_PLACE}(?:语言|系统|环境|浏览器|软件)?(?:上面|里面|上|中|里|下|内)?(?![a-z0-9的])(?:来|去)?"
    ),
    re.compile(rf"^{_PLACE}(?:语言|系统|环境|浏览器|软件|语句)?(?:上面|里面|上|中|里|下|内)(?=.)"),
    re.compile(
        rf"^{_PLACE}(?=怎么(?:截图|截屏|录屏|联网|打字|分屏|投屏|去重|求和|换行|缩进|分页|居中|对齐|抠图|裁图|调色|取整|判空|清屏|群发)$)"
    ),
    re.compile(
        rf"^{_PLACE}(?:语言|系统|浏览器)?(?=怎么[^\ue000-\uf8ff]{{3,}}|怎么.{{1,3}}[a-z\ue000-\uf8ff])(?!怎么(?:{_ITSELF}))"
    ),
    re.compile(rf"^((?:{TOOL})~?)(?:中|里)?的(?=.+(?:区别|不同|差异|差别))"),
    re.compile(
        rf"^({TOOL})(?=[\u4e00-\u9fff]{{2,6}}[和与跟][\u4e00-\u9fff]{{2,6}}(?:的|有|之间).*(?:区别|不同|差异|差别))"
    ),
    re.compile(rf"(?<=的)({TOOL})(?=(?:函数|脚本|程序|代码)$)"),
    re.compile(rf"(?<=^写一)[个段份]?({TOOL})(?=函数|脚本|程序(?!员)|代码|正则)"),
)
_DEVICES = {"手机", "电脑", "平板", "网上"}
# What is switched or undone in a tool is a part of it: 怎么打开微信的深色模式 is 在微信中怎么打开深色模式.
_SWITCHED = "打开|开启|关闭|关掉|启用|禁用|设置|撤销|撤回|取消|清理"
_HOSTS = f"{TOOL}|{alternatives(set(_DATA['tools'].split()) - _DEVICES)}"
_PART = re.compile(
    rf"怎么({_SWITCHED})({_HOSTS})(?![a-z])(?:的(?!{_OWNED})|(?!的|{_OWNED}))(?=[\u4e00-\u9fff]{{2}})"
)
_PART_FIRST = re.compile(
    rf"^({_HOSTS})(?![a-z])(?:的(?!{_OWNED})|(?!的|{_OWNED}))([\u4e00-\u9fff]{{2,}})怎么({_SWITCHED})$"
)
# "中国的银行" are banks, "中国银行" is one.
# So does "的" behind a verb or an adjective of one character: 买的衣服 and 买衣服, 热的狗 and 热狗.
_BARE = "".join(f"(?<!(?<![{_DATA['compounds'].get(one) or '!'}]){one})" for one in _DATA["compounds"])
# Mother's father is somebody else than mother and father.
_KIN = (
    rf"(?<=[妈爸哥弟姐妹爷奶师生学友板工子父母亲儿夫妻公婆居导事]的)(?:{alternatives(_DATA['kin'].split())})"
)
_RELATIVE = rf"{_BARE}(?<!(?<![好小])[吃喝看])(?<!(?<![常实专通适作])用)(?<![写画做买卖穿养])"
_OF = re.compile(
    rf"(?<!目){_RELATIVE}的(?!$|确|士|话|{alternatives(_DATA['institutions'].split())})(?!{_KIN})"
)


def mainland(text: str) -> str:
    """Words that mean this in Taiwan only in those of the mainland."""
    return _TAIWANESE.sub(lambda found: _TAIWAN[found.group()], text)


def setting(text: str) -> tuple[str, tuple[str, ...]]:
    """The text without the language, tool or system that it is asked for, and these."""
    found: list[str] = []

    def take(hit: re.Match[str]) -> str:
        found.append(hit[1].rstrip("~"))
        return ""

    if part := _PART.search(text):
        return f"{text[: part.start()]}怎么{part[1]}{text[part.end() :]}", (placed(part[2]),)
    if part := _PART_FIRST.search(text):
        return f"怎么{part[3]}{part[2]}", (placed(part[1]),)
    for pattern in _SETTINGS:
        if not found:
            text = pattern.sub(take, text, count=1)
    if not found and "怎么" in text and len(_NAMED.findall(text)) == 1:
        text = _INSIDE.sub(take, text, count=1)
    return text, tuple(placed(name) for name in found)


def folded(text: str, ask: str, *, strict: bool) -> str:
    """The text with one word for each group of synonyms; where words are what is asked about, as it is."""
    # What a word stands for is asked by that word: 什么是大夫, 什么是医生.
    if strict or (ask == "what" and _GROUPED.fullmatch(text)):
        return text
    text = _NUMERAL.sub(_counted, _UNIT.sub("1", text))
    text = _OF.sub("", text)
    used: dict[str, set[str]] = {}
    for word in _GROUPED.findall(text):
        used.setdefault(_SYNONYMS.get(word, word), set()).add(word)
    # Two words of one group in one question are told apart by it.
    return _GROUPED.sub(lambda found: _one(found.group(), used), text)


def _one(word: str, used: dict[str, set[str]]) -> str:
    first = _SYNONYMS.get(word, word)
    return first if len(used[first]) == 1 else word


def _counted(found: re.Match[str]) -> str:
    """The numeral in digits; not 两月 (two months, 二月 is one), nor 二层 (one storey, 两层 are two)."""
    after = found.string[found.end()]
    if (found[1] == "两" and after in "月号层日") or (found[1] == "二" and after == "层"):
        return found[1]
    return str(_number(found[1]))


def _number(numeral: str) -> int:
    value = 0
    for unit, size in (("千", 1000), ("百", 100), ("十", 10)):
        head, found, numeral = numeral.rpartition(unit)
        value += size * _DIGITS[head or "一"] if found else 0
    return value + (_DIGITS[numeral] if numeral else 0)

"""How long an answer to a question can stay true. Pure.

Questions about now have another answer tomorrow, and questions for something random another one each time.
They are recognised by words, so this errs towards asking the backend; the user's own rules come first.
"""

# ruff: noqa: E501 - one list of words a line

import re
from collections.abc import Sequence

from services.settings import CacheRule

_ENGLISH = (
    r"now|nowadays|today|tonight|yesterday|tomorrow|current(?:ly)?|latest|newest|recent(?:ly)?|so far|up to date"
    r"|(?:this|last|next|past) (?:morning|afternoon|evening|night|week|weekend|month|year|monday|tuesday|wednesday"
    r"|thursday|friday|saturday|sunday|season)|at the moment|as of|these days|just happened|still alive"
    r"|prices?|costs?|stocks?|share price|exchange rates?|interest rates?|bitcoin|weather|forecasts?"
    r"|news|headlines?|scores?|standings|trending|live (?:stream|score|updates?)|traffic|in stock|available|opening hours"
    r"|open (?:now|on)|what time is it|what is the (?:time|date)|what(?:'s| is) the (?:time|date)|what day is it"
    r"|day is it|date is it|time is it|what year is it|how long ago|how long until|how many days (?:until|till|since)|age of"
    r"|how old is|random|randomly|roll (?:a|some|two) (?:die|dice)|dice|flip a coin|coin toss|uuid|guid"
    r"|generate (?:a )?password|surprise me|another"
)
_CHINESE = (
    r"今天|今日|今晚|今早|今年|昨天|昨晚|明天|后天|现在|目前|当前|如今|此刻|眼下|最新|最近|近期|近日|刚刚|刚才|本周|本月|本季度|这周|这个月|上周|上个月"
    r"|下周|下个月|去年|明年|实时|即时|价格|价钱|售价|多少钱|股价|股票|股市|行情|汇率|利率|房价|油价|金价|天气|气温|预报|新闻|头条|热搜|比分|赛果"
    r"|排名|路况|限行|几点了|几点钟|几号|星期几|礼拜几|周几|什么日期|还有几天|还有多少天|多久之前|多大年纪|几岁了|随机|掷骰子|抛硬币|摇号|再来一"
)
_WORDS = re.compile(rf"\b(?:{_ENGLISH})\b|{_CHINESE}", re.IGNORECASE)
NEVER = 0.0


def life(text: str, rules: Sequence[CacheRule] = ()) -> float | None:
    """Seconds for which an answer may be kept: 0.0 not at all, None as long as any other.

    The first of the user's rules one of whose words occurs decides; a ``ttl`` below 0 there calls the question
    an ordinary one.
    """
    folded = text.casefold()
    for rule in rules:
        if any(word.casefold() in folded for word in rule.words):
            return rule.ttl if rule.ttl >= 0 else None
    return NEVER if _WORDS.search(text.replace("’", "'")) else None

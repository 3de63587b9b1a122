"""What a Chinese question asks for, and where in it the asking word stands. Pure.

"为什么" may stand anywhere, "谁" may not: who beat whom is in the order. So only the asking words whose place
says nothing are taken out, and the class of the question keeps them.
"""

# ruff: noqa: E501 - one pattern a line

import re
from collections.abc import Callable
from typing import NamedTuple

from services.semantic.reading import chinese_orders
from services.semantic.reading.spans import HOLE
from services.semantic.reading.words import load

_DATA = load("chinese")
_VERBS = frozenset(_DATA["verbs"].split())
_PERSONS = tuple(_DATA["persons"].split())


class Asked(NamedTuple):
    """The class of a question, and what it asks about."""

    ask: str
    text: str


# "介绍信怎么写" asks about the letter, "介绍怎么写信" is a request.
_NOT_NOUN = "(?![器型性权]|变量|[书文信人员页费词](?=[怎是有的如为和与]))"
# Who somebody else is: what he should do is not how he does it.
# "太阳能怎么用" is no "太阳怎么用", "心得怎么写" no "心怎么写".
_MUST = (
    "(?<![他她它们])(?:应该|应当|(?<![反效供响适对])应|该|需要|(?<![重主必摘纪概提简只还])要|(?<![心获觉懂值难省记取])得|可以|能够"
    "|(?<![不太阳功职智可潜技本机效性全热电光核才只动势风体化水氢])能)?"
)
_SPELLED: tuple[tuple[re.Pattern[str], str | Callable[[re.Match[str]], str]], ...] = tuple(
    (re.compile(pattern), result)
    for pattern, result in (
        (r"是(?:怎样|怎么样|什么样|如何)的?$", "是什么样"),
        (r"(最.{1,3}?的?([\u4e00-\u9fff]{1,2}))是(?:什么|哪[个座条]?)\2$", r"\1是哪个"),
        (r"(?<![不我你您他她它们])需要(?=[\u4e00-\u9fff]{2}什么|(?:准备|带|提供|提交|加|交|办理|注意|满足|具备|考|学|买)?(?:什么|哪些)|[\u4e00-\u9fff]{0,2}(?:几[^乎]|多少))", "要"),
        (r"(?<![我你您他她它们不重必主需])要(?=[读学考等煮煎炒炸烤蒸炖腌泡洗晒敷](?:几[^乎]|多少))", ""),
        (r"可以(?=.{1,2}(?:多久|多少[年天]|几[年天]))", "能"),
        (r"^在(?=.+哪里)", ""),
        (r"哪里(?:能够?|可以)(?=.)", "哪里可以"),
        (r"的?(?:制作|烹饪)(?:方法|步骤)(?:是什么)?$", "的做法"),
        (r"端口([\ue000-\uf8ff])", r"\1端口"),
        (r"^(?:解释|说明|介绍|讲解)" + _NOT_NOUN + r"(.+)的(?:概念|定义)$|^(.+)的(?:概念|定义)是什么$", lambda f: f"{f[1] or f[2]}是什么"),
        (r"^(?:解释|说明|介绍|讲解)" + _NOT_NOUN + r"(.+的(?:原理|规则))$", r"\1是什么"),
        (r"^(?!.*(?:什么|怎么|如何|哪|谁|几|多少|吗|为何|写|列|给|翻译|总结|用))(.{2,}(?:公式|化学式|化学符号|首都|原理|区别|优缺点|症状|做法|由来|起源|来历))$", r"\1是什么"),
        (r"优点(?:和|与|及|以及)缺点|利弊|优势(?:和|与|及)劣势|好处(?:和|与|及)坏处", "优缺点"),
        (r"(?<=[吃喝买带做学看准备])(?:哪些|什么)东西", "什么"),
        (r"(?<!可)不可以(?!不)", "不能"),
        (r"(?:上|中|里|内)的?(?=最.{1,2}的)", ""),
        (r"(?:的)?(?:用途|用处)(?:是什么|有哪些)$|有什么(?:用处|用途|作用|用)$|是(?:做|干)什么用的$|的?作用有哪些$", "的作用是什么"),
        (r"(?:代表|表示)什么(?:意思|含义)?$", "是什么意思"),
        (r"(?<=[点度温])是多少度$", "是多少"),
        (r"(?:等于|合)(?=多少[^的]{1,3}$)", "是"),
        (r"^一[个份](?=.+的(?:做法|食谱|菜谱)$)", ""),
        (r"造一个句子$|造个句子?$", "造句"),
        (r"(?:每)?隔?多久(?=.{1,3}一次)", "多久"),
        (r"([二三四五六七八九十]大[^的怎为]+)(?:是什么|是哪些|包括哪些|包括什么)$", r"\1有哪些"),
        (r"((?:提高|提升)[^的怎]{2,6})水平$", r"\1"),
        (r"给我(?:来)?(?:一个|一份|个|份)?(.+)的(?:做法|食谱|菜谱)$", r"\1的做法"),
        (r"的(?:食谱|菜谱)(?:是什么)?$", "的做法"),
        (r"怎么制作$", "怎么做"),
        (r"什么时候|啥时候|啥时|什么时间|几时|多会儿", "何时"),
        (r"什么地方|啥地方|哪个地方|何处|哪儿", "哪里"),
        (r"为啥子?|为何|何以", "为什么"),
        (r"(?:的|是)?(?:出于)?(?:什么|何|啥)(?:原因|缘故)(?:造成|导致|引起|所致)?的?$|的原因(?:是(?:什么|啥)|何在|在哪里?|在于什么)?$", "为什么"),
        (r"怎么会", "为什么会"),
        (r"(?:天气|感觉|效果|质量|口碑|味道|情况|服务|环境)(?:怎么样|怎样|如何|咋样)$", lambda f: f.group()[:2] + "状况"),
        (r"(?:怎么样|怎样|如何|咋样)$", "状况"),
        (_MUST + r"(?:怎么样|怎么|怎样|如何|咋)(?:样)?(?:(?:才能够|才可以|才能|才|可以|能够|能)(?!不)|正确地?)?(?=.)(?!办)", "怎么"),
        (r"怎么怎么", "怎么"),
        (r"怎么使用", "怎么用"),
        (r"^(?:解释|说明|讲解|说说|讲讲|介绍)" + _NOT_NOUN + r"(?=.*(?:怎么|为什么|区别|什么是|什么叫|是什么$))", ""),
        (r"的时候", "时"),
        (r"(?:里面|里|当中|之中)(?=的)", "中"),
        (r"世界上的?", "世界"),
        (r"([用成为的以])([英法德日韩俄中泰意])文", r"\1\2语"),
        (r"(?:创建|新建|建立)(?:一个?)?新?", "创建"),
        (r"(声明|定义|成为)一[个名位种]?", r"\1"),
        (r"怎么(?:制作)", "怎么做"),
        (r"(怎么(?:给[^,换]{1,6})?)(?<!更)换(?![成为算])", r"\1更换"),
        (r"(?<![更交转兑变替])换$", "更换"),
        (r"是?怎么运作(?:的)?$", "怎么工作"),
        (r"^从(?=.+到.+多)", ""),
        (r"^(.+?)的?(?:发明者|发明人)是谁$", r"谁发明\1"),
        (r"^(.+?)的?发现者是谁$", r"谁发现\1"),
        (r"^把?([\ue000-\uf8ff])(?:翻译|译)(?:成|为)(.{1,4}[语文])$", r"\1用\2怎么说"),
        (r"^([\ue000-\uf8ff])的?((?![用的]).{1,3}[语文])(?:翻译)?(?:是什么|怎么[说讲])$", r"\1用\2怎么说"),
        (r"^怎么用(.{1,4}[语文])[说讲]([\ue000-\uf8ff])$", r"\2用\1怎么说"),
        (r"^(?:成语|词语|单词|俗语|谚语|歇后语|词)(?=[\ue000-\uf8ff](?:的|是|什么))", ""),
        (r"^([\ue000-\uf8ff])的(?:意思|含义)$", r"\1是什么意思"),
        (r"^怎么解决([^怎什办]{2,12})$", r"\1怎么办"),
        (r"^用(.{1,4}[语文])怎么说([\ue000-\uf8ff])$", r"\2用\1怎么说"),
        (r"^(?:解释|说明)(.+)的(?:意思|含义)$", r"\1什么意思"),
        (r"(?<=[\ue000-\uf8ff])(?:这个|这)?(?:词语|词|成语|字|短语|术语)(?=的?(?:是|意思|含义|什么意思))", ""),
        (r"(?:转换|变换|转化|改|变)(?:成|为)|转为", "转成"),
        (r"转(?=[a-z])", "转成"),
        (r"(首都|省会|都城)(?:是|在|叫)(?:哪里|哪座城市|哪个城市|什么|哪)$", r"\1是哪里"),
        (r"(?:的)?(?:工作|运作|运行)?原理(?:是什么|是啥)?$", "怎么工作"),
        (r"(?:是|在)?(?:哪一年|何年|哪个年份|哪年)(?=..)|(?<=于)(?:哪一年|哪年)$", "何时"),
        (r"哪几个", "哪些"),
        # "是哪些人" asks for names, "是什么人" for a kind.
        (r"(?<![这那]是)哪些(?!人)", "什么"),
        (r"(?:没法|没办法|不能够)", "无法"),
        (r"([\u4e00-\u9fff]{2})不了$", r"无法\1"),
        (r"^(?:导致|造成|引起|引发)(?=.+原因)", ""),
        (r"(?<![应不])该(?=[喝吃怎做买用选去学带穿送看说写睡交多])", "应该"),
        (r"^我(?=(?:每天|每周|每月)?应该)(?!.*[你他她])", ""),
        (r"^(.*?)一天(?=应该|要|该|喝|吃|睡|工作|需要)", r"\1每天"),
        (r"(?<=[写讲说画编作荐绍计草做成造拟起取想列出给我])一(?:封|份|篇|首|个|则|款|种|座|位|张|件)(?![半天年月周人二两三四五六七八九十\ue000-\uf8ff])", "一"),
        (r"(?:应该|应当|该|(?<![重主必摘纪概提简])要)?(?:怎么|咋)办(?![理公好到成卡证护签了])", "怎么办"),
        (r"(?:应该|该|(?<![重主必摘纪概提简])要)?怎么(?:解决|处理|应对)$", "怎么办"),
        (r"什么(?:样)?(?:方法|办法|方式)(?:可以|能够|能|来)?", "什么方法"),
        (r"^(?:有|用|通过)什么方法(?=.)", "怎么"),
        (r"啥", "什么"),
        (r"哪一(?=[个种款家部条])", "哪"),
        (r"有何(?!时)", "有什么"),
        (r"多长时间|多少时间", "多久"),
        (r"(?:(?:(?<!必)需要|(?<![重主必摘纪概提简])要|(?<![心获])得|(?<![不社机学开聚晚宴约体领误理议协商工委大国省市年乐舞班展博酒茶])会|将)(?:花费?|用|耗费)?|花费|耗费)?多久", "多久"),
        (r"有多(?=[高长宽深大重远快])", "多"),
        (r"多少(?=[个只条张本位名种件块颗棵根座辆句页章年天次所家门岁国支间层])", "几"),
        (r"(?:一共|总共|共)(?=有)", ""),
        (r"(?:一共|总共)(?=几|多少(?!钱))", "有"),
        (r"哪个国家的人$", "哪国人"),
        (r"(?:包括|包含)(?:哪些|什么)$", "有什么"),
        (r"(?:的)?(?:价格|价钱|售价)(?:是)?(?:多少(?:钱)?|什么|如何)$|(?:要|卖|得|需要|需|是)多少钱$", "多少钱"),
        (r"(?:的)?人口(?:数量|总数|数)?(?:是|有)?多少$|有多少人口$", "人口多少"),
        (r"(?:的)?高度(?:是)?多少$", "多高"),
        (r"(?:的)?长度(?:是)?多少$", "多长"),
        (r"(?:的)?深度(?:是)?多少$", "多深"),
        (r"(?:的)?宽度(?:是)?多少$", "多宽"),
        (r"(?:的)?(?:重量|体重)(?:是)?多少$", "多重"),
        (r"(?:位于|坐落于|处于|是在)哪里$", "在哪里"),
        (r"是(何时|在哪里|怎么)(.+的)$", r"\1\2"),
        (r"(.+)是何时$", r"\1何时"),
        (r"^谁(?:写|创作|撰写)(?:了|的)?(.+)$", r"\1作者谁"),
        (r"^(.+?)(?:是|由)谁(?:写|创作|撰写)的?$", r"\1作者谁"),
        (r"^(?:谁是(.+?)的?作者|(.+?)的?作者是谁)$", lambda f: f"{f[1] or f[2]}作者谁"),
        (r"^谁是(.+)$", r"\1是谁"),
        (r"^(?:什么是|什么叫做?|何谓|何为)(.+)$", r"\1是什么"),
        (r"是什么东西$", "是什么"),
        (r"(?:的)?(?:意思|含义)是什么$|(?:是)?什么意思$|(?:是|有)?什么含义$|指的?是什么$|是指什么$", "什么意思"),
        (r"^(.+?)(?:是|由)谁(发明|发现|创立|建造|设计|导演|提出)的?$", r"谁\2\1"),
        (r"^谁(发明|发现|创立|建造|设计|导演|提出)了", r"谁\1"),
        (r"(?:需要|要)(?=.{1,3}多久$)", ""),
        (r"多少(?=(?:公里|千米|米|厘米|毫米|英里|英尺|公斤|千克|克|斤|磅|升|毫升|小时|分钟|秒|天|年|度|美元|元|人民币|欧元|海里)$)", "几"),
        (r"(?:等于|是|合|有|约)(?=几(?:公里|千米|米|厘米|毫米|英里|英尺|公斤|千克|克|斤|磅|升|毫升|小时|分钟|秒|美元|元|人民币|欧元|海里)$)", "等于"),
        (r"^把?([\ue000-\uf8ff].*?)(?:换算|转换|转化|转)(?:成|为)([^\ue000-\uf8ff]+)$", r"\1等于几\2"),
        (r"^(?:计算|求)(?![机器学助职])([^怎什]+)$", r"\1是多少"),
        (r"(?:等于|是|得)(?:多少|几)$", "是多少"),
        (r"是哪一?[条座只家本部项款种颗位座]$", "是哪个"),
        (r"^(世界)?哪[个条座只家本部项款](.+)最(.{1,2})$", r"\1最\3\2是哪个"),
        (r"^(.*最.+(?<!的))是(?:什么|哪个|哪里|哪一个)$", r"\1是哪个"),
        (r"^(.+?)是谁([^的作]{1,3})的$", r"谁\2了\1"),
        (r"^谁([^了是的]{1,3})的(.+)$", r"谁\1了\2"),
        (r"是不是|是否是", "是Q"),
        (r"是否", "Q"),
        (r"可不可以|能不能|能否|可否", "可以Q"),
        (r"有没有(?=.)", "有Q"),
        (r"([适喜知需值愿])不\1([合欢道要得意])", r"\1\2Q"),
        (r"([\u4e00-\u9fff])不\1", r"\1Q"),
    )
)  # fmt: skip
_ASKING = "如何|怎么|怎样|怎么样|为什么|为何|为啥|什么|啥|哪里|哪儿|几|多少|何时|什么时候|吗|能|会|可以|是否"
_OF_ASKING = re.compile(rf"^(?:{_ASKING})[和与跟](?:{_ASKING})")
# With these, who does it and whom it is done to are told apart by "把" alone.
_DONE_TO = re.compile(r"[给打骂杀吃送骗赶借卖教带叫]")
_REPAIR = re.compile(r"^修(?![理改复剪正建炼行订饰补图车])")
_LEARN = re.compile(r"^学(?![习好会校生费历分期位者科术员说懂成到])")
_CHOOSE = re.compile(r"^(?:选(?![择举修拔手项购中课])|挑(?![选战]))")
# "写一个函数,判断素数" is 写一个判断素数的函数.
_WRITTEN_FOR = re.compile(
    r"^(.{0,8}写)一?[个段]?(函数(?![式库])|脚本(?!语言)|程序(?!员)|正则表达式)[,]?(?:用来|用于|来|去)?(?!设计|调用|签名|注释|文档|说明|介绍|教程|名|图|库)([^的与和用,把并][^的]+)$"
)
# How to write a letter is how to write one: 怎么写一封辞职信.
_ONE = re.compile(
    r"^(写|做|画|烤|煮|制作|设计|起草)一[只]?(?![好半月天年周人个家对双套条段句点次些])(?=[\u4e00-\u9fff]{2})"
)
# "他何时来的" is past, "他何时来" to come; of these there is but the one time.
_PAST = re.compile(
    r"(?:出生|去世|逝世|成立|创立|创建|建立|发明|发现|诞生|灭亡|灭绝|统一|起源|独立|登基|即位|颁布|签订|写成|创作)[^的]{0,8}的$"
    r"|(?:战|朝|革命|起义|帝国).*(?:爆发|开始|结束)的$"
)
_ENDED = re.compile(r"(?:坏|死|丢|破|断|倒|碎|爆|烧|裂|掉|没|失败|倒闭|[来去到走输赢])[^的]{0,2}的$")
# What fails to, and not what one must not.
_FAILS = re.compile(
    r"不能(?=正常|开机|启动|连接|联网|打开|登录|运行|安装|访问|上网|充电|更新|下载|识别|播放|显示|加载|编译|导入|保存|打印)"
)
_YES_NO = re.compile(r"(?:吗|(?<![什怎多那这])么|嘛|没有|与否)$")
_RELATION = re.compile(r"^(.+?)(?:的)?(?:有什么|有哪些)([^什么哪]{1,12})$")
_ATTRIBUTE = re.compile(r"^(.+)的([^的]{1,6})(?:有哪些|是什么|是哪些|有什么)$")
# "复利计算公式" is 复利的计算公式.
_NOUN = re.compile(r".(?:公式|化学式|化学符号)$")
_ASPECT = re.compile(
    r"^([^的]{2,})(技巧|症状|优点|缺点|优缺点|特点|种类|类型|好处|坏处|注意事项)(?:有什么|有哪些|是什么)$"
)
_DIFFERENCE = re.compile(
    r"^(.+?)[和与跟同]([^和与跟同]+?)(?:之间)?(?:(?:的|有什么|有哪些|在哪里|有)*(?:区别|不同|差别|差异)|(?:的|有|有什么)分别|有(?:什么|哪些|哪里)不一样)(?:之处)?(?:是什么|有哪些|在哪里|是哪些)?$"
)
_WHICH = re.compile(r"^(.+?)[和与跟]([^和与跟]+?)(?:相比)?[,]?哪个(.+)$")
_DISTANCE = re.compile(r"^(.+?)(?:距离|离|距|到|和|与)(.+?)(?:有)?多远$")
_APART = re.compile(r"^(.+?)(?:到|和|与|离)(.+?)(?:之间)?的?距离(?:是|有)?(?:多少|多远)$")
# What two have between them, in whichever order they are named.
_BOTH = re.compile(
    r"^([^和与跟的]{1,8})[和与跟]([^和与跟的]{1,8})((?:之间)?的?(?:时差|关系|共同点|联系|相同点|相似之处|异同|是(?:同一|一样|相同|一回事)|Q?(?:能|可以)Q?(?:一起|同时)).*)$"
)
_METHOD = re.compile(
    r"^(.+?)的?(?:的(?:正确|具体|最佳|最好|有效)的?|的)(?:方法|办法|步骤|方式|流程)(?:是什么|有什么)?$"
)
_RECIPE = re.compile(r"^(.+?)的做法(?:是什么|有哪些)?$")
_PLACED = re.compile(r"^(?:在|用|使用|从|对|给|把|将|让|当|如果|通过|利用|为|向|跟|和|没有|不)")
_LOCAL = re.compile(r"(?:上|里|中|内|里面|上面)$")
# Where a fact is asked for, what is possible is what is allowed.
_MAY = re.compile(r"多久|[几多][个岁天年月次少大]|何时")
_ABLE = re.compile(
    r"(?<![不太阳功职智可潜技本效性全热电光核才只动势])(?<![体肺理官]机)能(?![源力量够耐干见])"
)
_WOULD = re.compile(
    r"(?<![不社机学开聚晚宴约体领误理议协商工委大国省市年])会(?![议员计话场见谈面不唱游画写骑飞编用修爬])"
    # What somebody is able to do stays: 会说话, 会下棋; what happens to them does not: 会说谎, 会下雨.
    r"(?!说(?!谎)|跳(?![槽闸楼动伞])|弹(?!出)|做(?![梦噩])|开车|下[棋蛋厨]|打(?![呼嗝哈喷雷鼾]))"
)
# Behind these the asking word belongs to what is said: 写一篇怎么养花的文章, 怎么写一篇养花的文章.
_SAID = re.compile(
    r"写|列|教|告诉|介绍|说|描述|总结|翻译|画|生成|设计|推荐|比较|分析|解释|讲|问|知道|决定|懂|明白|想|认为|觉得|研究|讨论"
    r"|演示|检查|判断|证明|记录|[让叫]|要求"
)
# What these do by themselves is not what is done to them: 神经网络怎么学习, 怎么学习神经网络.
_ACTORS = tuple(_DATA["actors"].split())
_TOOLS = tuple(_DATA["instruments"].split())
_WITH = frozenset(_DATA["with"].split())
_ACTS = frozenset(_DATA["acts"].split())


def spelled(text: str) -> str:
    """Each way of asking in one spelling; not where the difference between two of them is asked for."""
    if _OF_ASKING.match(text):
        return text
    text = chinese_orders.rebuilt(text)
    for pattern, result in _SPELLED:
        text = pattern.sub(result, text)
    return text


def asked(text: str) -> Asked:
    """The class of the question and what is left of it."""
    text = text.lstrip(",")
    text = _WRITTEN_FOR.sub(r"\1一\3的\2", text)
    text = text if _DISTANCE.match(text) or _APART.match(text) else _BOTH.sub(_sorted, text)
    found = next((found for step in _STEPS if (found := step(text)) is not None), Asked("", text))
    return found._replace(text=_can(found.text)) if _MAY.search(text) and found.ask in {"", "when"} else found


def _of_two(text: str) -> Asked | None:
    """What is asked about two things, in whichever order they are named."""
    if found := _DIFFERENCE.match(text):
        return Asked("difference", "|".join(sorted(found.groups())))
    if found := _WHICH.match(text):
        return Asked("which of two", "|".join([*sorted(found.groups()[:2]), found[3].removeprefix("更")]))
    if found := _DISTANCE.match(text) or _APART.match(text):
        return Asked("how far", "|".join(sorted(side.removeprefix("从") for side in found.groups())))
    return None


def _why_or_how(text: str) -> Asked | None:
    if "为什么" in text:
        return Asked("why", _why(text))
    if text.endswith("怎么办"):
        text = text.removesuffix("怎么办")
        # "不吃饭了" does no more what it did, "发烧了" has begun to.
        return Asked("what to do", (text if "不" in text else text.removesuffix("了")).rstrip(","))
    if text.count("怎么") == 1 and not re.search(r"怎么办(?![理公好到成卡证护签])", text):
        return Asked("how to", _how(*text.split("怎么")))
    return None


def _way(text: str) -> Asked | None:
    if found := _METHOD.match(text):
        return Asked("how to", _how("", found[1]))
    found = _RECIPE.match(text)
    return Asked("how to", f"做{found[1]}") if found else None


def _when_or_meaning(text: str) -> Asked | None:
    if text.count("何时") == 1:
        text = re.sub(r"是何时|何时", _kept(text, "何时"), text)
        return Asked("when", (text.removesuffix("的") if _PAST.search(text) else text).removesuffix("于"))
    return Asked("meaning", text.removesuffix("什么意思")) if text.endswith("什么意思") else None


def _yes_or_no(text: str) -> Asked | None:
    if "Q" not in text and not _YES_NO.search(text):
        return None
    text = re.sub(r"^在(?=.+有)", "", text)
    return Asked("yes or no", _can(_YES_NO.sub("", text.replace("Q", ""))))


def _property(text: str) -> Asked | None:
    if found := _ATTRIBUTE.match(text) or _RELATION.match(text) or _ASPECT.match(text):
        return Asked("which", f"{found[1].removesuffix('的')}{found[2]}")
    found = re.match(r"^([^的]+)是什么$", text)
    if found is None:
        return None
    if _NOUN.search(found[1]):
        return Asked("which", found[1])
    # What a quoted word is, is what it means.
    return Asked("meaning" if re.fullmatch(HOLE, found[1]) else "what", found[1])


# The first that knows a question takes it.
_STEPS: tuple[Callable[[str], Asked | None], ...] = (
    _of_two, _why_or_how, _way, _when_or_meaning, _yes_or_no, _property,
)  # fmt: skip


def _can(text: str) -> str:
    """Read "能" as "可以" where nobody in particular is asked about."""
    return text if re.search(r"[我你您他她它]", text) else _ABLE.sub("可以", text)


def _sorted(found: re.Match[str]) -> str:
    return "和".join(sorted(found.groups()[:2])) + found[3]


def _why(text: str) -> str:
    text = text.replace("为什么", _kept(text, "为什么"), 1)
    text = re.sub(r"是([^是]{1,4})的$", r"\1", text).replace("很", "", 1)
    text = _FAILS.sub("无法", text)
    if re.search(r"[我你您他她它们](?!的)", text):
        return text
    return _WOULD.sub(
        "", re.sub(r"(?<![主不人员师生者家们友子])要(?=[^求点素领是么])", "", text, count=1), count=1
    )


def _kept(text: str, asking: str) -> str:
    """What stands for an asking word whose place says something; else nothing."""
    return "|" if _SAID.search(text.partition(asking)[0]) else ""


def _how(before: str, after: str) -> str:
    """Read "X怎么V" as "怎么VX", where V is done to X."""
    before = before.rstrip(",")
    if not (before.endswith(_PERSONS) or _ENDED.search(after)):
        after = re.sub(r"(?<=.)的$", "", after)
    if before in {"我", "我们", "人们", "大家"} and not re.search(r"[你您]", after):
        before = ""
    after = _ONE.sub(r"\1", after)
    after = _LEARN.sub("学习", _REPAIR.sub("修理", _CHOOSE.sub("选择", after)))
    if not before:
        return after if _DONE_TO.search(after) else re.sub(r"^[把将](?=..)", "", after)
    alone = before.startswith("在") and not re.search(r"[我你他她们]", before)
    if (
        (before.endswith(_PERSONS) and not alone and not before.endswith("吉他"))
        or (after in _ACTS and before.endswith(_ACTORS))
        or (after in _WITH and before.endswith(_TOOLS))
    ):
        return f"{before}|{after}"
    if {after, after.removesuffix("好")} & _VERBS and not _PLACED.match(before) and not _LOCAL.search(before):
        return after + before
    if _SAID.search(before):
        return f"{before}|{after}"
    return f"在{before}{after}" if _LOCAL.search(before) and not _PLACED.match(before) else before + after

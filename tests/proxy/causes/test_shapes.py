"""Clock times, dates and numbers are told apart, in many languages, and nothing else is taken for them."""

import time

import pytest

from services.proxy.causes.hunks import edit_of
from services.proxy.causes.prose import change_of, recognise

CLOCKS = [
    ("Monday 10:41", "Monday 10:42"),
    ("now 2026-01-01 10:00:01", "now 2026-01-01 10:00:09"),
    ("2026-07-09T10:41:00Z", "2026-07-09T10:41:07Z"),
    ("2026-07-09T10:41:00.123456+02:00", "2026-07-09T10:43:12.000001+02:00"),
    ("20260709T104100Z", "20260709T104230Z"),
    ("Time: 9:05 PM UTC", "Time: 12:01 AM UTC"),
    ("It is 10 AM", "It is 11 AM"),
    ("Wednesday, 5 March 2026 at 21:05", "Thursday, 6 March 2026 at 00:01"),
    ("Thu, 09 Jul 2026 10:41:00 +0000", "Thu, 09 Jul 2026 10:42:30 +0000"),
    ("现在是2026年7月9日星期四上午10点41分", "现在是2026年7月9日星期四上午10点42分"),
    ("当前时间：2026-07-09 10:41", "当前时间：2026-07-09 11:02"),
    ("当前时间 10：41", "当前时间 10：42"),
    ("二〇二六年七月九日十点四十一分", "二〇二六年七月九日十点四十二分"),
    ("現在 2026年7月9日 午後3時05分", "現在 2026年7月9日 午後3時06分"),
    ("지금 2026년 7월 9일 오후 3시 5분", "지금 2026년 7월 9일 오후 3시 6분"),
    ("Il est 10h41", "Il est 10h42"),
    ("epoch 1782000000", "epoch 1782000060"),
    ("ts=1782000000123", "ts=1782000060456"),
    ("10:41", "10:41:05"),
    ("Date: 2026-07-09\nTime: 23:59", "Date: 2026-07-10\nTime: 00:01"),
    # On the hour a clock names its minute as well.
    ("Es ist 14 Uhr", "Es ist 15 Uhr"),
    ("It is 3 o'clock", "It is 4 o'clock"),
    ("现在是下午3点", "现在是下午4点"),
    ("2026-07-09_10-41-00", "2026-07-09_10-41-30"),
    ("09/Jul/2026:10:41:00", "09/Jul/2026:10:42:00"),
    ("现在是2026年7月9日10点整", "现在是2026年7月9日10点半"),
]
DATES = [
    ("Today: Thu Jul 9 2026", "Today: Fri Jul 10 2026"),
    ("Today's date: 2026-07-09", "Today's date: 2026-07-10"),
    ("date 2026/7/9", "date 2026/7/10"),
    ("31.12.2026", "01.01.2027"),
    ("7/9/26", "7/10/26"),
    ("July 9th, 2026", "July 10th, 2026"),
    ("Heute ist Montag, 9. Juli 2026", "Heute ist Dienstag, 10. Juli 2026"),
    ("aujourd'hui jeudi 9 juillet 2026", "aujourd'hui vendredi 10 juillet 2026"),
    ("今天是2026年7月9日星期四。", "今天是2026年7月10日星期五。"),
    ("今天是七月九日", "今天是七月十日"),
    ("日期：20260709", "日期：20260710"),
    ("July 2026", "August 2026"),
    ("It is Monday.", "It is Tuesday."),
    ("2026-W48-3", "2026-W48-4"),
    ("2026-W48-7", "2026-W49-1"),
    ("Ngày 2026-12-31", "Ngày 2027-01-01"),
    ("9 de julio de 2026", "10 de julio de 2026"),
    ("2026年7月9日", "2026年7月10日"),
    ("今日は木曜日です", "今日は金曜日です"),
    ("jue., 5 mar. 2026", "vie., 6 mar. 2026"),
    ("Do, 5. März 2026", "Fr, 6. März 2026"),
    ("чт, 5 мар 2026", "пт, 6 мар 2026"),
    ("qui, 5 de março de 2026", "sex, 6 de março de 2026"),
    ("czwartek, 5 marca 2026", "piątek, 6 marca 2026"),
]
COUNTERS = [
    ("used 45% (12k/100k tokens)", "used 46% (13k/100k tokens)"),
    ("Turn 3 of 50", "Turn 4 of 50"),
    ("第3轮", "第4轮"),
    ("已用 45% 的上下文", "已用 46% 的上下文"),
    ("budget left: $1.25", "budget left: $1.10"),
    ("1 message so far", "2 messages so far"),
    ("tokens: 12,345", "tokens: 13,001"),
    ("load 0.75", "load 1.25"),
    ("memory 512MB", "memory 640MB"),
    # Coarser than a day, or finer and yet without a minute: no date, no time, only other numbers.
    ("ISO week 2026-W48", "ISO week 2026-W49"),
    ("Week 48", "Week 49"),
    ("Q3 2026", "Q4 2026"),
    ("Year: 2026", "Year: 2027"),
    ("as of 2026-11-30T14", "as of 2026-11-30T15"),
    ("as of 2026-11-30T23Z", "as of 2026-12-01T00Z"),
    ("up for 14h", "up for 15h"),
    ("5 minutes ago", "6 minutes ago"),
    ("1/3 done", "2/3 done"),
    ("第三轮", "第四轮"),
    ("已有三条消息", "已有四条消息"),
    ("-5 points", "+3 points"),
]
NEITHER = [
    ("Claw v1.2.3", "Claw v1.2.4"),
    ("version 2.1", "version 2.2"),
    ("Python 3.11 is installed", "Python 3.12 is installed"),
    ("版本 3.11", "版本 3.12"),
    ("model gpt-4", "model gpt-5"),
    ("You are claude-sonnet-4-5.", "You are claude-sonnet-4-6."),
    ("model: claude-3-5-sonnet-20240620", "model: claude-3-5-sonnet-20241022"),
    ("model: gpt-4o-2024-08-06", "model: gpt-4o-2024-11-20"),
    ("Qwen3-8B", "Qwen3-14B"),
    ("id 123e4567-e89b-12d3-a456-426614174000", "id 123e4567-e89b-12d3-a456-426614174999"),
    ("commit a1b2c3d", "commit a1b2c4d"),
    ("agent_17", "agent_18"),
    ("You may read files.", "You must read files."),
    ("Be brief.", "Be thorough and kind."),
    ("build 1.0.0-beta", "build 1.0.1-beta"),
    ("claude-cli/2.1.197", "claude-cli/2.1.332"),
    ("你可以读取文件。", "你必须读取文件。"),
    ("C++17", "C++20"),
    ("Windows 10", "Windows 11"),
    ("HTTP/1.1", "HTTP/2"),
    ("run qwen3:8b", "run qwen3:14b"),
    ("192.168.0.1", "192.168.0.2"),
    ("0x1F", "0x20"),
    ("at noon", "at midnight"),
    ("一个文件夹", "这个文件夹"),
    ("May I help?", "Will I help?"),
    ("March on", "Keep on"),
    ("sha 9f86d081", "sha 60303ae2"),
    ("ES2022", "ES2023"),
    ("The user is Sam", "The user is Dom"),
    ("Do this", "So this"),
]


def code(old: str, new: str) -> str | None:
    return recognise(change_of(old.encode(), new.encode(), 0))


@pytest.mark.parametrize(("old", "new"), CLOCKS)
def test_a_time_of_day_on_both_sides_is_a_timestamp(old: str, new: str) -> None:
    text = "You are Claw.\n{}\n" + "Rules. " * 50
    assert code(text.format(old), text.format(new)) == "timestamp"


@pytest.mark.parametrize(("old", "new"), DATES)
def test_a_date_without_a_time_is_a_date_rollover(old: str, new: str) -> None:
    text = "You are Claw.\n{}\n" + "Rules. " * 50
    assert code(text.format(old), text.format(new)) == "date_rollover"


@pytest.mark.parametrize(("old", "new"), COUNTERS)
def test_only_numbers_differing_is_a_counter(old: str, new: str) -> None:
    text = "You are Claw.\n{}\n" + "Rules. " * 50
    assert code(text.format(old), text.format(new)) == "counter"


@pytest.mark.parametrize(("old", "new"), NEITHER)
def test_versions_names_and_words_are_neither_clock_nor_counter(old: str, new: str) -> None:
    text = "You are Claw.\n{}\n" + "Rules. " * 50
    assert code(text.format(old), text.format(new)) is None


@pytest.mark.parametrize(
    ("old", "new", "cause"),
    [
        ("10:41, 5 mails", "10:42, 7 mails", "timestamp"),
        ("2026-11-30, 5 mails", "2026-12-01, 7 mails", "date_rollover"),
        ("5 of 9, 3 left", "6 of 9, 2 left", "counter"),
    ],
)
def test_a_count_right_behind_a_clock_hides_it_not(old: str, new: str, cause: str) -> None:
    assert code(old, new) == cause


def test_an_old_epoch_is_a_number() -> None:
    assert code("id 1000000000", "id 1000000001") == "counter"


def test_two_clocks_far_apart_are_still_one_timestamp() -> None:
    text = "start 10:41\n" + "Rules. " * 300 + "\nend 2026-07-09 {}"
    assert code(text.format("10:41:05").replace("10:41\n", "10:41\n"), text.format("10:42:05")) == "timestamp"


def test_differences_are_found_word_by_word() -> None:
    edit = edit_of(b"a b c d e f g", b"a X c d e Y g")
    assert [(edit.old[h.old_start : h.old_end], edit.new[h.new_start : h.new_end]) for h in edit.hunks] == [
        ("b", "X"),
        ("f", "Y"),
    ]


@pytest.mark.parametrize(
    "filler", ["1", "10:41 ", "2026-", "a1b2 ", "年月日", "Jan 1 ", "<a ", "# x\n", ": ", "\n\n", "é"]
)
def test_hostile_texts_take_linear_time(filler: str) -> None:
    old, new = filler * 20_000 + "x" + filler * 20_000, filler * 20_000 + "y" + filler * 20_000
    before = time.perf_counter()
    code(old, new)
    code(filler * 20_000, ("z" + filler) * 15_000)
    assert time.perf_counter() - before < 10

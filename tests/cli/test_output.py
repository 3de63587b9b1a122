"""How values are printed."""

import datetime as dt
import sys

import click
import pytest

from services.cli.output import cell, print_json, print_rows
from services.cli.times import Moment


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, ""),
        (0, "0"),
        (0.25, "0.25"),
        (12345.6, "12346"),
        ([1, "a"], '[1,"a"]'),
        ("a\tb\x1b", "a b "),
        ("é", "é"),
    ],
)
def test_a_cell_is_one_line_of_text(value: object, text: str):
    """None is empty and zero is zero; nothing breaks the line or reaches the terminal as an escape."""
    assert cell(value) == text


def test_a_narrow_terminal_loses_columns_not_legibility(monkeypatch, capsys):
    """Values stay whole, columns give way in the order given, and those that are missing are named."""
    row = {"time": "11-30 00:01:05", "agent": "opencode", "cause": "tool_reorder", "id": "x" * 36}
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    for width, hidden in ((200, ""), (60, "agent, cause"), (10, "time, agent, cause")):
        monkeypatch.setenv("COLUMNS", str(width))
        print_rows([row], tuple(row), spare=("agent", "cause", "time"))
        captured = capsys.readouterr()
        assert captured.err == (
            f"A wider terminal also shows {hidden}; --json shows everything.\n" if hidden else ""
        )
        if width > 10:
            assert captured.out.count("\n") == 2
            assert "x" * 36 in captured.out
    print_rows([], tuple(row), spare=("agent",))
    assert capsys.readouterr().out


def test_json_is_readable_and_exact(capsys):
    """One document, indented, None as null, times as text."""
    print_json({"a": None, "b": dt.date(2026, 1, 2)})
    assert capsys.readouterr().out == '{\n  "a": null,\n  "b": "2026-01-02"\n}\n'


def test_moments_are_ages_or_iso_times():
    """An age counts back from now; a time without a zone is UTC."""
    age = Moment().convert("2h", None, None)
    assert dt.timedelta(hours=2) <= dt.datetime.now(dt.UTC) - age < dt.timedelta(hours=2, minutes=1)
    assert Moment().convert("2026-01-02", None, None) == dt.datetime(2026, 1, 2, tzinfo=dt.UTC)
    for wrong in ("soon", "999999w", "0001-01-01T00:00:00+14:00"):
        with pytest.raises(click.UsageError):
            Moment().convert(wrong, None, None)

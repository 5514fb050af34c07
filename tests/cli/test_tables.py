"""Tables: whole in a pipe, coloured on a terminal."""

from __future__ import annotations

import click
import pytest

from lucky_transport.cli.tables import echo, show

LONG = "x" * 300


def test_a_pipe_gets_aligned_columns_that_are_never_cut(capsys: pytest.CaptureFixture[str]) -> None:
    show("Things", ("name", "count", "note"), [("a", 1, LONG), ("longer", 22, "")])
    assert capsys.readouterr().out == f"Things\n  name    count  note\n  a       1      {LONG}\n  longer  22\n\n"


def test_a_table_without_rows_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    show("Things", ("name",), [], empty="nothing here")
    assert capsys.readouterr().out == "Things\n  nothing here\n\n"


def test_a_terminal_gets_the_same_table_with_verdicts_in_colour(monkeypatch: pytest.MonkeyPatch) -> None:
    written: list[str] = []
    monkeypatch.setattr(click, "echo", lambda text="": written.append(text))
    show("Things", ("name", "verdict"), [("a [bold]value[/bold]", "fail"), ("b", "ok")])
    assert [click.unstyle(line) for line in written] == [
        "Things",
        "  name                  verdict",
        "  a [bold]value[/bold]  fail",
        "  b                     ok",
        "",
    ]
    assert click.style("fail", fg="red") in written[2]
    assert click.style("ok", fg="green") in written[3]


def test_on_a_terminal_the_last_column_wraps_and_in_a_pipe_it_does_not(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    rows = [("kettle", "one two three four five six seven eight nine ten")]
    show("Things", ("name", "seen"), rows, wraps=True)
    assert len(capsys.readouterr().out.splitlines()) == 4
    monkeypatch.setattr("sys.stdout.isatty", lambda: True, raising=False)
    show("Things", ("name", "seen"), rows, wraps=True)
    lines = click.unstyle(capsys.readouterr().out).splitlines()
    assert [line.rstrip() for line in lines[2:4]] == [
        "  kettle  one two three four five six",
        "          seven eight nine ten",
    ]
    monkeypatch.setenv("COLUMNS", "12")
    show("Things", ("name", "seen"), rows, wraps=True)
    assert len(capsys.readouterr().out.splitlines()) == 4, "no room: the line stays whole"


HOSTILE = "a\n\x1b[31m\u202e\udc80b"
SHOWN = r"a\n\x1b[31m\u202e\udc80b"


def test_names_in_a_table_and_in_a_line_are_spelt_out(capsys: pytest.CaptureFixture[str]) -> None:
    show(f"Things {HOSTILE}", ("name", "state"), [(HOSTILE, "ok"), ("größer µ", "ok")])
    echo(f"removed {HOSTILE}")
    lines = capsys.readouterr().out.splitlines()
    assert [line.split() for line in lines] == [
        ["Things", SHOWN],
        ["name", "state"],
        [SHOWN, "ok"],
        ["größer", "µ", "ok"],
        [],
        ["removed", SHOWN],
    ]

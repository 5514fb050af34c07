"""Tables: whole in a pipe, drawn where a person looks."""

from __future__ import annotations

import sys

import pytest

from lucky_transport.cli.tables import show

LONG = "x" * 300


def test_a_pipe_gets_aligned_columns_that_are_never_cut(capsys: pytest.CaptureFixture[str]) -> None:
    show("Things", ("name", "count", "note"), [("a", 1, LONG), ("longer", 22, "")])
    assert capsys.readouterr().out == f"Things\n  name    count  note\n  a       1      {LONG}\n  longer  22\n\n"


def test_a_table_without_rows_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    show("Things", ("name",), [], empty="nothing here")
    assert capsys.readouterr().out == "Things\n  nothing here\n\n"


def test_a_terminal_gets_a_drawn_table_with_every_word(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    show("Things", ("name", "verdict"), [("a [bold]value[/bold]", "fail"), ("b", "ok")])
    drawn = capsys.readouterr().out
    assert "─" in drawn
    assert "a [bold]value[/bold]" in drawn  # a value is never taken for markup
    assert "fail" in drawn

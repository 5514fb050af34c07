"""`.ci/skips` counts why tests were skipped, and fails where a reason is in no line of its list."""

import os
import re
import runpy
from collections.abc import Callable
from pathlib import Path

import pytest

CI = Path(__file__).parents[1] / ".ci"

LOG = """\
SKIPPED [3] tests/a.py:12: grpcio is not installed: pip install 'x'
SKIPPED [2] tests/b.py: grpcio is not installed: pip install 'x'
SKIPPED [1] tests/c.py:1: one thread has no races
FAILED tests/d.py::test - SKIPPED [9] is no line of a summary
"""

Skips = Callable[..., int]


@pytest.fixture
def skips(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Skips:
    """Run the script on a log of each named step, with a list of reasons."""
    script = runpy.run_path(str(CI / "skips"))

    def run(listed: str, **logs: str) -> int:
        (tmp_path / "reasons").write_text(listed, encoding="utf-8")
        monkeypatch.setitem(script["main"].__globals__, "REASONS", tmp_path / "reasons")
        for step, log in logs.items():
            (tmp_path / step).write_text(log, encoding="utf-8")
        return script["main"]([f"{step}={tmp_path / step}" for step in logs])

    return run


def test_reasons_are_counted_and_pass_where_they_are_listed(skips: Skips, capsys: pytest.CaptureFixture[str]) -> None:
    assert skips("# why\n\nbare: grpcio is not installed.*\none thread has no races\n", bare=LOG) == 0
    found = [line.split(maxsplit=1) for line in capsys.readouterr().out.splitlines()]
    assert found == [
        ["bare:", "6 skipped"],
        ["5", "grpcio is not installed: pip install 'x'"],
        ["1", "one thread has no races"],
    ]


@pytest.mark.parametrize(
    "listed",
    ["one thread has no races", "bare: grpcio.*\none thread has no races", "one thread has no races\ngrpcio"],
    ids=["no line", "another step's", "not the whole reason"],
)
def test_a_reason_in_no_line_fails_and_is_named(skips: Skips, capsys: pytest.CaptureFixture[str], listed: str) -> None:
    assert skips(listed, all=LOG, bare="no test was skipped\n") == 1
    *_, last = capsys.readouterr().out.splitlines()
    assert last == "  all: grpcio is not installed: pip install 'x'"


@pytest.mark.parametrize(("user", "passes"), [(0, False), (1000, True)])
def test_what_needs_root_is_no_reason_for_root(
    skips: Skips, monkeypatch: pytest.MonkeyPatch, user: int, passes: bool
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: user)
    log = "SKIPPED [1] tests/a.py:1: needs root: run it as root\n"
    assert skips("user: needs root: .*", all=log) == (not passes)


def test_each_line_of_the_list_is_read_as_it_is_meant() -> None:
    """Every prefix names a step of `.ci/run`, or a kind of user."""
    run = (CI / "run").read_text(encoding="utf-8")
    known = {"root", "user", *re.findall(r"^ *(?:tests|beside) ([a-z_]+) ", run, re.MULTILINE)}
    lines = (CI / "skip-reasons").read_text(encoding="utf-8").splitlines()
    prefixes = [found[1] for line in lines if (found := re.match(r"([a-z_,-]+): ", line))]
    assert prefixes
    assert not {step for prefix in prefixes for step in prefix.split(",")} - known

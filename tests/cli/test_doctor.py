"""`lucky-transport doctor`: verdicts, remedies and the exit code."""

import json
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from lucky_transport.diagnosis import check, table
from lucky_transport.diagnosis.check import Check, CheckStatus, Roots
from lucky_transport.shm.segment import segment
from lucky_transport.spec.batch_spec import ArraySpec, BatchSpec
from tests.cli.conftest import Run
from tests.support.command import invoke


@pytest.fixture
def rows(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Replaces what the checks find."""

    def replace(*found: Check) -> None:
        monkeypatch.setattr(table, "examine", lambda roots: list(found))

    return replace


FINE = Check("kettle", CheckStatus.OK, "full")
LOSS = Check("teapot", CheckStatus.WARN, "lukewarm", "put the cosy on")
FAULT = Check("cup", CheckStatus.FAIL, "has a hole", "take another")


@pytest.mark.parametrize(("found", "code"), [([FINE], 0), ([FINE, LOSS], 0), ([FINE, LOSS, FAULT], 1), ([FAULT], 1)])
def test_only_a_failed_check_fails_the_command(rows: Callable[..., None], found: list[Check], code: int) -> None:
    rows(*found)
    for arguments in (["doctor"], ["doctor", "--json"]):
        assert invoke(*arguments).exit_code == code


def test_people_get_what_to_do_first_and_the_worst_verdict_on_top(rows: Callable[..., None]) -> None:
    rows(FINE, LOSS, FAULT)
    remedies, _, verdicts = invoke("doctor").output.partition("Checks")
    assert remedies.startswith("What to do")
    assert [line.split()[:2] for line in verdicts.splitlines()[2:5]] == [
        ["cup", "fail"],
        ["teapot", "warn"],
        ["kettle", "ok"],
    ]
    assert "put the cosy on" in remedies
    assert "take another" in remedies
    assert "kettle" not in remedies


def test_scripts_get_every_row_as_json(rows: Callable[..., None]) -> None:
    rows(FINE, FAULT)
    assert json.loads(invoke("doctor", "--json").output) == {
        "ok": False,
        "removed": [],
        "checks": [
            {"name": "kettle", "verdict": "ok", "seen": "full", "remedy": ""},
            {"name": "cup", "verdict": "fail", "seen": "has a hole", "remedy": "take another"},
        ],
    }


@pytest.mark.exhaustive
def test_the_real_checks_run_here_and_each_says_what_it_saw(run: Run) -> None:
    done = run("doctor", "--json")
    report: dict[str, Any] = json.loads(done.stdout)
    assert len(report["checks"]) == len(table.CHECKS)
    assert all(row["seen"] for row in report["checks"])
    assert done.returncode == (0 if report["ok"] else 1)
    assert report["ok"] == all(row["verdict"] != "fail" for row in report["checks"])


def test_fix_removes_what_the_dead_left_and_nothing_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    array = ArraySpec(shape=(1,))
    dead, living = (
        segment.create(name, BatchSpec("toy", 1, array, array), directory=tmp_path) for name in ("dead", "living")
    )
    for made in (dead, living):
        made.publish_ready()
    content = dead.path.read_bytes()
    dead.unlink()
    dead.path.touch(0o600)
    dead.path.write_bytes(content)
    (tmp_path / "a_file_of_somebody_else").write_bytes(b"kept")
    monkeypatch.setattr(check, "Roots", partial(Roots, shm=tmp_path))
    before = _row("stale segments")
    assert (before["verdict"], before["seen"][:6], "--fix" in before["remedy"]) == ("warn", "dead (", True)
    removed = json.loads(invoke("doctor", "--fix", "--json").output)["removed"]
    assert removed == [str(dead.path)]
    assert {path.name for path in tmp_path.iterdir()} == {"a_file_of_somebody_else", "living", "living.lock"}
    assert _row("stale segments")["seen"] == "none among 1 on this host"
    living.unlink()


def _row(name: str) -> dict[str, Any]:
    report = json.loads(invoke("doctor", "--json").output)
    return next(row for row in report["checks"] if row["name"] == name)

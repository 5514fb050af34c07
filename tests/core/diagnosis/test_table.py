"""The table of checks as a whole."""

from __future__ import annotations

import subprocess
import sys

import pytest

from lucky_transport.diagnosis.check import Check, CheckStatus, Roots
from lucky_transport.diagnosis.table import CHECKS, examine, healthy
from tests.support.waiting import PATIENCE_S


def test_every_check_gives_one_row_with_a_name_of_its_own() -> None:
    names = [row.name for row in examine()]
    assert len(set(names)) == len(CHECKS)


@pytest.mark.parametrize("error", [PermissionError("/dev/shm is closed"), ImportError("no numpy")])
def test_a_check_that_cannot_look_is_a_failed_row(error: Exception) -> None:
    def look_at_something(roots: Roots) -> Check:
        raise error

    (row,) = examine(checks=[look_at_something])
    assert (row.name, row.verdict) == ("look at something", CheckStatus.FAIL)
    assert str(error) in row.seen


def test_warnings_are_healthy_and_failures_are_not() -> None:
    loss = Check("teapot", CheckStatus.WARN, "lukewarm", "put the cosy on")
    fault = Check("cup", CheckStatus.FAIL, "has a hole", "take another")
    assert healthy([])
    assert healthy([loss])
    assert not healthy([loss, fault])


@pytest.mark.parametrize(
    ("verdict", "remedy"), [(CheckStatus.OK, "do something"), (CheckStatus.WARN, ""), (CheckStatus.FAIL, "")]
)
def test_what_is_wrong_has_a_remedy_and_what_is_right_has_none(verdict: CheckStatus, remedy: str) -> None:
    with pytest.raises(ValueError, match="teapot"):
        Check("teapot", verdict, "seen", remedy)


WITHOUT_NUMPY = """
import sys
sys.modules["numpy"] = None
from lucky_transport.diagnosis.table import examine
rows = {row.name: row for row in examine()}
assert rows["python"].verdict == "ok", rows
print(rows["space"].verdict, rows["space"].seen)
"""


@pytest.mark.exhaustive
def test_a_broken_installation_is_still_diagnosed() -> None:
    done = subprocess.run([sys.executable, "-c", WITHOUT_NUMPY], capture_output=True, text=True, timeout=PATIENCE_S)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("fail could not be looked at: ModuleNotFoundError: import of numpy halted")

"""After a signal handler has raised, or a task was cancelled, at whatever moment, a connection goes on."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.endurance.interrupts import KINDS

pytestmark = pytest.mark.slow

#: Of each kind of work; more than 2000 in all.
_INTERRUPTS = 100
#: A machine with other work to do takes a tenth of this.
_PATIENCE_S = 240


@pytest.mark.parametrize("kind", KINDS)
def test_work_goes_on_after_every_interrupt(kind: str) -> None:
    if "stub" in kind or "grpc" in kind:
        pytest.importorskip("grpc")
    command = [sys.executable, "-m", "tests.endurance.interrupts", "--kind", kind, "--interrupts", str(_INTERRUPTS)]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=_PATIENCE_S, check=False)
    assert ran.stdout.startswith(f"{kind}: usable after each of {_INTERRUPTS} interrupts"), ran.stderr[-3000:]
    assert ran.returncode == 0, ran.stderr[-3000:]

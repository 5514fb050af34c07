"""Each program that is installed here gives the same under `lucky-transport run`, and all its calls go over shm."""

from __future__ import annotations

import sys

import pytest

from tests.programs.programs import Program, programs
from tests.programs.sides import run_program

pytest.importorskip("grpc")


@pytest.mark.parametrize("program", programs(), ids=lambda program: program.case)
def test_a_program_gives_the_same_over_shared_memory(program: Program) -> None:
    if program.missing:
        pytest.skip(f"{program.name}: no {', '.join(program.missing)} here; see python -m tests.programs --help")
    over_tcp = run_program(program, sys.executable, shm=False)
    over_shm = run_program(program, sys.executable, shm=True)
    assert over_shm.equal == over_tcp.equal
    assert over_tcp.equal
    assert over_shm.over_shm
    assert over_shm.over_grpc == 0

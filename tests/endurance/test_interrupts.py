"""After a signal handler has raised, or a task was cancelled, at whatever moment, a connection goes on."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.endurance import interrupts
from tests.endurance.interrupts import KINDS
from tests.support.forked_programs import Programs

pytestmark = pytest.mark.slow

#: Of each kind of work; more than 2000 in all.
_INTERRUPTS = 100
#: A machine with other work to do takes a tenth of this.
_PATIENCE_S = 240


@pytest.fixture(scope="module")
def forks() -> Iterator[Programs]:
    """Starts programs as forks of a Python that has imported what each kind of work needs."""
    needed = ["lucky_transport.env.vector_env", "lucky_transport.sessions.client", "lucky_transport_shm.client"]
    if find_spec("grpc"):
        needed += ["lucky_transport_grpc.client", "lucky_transport_stubs.client.channel"]
    with Programs(*needed, folder=Path(__file__).parents[2]) as programs:
        yield programs


@pytest.mark.parametrize("kind", KINDS)
def test_work_goes_on_after_every_interrupt(kind: str, forks: Programs) -> None:
    if "stub" in kind or "grpc" in kind:
        pytest.importorskip("grpc")
    command = [interrupts.__file__, "--kind", kind, "--interrupts", str(_INTERRUPTS)]
    with forks.start(command) as program:
        printed, said = program.communicate(timeout=_PATIENCE_S)
    assert printed.startswith(f"{kind}: usable after each of {_INTERRUPTS} interrupts"), said[-3000:]
    assert program.returncode == 0, said[-3000:]

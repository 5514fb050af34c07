"""After a signal handler has raised, or a task was cancelled, at whatever moment, a connection goes on."""

import signal
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from importlib.util import find_spec
from pathlib import Path

import pytest

from lucky_transport.process import unique_name
from tests.endurance import interrupts
from tests.endurance.interrupts import KINDS, num_envs
from tests.support.forked_programs import Programs

#: Of each kind of work; more than 2000 in all.
_INTERRUPTS = 60
#: A machine with other work to do takes a tenth of this.
_PATIENCE_S = 240


@pytest.fixture(scope="module")
def forks() -> Iterator[Programs]:
    """Starts programs as forks of a Python that has imported what each kind of work needs, and its engine."""
    needed = ["lucky_transport.env.vector_env", "lucky_transport.sessions.client", "lucky_transport_shm.client"]
    needed += ["lucky_transport.cli.main", "lucky_transport.serving", "lucky_transport_shm.server"]
    if find_spec("grpc"):
        needed += ["lucky_transport_grpc.client", "lucky_transport_grpc.server", "lucky_transport_stubs.client.channel"]
    with Programs(*needed, folder=Path(__file__).parents[3]) as programs:
        yield programs


@contextmanager
def served(kind: str, forks: Programs) -> Iterator[str]:
    """Serve the engine of that kind of work, in a process of its own; gives its endpoint."""
    engine, scheme, _ = KINDS[kind]
    endpoint = "grpc://127.0.0.1:0" if scheme == "grpc" else f"{scheme}://{unique_name()}"
    command = ["-m", "lucky_transport", "serve", engine, "--endpoint", endpoint, "--num-envs", str(num_envs(kind))]
    with forks.start(command) as server:
        word, _, found = server.stdout.readline().strip().partition(" ")
        assert word == "ready", server.communicate(timeout=_PATIENCE_S)
        yield found
        server.send_signal(signal.SIGTERM)
        printed, said = server.communicate(timeout=_PATIENCE_S)
        said = [line for line in said.splitlines() if "still waiting for" not in line]  # a loaded machine is no fault
        assert (printed, said) == ("", [])
        # a loaded machine may not end an interpreter within the time that `serve` gives it
        assert server.returncode in (0, -signal.SIGALRM)


@pytest.mark.parametrize("kind", KINDS)
def test_work_goes_on_after_every_interrupt(kind: str, forks: Programs) -> None:
    if "stub" in kind or "grpc" in kind:
        pytest.importorskip("grpc")
    command = [interrupts.__file__, "--kind", kind, "--interrupts", str(_INTERRUPTS)]
    with nullcontext("") if kind.endswith("in process") else served(kind, forks) as endpoint:
        with forks.start([*command, "--endpoint", endpoint]) as program:
            printed, said = program.communicate(timeout=_PATIENCE_S)
        assert printed.startswith(f"{kind}: usable after each of {_INTERRUPTS} interrupts"), said[-3000:]
        assert program.returncode == 0, said[-3000:]

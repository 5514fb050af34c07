"""The suite of kits, ready to run: the example engines of `schema/kits`, compiled here, beside the same in Python.

The kits lie in the source tree and are no part of a wheel. What cannot be compiled here is told in a note.
"""

from __future__ import annotations

import shutil
import subprocess
import tempfile
import weakref
from collections.abc import Generator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lucky_transport import api
from lucky_transport.config import load_settings
from lucky_transport.env.vector_env import VectorEnv
from lucky_transport.errors import EngineFailed, RemoteProtocolError
from lucky_transport.process import unique_name
from lucky_transport.transport import Transport
from lucky_transport_migration.bench.measuring import Effort, Look, Measurement, closed_loop, measure_loop
from lucky_transport_migration.bench.plan import Case, Plan
from lucky_transport_migration.bench.processes import ended
from lucky_transport_migration.bench.run import PreparedSuite
from lucky_transport_migration.bench.suite import CallCell
from lucky_transport_migration.bench.suites.kits import BATCH, KIT_PATHS, KITS, cases_of, plan_of_kits
from lucky_transport_migration.bench.workloads.limits import ping_pong
from lucky_transport_migration.paths import ConnectedEngine, find_path

__all__ = ["KIT_SOURCES", "Kit", "compiled", "measure_case", "missing_paths", "prepare"]

KIT_SOURCES = Path(__file__).parents[4] / "schema" / "kits"
_COMPILE_S = 120.0
_OBSERVATIONS, _ACTIONS = 3, 1  # of a pendulum, float32
_CIRCLE = "whether cosine and sine lie on the unit circle"
_CIRCLE_TOLERANCE = 1e-4
_LIMIT_ROUNDS = 50_000
_NOTES = (
    "every engine computes the same pendulums, bit for bit; the client is Python in every row but the native spin's",
    "the native spin is two C loops that copy a pendulum's action and frame and do nothing else",
)


@dataclass(frozen=True, slots=True)
class Kit:
    """An example engine: its source, the command that compiles it to `{program}`, both in the kits' folder, and what
    runs that. The engine takes a name and a number of envs.
    """

    source: str
    command: tuple[str, ...]
    runner: tuple[str, ...] = ()

    @property
    def programs(self) -> tuple[str, ...]:
        """The programs that it needs."""
        return (self.command[0], *self.runner[:1])


# As the kits' READMEs say: without contracted multiplications all languages compute the same bits.
_FLAGS = ("-O3", "-ffp-contract=off", "-fno-trapping-math", "-Ic", "-I..", "-o", "{program}")
_KITS = {
    "kit-c": Kit("c/examples/pendulum.c", ("cc", "-std=c11", *_FLAGS, "c/examples/pendulum.c")),
    "kit-cpp": Kit("cpp/examples/pendulum.cpp", ("c++", "-std=c++17", "-Icpp", *_FLAGS, "cpp/examples/pendulum.cpp")),
    "kit-csharp": Kit(
        "csharp/examples/pendulum/Pendulum.cs",
        ("mcs", "-unsafe", "-out:{program}", "-recurse:csharp/src/*.cs", "-recurse:csharp/examples/pendulum/*.cs"),
        ("mono", "-O=all"),
    ),
}


def prepare(transports: Sequence[str], waits: Sequence[str] | None, *, rounds: int, quick: bool) -> PreparedSuite:
    """Return the suite for a command line; what cannot be measured here is left out and told in a note.

    Raises ConfigError for transports that are not of this suite. Running it raises what compiling and starting the
    engines raises, and RemoteProtocolError when an exchange was lost.
    """
    plan = plan_of_kits(transports, waits, rounds=rounds, quick=quick)
    missing = missing_paths()
    programs = _Programs()
    return PreparedSuite(
        KITS,
        plan,
        plan.with_twins(cases_of(plan, missing), "shm" if "kit-c" in missing else "kit-c"),
        lambda case: measure_case(case, plan, programs),
        notes=[*dict.fromkeys(missing.values()), *_NOTES],
    )


def missing_paths() -> dict[str, str]:
    """Return the paths that cannot be measured on this machine, each with the reason."""
    missing: dict[str, str] = {}
    for path, kit in _KITS.items():
        absent = [program for program in kit.programs if shutil.which(program) is None]
        if not (KIT_SOURCES / kit.source).is_file():
            missing[path] = f"no {path}: there is no {KIT_SOURCES / kit.source}; run it from the source tree"
        elif absent:
            missing[path] = f"no {path}: there is no {' and no '.join(absent)}"
    if shutil.which("cc") is None:
        missing["limit"] = "no native spin: there is no cc"
    return missing


def compiled(path: str, folder: Path) -> list[str]:
    """Compile the example engine of a kit to `folder` and return the command that runs it.

    Raises EngineFailed with the compiler's words.
    """
    kit, program = _KITS[path], folder / path
    command = [part.format(program=program) for part in kit.command]
    done = subprocess.run(command, cwd=KIT_SOURCES, capture_output=True, text=True, timeout=_COMPILE_S, check=False)
    if done.returncode:
        raise EngineFailed(f"{kit.source} does not compile: {done.stdout}{done.stderr}", backend="bench")
    return [*kit.runner, str(program)]


class _Programs:
    """The compiled engines, each compiled once; they go with this object."""

    def __init__(self) -> None:
        self._folder = tempfile.mkdtemp(prefix="lucky_kits_")
        weakref.finalize(self, shutil.rmtree, self._folder, ignore_errors=True)
        self._commands: dict[str, list[str]] = {}

    def command(self, path: str) -> list[str]:
        """Return the command that runs a kit's engine."""
        if path not in self._commands:
            self._commands[path] = compiled(path, Path(self._folder))
        return self._commands[path]


@contextmanager
def _served(path: str, num_envs: int, wait: str | None, programs: _Programs) -> Generator[tuple[Transport, int | None]]:
    """A client of a running engine, and the engine's process id."""
    if path not in KIT_PATHS:
        with ConnectedEngine(find_path(path), KITS.engine, num_envs, wait=wait) as link:
            yield link.transport, link.pid
        return
    name = unique_name()
    with ExitStack() as stack:
        process = subprocess.Popen([*programs.command(path), name, str(num_envs)], stdout=subprocess.DEVNULL)
        stack.callback(ended, process)
        stack.callback(process.terminate)
        transport = api.open_transport(f"shm://{name}", load_settings({"wait": wait}))
        yield stack.enter_context(transport), process.pid


def measure_case(case: Case, plan: Plan, programs: _Programs) -> Mapping[CallCell, Measurement]:
    """Return the measurements of a case's cells; its processes have ended when this returns."""
    if case.path == "limit":
        return {cell: _spin(plan.effort) for cell in case.cells}
    wait = plan.main_wait("shm")
    found: dict[CallCell, Measurement] = {}
    for cell in case.cells:
        num_envs = 1 if cell.kind == "exchange" else BATCH
        with _served(case.path, num_envs, wait, programs) as (transport, pid):
            if cell.kind == "exchange":
                found[cell] = _exchanges(transport, plan.effort, pid)
            else:
                with closing(VectorEnv(transport)) as env:
                    env.reset(seed=0)
                    env.action_space.seed(0)
                    look = Look.at_steps(f"{_CIRCLE} in its first and last row", _check_circle)
                    found[cell] = closed_loop(env.step, env.action_space.sample(), plan.effort, pid, look)
    return found


def _check_circle(observations: NDArray[Any]) -> None:
    """Cosine and sine of a pendulum's angle lie on the unit circle; looked at in the first and the last row."""
    for at in (0, -_OBSERVATIONS):
        cosine, sine = observations.item(at), observations.item(at + 1)
        if not abs(cosine * cosine + sine * sine - 1.0) < _CIRCLE_TOLERANCE:
            raise RemoteProtocolError(f"{cosine} and {sine} are no pendulum's cosine and sine: a frame was torn")


def _exchanges(transport: Transport, effort: Effort, pid: int | None) -> Measurement:
    actions = np.zeros(transport.spec.action_shape, transport.spec.action.dtype)
    return measure_loop(transport.step, actions, effort, pid, Look.at_frames(_CIRCLE, _check_circle))


def _spin(effort: Effort) -> Measurement:
    rounds = min(_LIMIT_ROUNDS, effort.most)
    return ping_pong("spin", rounds, 4 * _ACTIONS, 4 * _OBSERVATIONS)

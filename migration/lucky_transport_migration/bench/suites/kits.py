"""The suite of kits: one engine, the pendulum, in every language that an engine can be written in.

    exchange    one env: `send` and `recv` over shared memory, between two spinning C loops, over gRPC
    step        4,096 envs: VectorEnv.step with copies, the pendulums' own work in it

The client is Python in every row but the C loops'. The example engines of `schema/kits` are compiled here; the kits lie
in the source tree and are no part of a wheel. What cannot be compiled here is told in a note.
"""

from __future__ import annotations

import shutil
import subprocess
import tempfile
import weakref
from collections.abc import Callable, Container, Generator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lucky_transport import api
from lucky_transport.config import load_settings
from lucky_transport.env.vector_env import VectorEnv
from lucky_transport.errors import ConfigError, EngineFailed, RemoteProtocolError, plural
from lucky_transport.process import ChildProcess, unique_name
from lucky_transport.transport import Transport
from lucky_transport_migration.bench.limits import ping_pong
from lucky_transport_migration.bench.measuring import Look, Measurement, measure_loop
from lucky_transport_migration.bench.run import PreparedSuite
from lucky_transport_migration.bench.suite import BenchSuite, Case, Cell, Plan, SpeedTarget, marks
from lucky_transport_migration.paths import ConnectedEngine, find_path

KIT_SOURCES = Path(__file__).parents[4] / "schema" / "kits"
BATCH = 4096
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


#: What makes the command that runs the engine of a path.
_Programs = Callable[[str], list[str]]
KIT_PATHS = tuple(_KITS)
#: In the order they are measured; `kit-python` is served as any engine.
_PATHS = ("kit-python", *KIT_PATHS, "limit", "grpc-batch")


def _row(path: str, kind: str = "exchange") -> dict[str, Any]:
    return marks(kind, path, size=1 if kind == "exchange" else BATCH, wait="spin" if path == "limit" else None)


_C, _SPIN = _row("kit-c"), _row("limit")
_TARGETS: tuple[SpeedTarget, ...] = (
    SpeedTarget("C engine: exchange over the native spin, p50", "at most", 2, "times", _C, _SPIN),
    SpeedTarget("C engine: exchange over the native spin, p99.9", "at most", 3, "times", _C, _SPIN, "us.p999"),
    SpeedTarget("C# engine: exchange over the native spin, p50", "at most", 3, "times", _row("kit-csharp"), _SPIN),
    SpeedTarget(
        "C engine: exchange, gRPC batch service over ours", "at least", 300, "times", _row("grpc-batch"), _C,
    ),
    SpeedTarget(
        f"C++ engine: env-steps through VectorEnv.step, {plural(BATCH, 'env')}", "at least", 10, "million/s",
        float(BATCH), _row("kit-cpp", "step"),
    ),
)  # fmt: skip

KITS = BenchSuite(
    name="kits",
    title="Engines in other languages",
    engine="pendulum",
    titles={"exchange": "pendulum, one exchange", "step": "pendulum, VectorEnv.step(copy=True)"},
    targets=_TARGETS,
)


def cases_of(plan: Plan, missing: Container[str] = ()) -> list[Case]:
    """Return the cases of one round, one an engine, without the paths that cannot be measured here."""
    cases: list[Case] = []
    for path in plan.paths:
        wait = "spin" if path == "limit" else None
        cells = [Cell("exchange", path, wait, size=1), *([] if wait else [Cell("step", path, wait, size=BATCH)])]
        cases += [] if path in missing else [Case(path, wait, tuple(cells))]
    return cases


def plan_of_kits(transports: Sequence[str], waits: Sequence[str] | None, *, rounds: int, quick: bool) -> Plan:
    """Return the plan of a command line; without `grpc` among the transports nothing is measured over it.

    Raises ConfigError for other transports than these two and where shm is not among them.
    """
    if "shm" not in transports or not set(transports) <= {"grpc", "shm"}:
        raise ConfigError(
            f"--between {','.join(transports)}: the engines of this suite are served over shm",
            hint="write --between grpc,shm or --between shm",
        )
    paths = [path for path in _PATHS if path != "grpc-batch" or "grpc" in transports]
    options: dict[str, Any] = {"num_envs": BATCH}
    ours = "kit-python" if "kit-c" in missing_paths() else "kit-c"
    return Plan.of(paths, (waits or ("adaptive",))[:1], options, rounds=rounds, quick=quick, ours=ours)


def prepare(transports: Sequence[str], waits: Sequence[str] | None, *, rounds: int, quick: bool) -> PreparedSuite:
    """Return the suite for a command line; what cannot be measured here is left out and told in a note.

    Raises ConfigError for transports that are not of this suite. Running it raises what compiling and starting the
    engines raises, and RemoteProtocolError when an exchange was lost.
    """
    plan = plan_of_kits(transports, waits, rounds=rounds, quick=quick)
    missing = missing_paths()
    programs = _programs()
    return PreparedSuite(
        KITS,
        plan,
        plan.with_twins(cases_of(plan, missing)),
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


def _programs() -> _Programs:
    """Return what compiles each kit's engine once and returns its command; the engines go with this function."""
    folder = tempfile.mkdtemp(prefix="lucky_kits_")
    command = cache(lambda path: compiled(path, Path(folder)))
    weakref.finalize(command, shutil.rmtree, folder, ignore_errors=True)
    return command


@contextmanager
def _served(path: str, num_envs: int, wait: str | None, programs: _Programs) -> Generator[tuple[Transport, int | None]]:
    """A client of a running engine, and the engine's process id."""
    if path not in KIT_PATHS:
        way = find_path("shm" if path == "kit-python" else path)
        with ConnectedEngine(way, KITS.engine, num_envs, wait=wait) as link:
            yield link.transport, link.pid
        return
    name = unique_name()
    with ExitStack() as stack:
        process = ChildProcess(f"engine {path}", [*programs(path), name, str(num_envs)])
        stack.callback(process.stop)
        transport = api.open_transport(f"shm://{name}", load_settings({"wait": wait}))
        yield stack.enter_context(transport), process.pid


def measure_case(case: Case, plan: Plan, programs: _Programs) -> Mapping[Cell, Measurement]:
    """Return the measurements of a case's cells; its processes have ended when this returns."""
    if case.path == "limit":
        rounds = min(_LIMIT_ROUNDS, plan.effort.most)
        return {cell: ping_pong("spin", rounds, 4 * _ACTIONS, 4 * _OBSERVATIONS) for cell in case.cells}
    found: dict[Cell, Measurement] = {}
    for cell in case.cells:
        with _served(case.path, cell.size or 1, plan.waits[0], programs) as (transport, pid):
            if cell.kind == "exchange":
                actions = np.zeros(transport.spec.action_shape, transport.spec.action.dtype)
                look = Look.at_frames(_CIRCLE, _check_circle)
                found[cell] = measure_loop(transport.step, actions, plan.effort, pid, look)
                continue
            with closing(VectorEnv(transport)) as env:
                env.reset(seed=0)
                env.action_space.seed(0)
                look = Look.at_steps(f"{_CIRCLE} in its first and last row", _check_circle)
                found[cell] = measure_loop(env.step, env.action_space.sample(), plan.effort, pid, look)
    return found


def _check_circle(observations: NDArray[Any]) -> None:
    """Cosine and sine of a pendulum's angle lie on the unit circle; looked at in the first and the last row."""
    for at in (0, -_OBSERVATIONS):
        cosine, sine = observations.item(at), observations.item(at + 1)
        if not abs(cosine * cosine + sine * sine - 1.0) < _CIRCLE_TOLERANCE:
            raise RemoteProtocolError(f"{cosine} and {sine} are no pendulum's cosine and sine: a frame was torn")

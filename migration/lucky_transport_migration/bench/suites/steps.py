"""The suite of steps: exchanges and VectorEnv.step of whole batches.

    steps      exchanges and VectorEnv.step over every path and waiting strategy, at each num_envs
    payload    exchanges of one env whose frame grows, with an engine that copies it
    paced      VectorEnv.step so many times a second, as a control loop steps
    limit      two native processes that spin or sleep on one word and copy as many bytes

All cells of a case share its processes and its connection; a comparison is between cases of one round.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal

from lucky_transport.errors import plural
from lucky_transport_migration.bench.plan import OPEN_LOOP_HZ, Case, Plan
from lucky_transport_migration.bench.suite import Suite
from lucky_transport_migration.bench.targets import SpeedTarget
from lucky_transport_migration.paths import label
from lucky_transport_migration.units import bytes_text

__all__ = [
    "COPY",
    "IDLE",
    "PACED_ENVS",
    "STEPPING",
    "STEP_TARGETS",
    "Place",
    "StepCell",
    "StepPlan",
    "StepSuite",
    "cases_of",
    "offered",
    "plan_of",
    "step_title",
]

IDLE, COPY, STEPPING = "toy:idle", "toy:copy", "toy"
#: The batch of the paced rows, with an engine that is chosen here; any other has the sizes of its plan.
PACED_ENVS = 16
_PACED_HZ = (50, 200, 1000)
_WORK = {COPY: ", engine copies its frame", STEPPING: ", toy engine at work"}
_FLOAT_BYTES = 4
#: Observations of one frame, in bytes, from a handful of joints to an image.
_PAYLOADS = (64, 4096, 262_144, 4_194_304)

Place = Literal["copy", "inplace"]


@dataclass(frozen=True, slots=True)
class StepCell:
    """One row's key. `actions` and `observations`: copied, or written and read in place. `copy`: VectorEnv's.

    `frame_bytes`: observations of so many bytes instead of the plan's `obs_size` per env.
    """

    level: Literal["transport", "env"]
    path: str
    wait: str | None
    num_envs: int
    engine: str
    actions: Place = "copy"
    observations: Place = "copy"
    copy: bool | None = None
    rate_hz: int | None = None
    frame_bytes: int | None = None


def step_title(row: Mapping[str, Any]) -> str:
    """Return what all rows of a group have in common: everything but the path. `row`: a cell's fields by name."""
    what = "one exchange" if row["level"] == "transport" else f"VectorEnv.step(copy={row['copy']})"
    if row["actions"] == "inplace":
        what += " in place"
    frame = "" if row["frame_bytes"] is None else f", frame of {bytes_text(row['frame_bytes'])}"
    rate = f", {row['rate_hz']} steps a second" if row["rate_hz"] else ""
    return f"{plural(row['num_envs'], 'env')}, {what}{_WORK.get(row['engine'], '')}{frame}{rate}"


@dataclass(frozen=True, slots=True, kw_only=True)
class StepSuite(Suite[StepCell]):
    """Everything is compared with the reference path in its main waiting strategy.

    The one exception is named in the row: legacy gRPC is measured with an engine that does nothing, also where the
    reference's engine copies its frame, which favours legacy gRPC.
    """

    def title_of(self, cell: StepCell) -> str:
        return step_title(asdict(cell))

    def kind_of(self, cell: Any) -> Any:
        return replace(cell, path="", wait=None, observations="copy")

    def name_of(self, cell: StepCell, other: StepCell | None = None) -> str:
        if cell.path == "limit":
            return f"the native {cell.wait} limit"
        same_path = other is not None and cell.path == other.path
        return f"{label(cell.path)} ({cell.wait})" if same_path and cell.wait else label(cell.path)

    def pairs(self, cells: Iterable[StepCell], plan: Plan) -> Iterator[tuple[StepCell, StepCell]]:
        cells = [cell for cell in cells if cell.actions != "inplace"]
        for cell in cells:
            if cell.path == plan.reference and cell.wait == plan.main_wait(cell.path):
                for other in cells:
                    if other != cell and _comparable(cell, other):
                        yield cell, other

    def columns(self, cell: StepCell) -> dict[str, Any]:
        return {"peer": "native" if cell.path == "limit" else "python"}

    def ratio_columns(self, other: StepCell) -> dict[str, Any]:
        return {"to_engine": other.engine}


def _comparable(cell: StepCell, other: StepCell) -> bool:
    wanted = replace(cell, path=other.path, wait=other.wait, observations=other.observations)
    if other.path == "grpc" and cell.engine == COPY and cell.frame_bytes is None:
        wanted = replace(wanted, engine=IDLE)
    return other == wanted


def offered(cells: Iterable[StepCell], *, zero_copy: bool) -> list[StepCell]:
    """Return what of these cells a transport can do, which has frames in place or not."""
    if zero_copy:
        return list(cells)
    return [replace(one, observations="copy") for one in cells if one.actions == "copy" and one.copy is not False]


@dataclass(frozen=True, kw_only=True)
class StepPlan(Plan):
    """What the command line asked for. `options` go to the engine's constructor."""

    engine: str
    num_envs: tuple[int, ...]
    payloads: tuple[int, ...] = ()
    rates: tuple[int, ...] = ()

    def options_of(self, frame_bytes: int | None) -> dict[str, Any]:
        """Return the engine's options for a frame of that size, None for the plan's own."""
        return self.options if frame_bytes is None else self.options | {"obs_size": frame_bytes // _FLOAT_BYTES}


def cases_of(plan: StepPlan) -> list[Case]:
    """Return the cases of one round: steps, those of one num_envs together, then the payloads, what is paced, and
    the machine's limits. Cells are those of transports that have frames in place, see `offered`.
    """
    cases = [case for num_envs in plan.num_envs for case in _steps(plan, num_envs) if case.cells]
    for size in plan.payloads:
        cells = [_cell(path, plan.main_wait(path), 1, COPY, frame_bytes=size) for path in plan.paths]
        cases += [Case(cell.path, cell.wait, (cell,), f"1 env, frame of {plural(size, 'byte')}") for cell in cells]
    cases += _paced(plan)
    return [*cases, *([Case("limit", None, tuple(_limit_cells(plan)))] if plan.engine == IDLE else [])]


def _steps(plan: StepPlan, num_envs: int) -> Iterator[Case]:
    engines = (IDLE, COPY) if plan.engine == IDLE else (plan.engine,)
    for engine in engines:
        for path in plan.paths:
            if path == "grpc" and engine == COPY:
                continue  # each of its Steps would copy the whole batch's frame: the engine's cost, not the wire's
            for wait in plan.waits_of(path) if engine != COPY else (plan.main_wait(path),):
                yield _case(plan, path, wait, num_envs, engine)
    if num_envs == max(plan.num_envs) and engines[0] == IDLE:
        for path in dict.fromkeys((*plan.paths, "inproc")):  # in process: the engine's work alone
            if path != "grpc":  # thousands of legacy Steps of an engine at work say nothing new
                yield _case(plan, path, plan.main_wait(path), num_envs, STEPPING)


def _case(plan: StepPlan, path: str, wait: str | None, num_envs: int, engine: str) -> Case:
    """Return one engine's case: of an engine at work the env alone; of the strategies that do not stand for their path
    the plain exchange alone, since they differ nowhere else.
    """
    key = (path, wait, num_envs, engine)
    at_a_rate = engine == IDLE and path != "inproc" and num_envs == min(plan.num_envs)
    cells = [_cell(*key)] if engine in (IDLE, COPY) else []
    cells += [_cell(*key, rate_hz=OPEN_LOOP_HZ)] if at_a_rate else []
    if wait == plan.main_wait(path):
        cells += [_cell(*key, actions="inplace")] if engine == IDLE else []
        cells += [_cell(*key, level="env", observations="copy", copy=True), _cell(*key, level="env", copy=False)]
    return Case(path, wait, tuple(cells), plural(num_envs, "env"))


def _paced(plan: StepPlan) -> Iterator[Case]:
    """Yield what is stepped at a rate, in process too; not over the legacy Step, one call an env."""
    chosen = plan.engine == IDLE
    for engine in (STEPPING, IDLE) if chosen else (plan.engine,):
        for num_envs in (PACED_ENVS,) if chosen else plan.num_envs:
            for path in dict.fromkeys((*plan.paths, "inproc")):
                key = (path, plan.main_wait(path), num_envs, engine)
                step = {"level": "env", "observations": "copy", "copy": True}
                cells = tuple(_cell(*key, **step, rate_hz=rate) for rate in plan.rates)
                if cells and path != "grpc":
                    yield Case(path, key[1], cells, f"{plural(num_envs, 'env')} at a rate")


def _limit_cells(plan: StepPlan) -> list[StepCell]:
    """Return the machine's own limits: sleeping at the smallest size, spinning at every one."""
    spinning = [_cell("limit", "spin", n, IDLE) for n in plan.num_envs]
    copying = [_cell("limit", "spin", n, COPY, observations="copy") for n in plan.num_envs]
    return [_cell("limit", "block", min(plan.num_envs), IDLE), *spinning, *copying]


def _cell(path: str, wait: str | None, num_envs: int, engine: str, **more: Any) -> StepCell:
    """Return the cell of an exchange whose observations are read in place, but for `more`."""
    key = {"path": path, "wait": wait, "num_envs": num_envs, "engine": engine}
    return StepCell(**{"level": "transport", "observations": "inplace", **key, **more})


def plan_of(
    engine: str,
    transports: Sequence[str],
    num_envs: Sequence[int] | None,
    waits: Sequence[str] | None,
    options: Mapping[str, Any] | None = None,
    *,
    rounds: int,
    quick: bool,
    rates: Sequence[int] | None = None,
) -> StepPlan:
    """Return the plan of a command line; `grpc` stands for the legacy Steps and for the batch service.

    A quick plan has one round of short loops, and fewer sizes, strategies and rates where none were asked for.
    """
    payloads: Sequence[int] = ()
    if engine == IDLE:
        payloads = _PAYLOADS[:1] if quick else _PAYLOADS
        rates = rates or (_PACED_HZ[1:2] if quick else _PACED_HZ)
    if options is None:
        options = {"obs_size": 100, "act_size": 12} if engine.partition(":")[0] == "toy" else {}
    num_envs = num_envs or ((1, 64) if quick else (1, 64, 4096))
    waits = waits or (("adaptive",) if quick else ("adaptive", "block", "spin"))
    paths: list[str] = []
    for name in transports:
        paths += [path for path in (("grpc", "grpc-batch") if name == "grpc" else (name,)) if path not in paths]
    return StepPlan.of(
        paths,
        waits,
        options,
        rounds=rounds,
        quick=quick,
        engine=engine,
        num_envs=tuple(num_envs),
        payloads=tuple(payloads),
        rates=tuple(rates or ()),
    )


def _exchange(path: str, num_envs: int, engine: str = IDLE, **more: Any) -> dict[str, Any]:
    return _row("transport", path, num_envs, engine) | more


def _env(path: str, num_envs: int, engine: str = IDLE) -> dict[str, Any]:
    return _row("env", path, num_envs, engine) | {"copy": True}


def _row(level: str, path: str, num_envs: int, engine: str) -> dict[str, Any]:
    marks = {"suite": "step", "level": level, "path": path, "num_envs": num_envs, "engine": engine}
    marks |= {"rate_hz": None, "actions": "copy", "frame_bytes": None}
    return marks | ({"wait": "adaptive"} if path == "shm" else {})


def _paced_at(rate_hz: int, column: str, goal: float, unit: str) -> SpeedTarget:
    ours, theirs = (_env(path, PACED_ENVS, STEPPING) | {"rate_hz": rate_hz} for path in ("shm", "inproc"))
    what = f"{PACED_ENVS} envs of toy, {rate_hz} steps a second, {column}"
    word = "minus" if unit == "µs" else "over"
    return SpeedTarget(f"{what}: shm {word} in process", "at most", goal, unit, ours, theirs, f"us.{column}")


_SHM, _AT_50_HZ = _exchange("shm", 1), _exchange("shm", 1, rate_hz=50)
STEP_TARGETS: tuple[SpeedTarget, ...] = (
    SpeedTarget("1 env, exchange: legacy gRPC over shm", "at least", 400, "times", _exchange("grpc", 1), _SHM),
    SpeedTarget("1 env, exchange: batch service over shm", "at least", 200, "times", _exchange("grpc-batch", 1), _SHM),
    SpeedTarget(
        "1 env, exchange: shm over the native two-process spin", "at most", 3, "times",
        _SHM, _exchange("limit", 1, wait="spin"),
    ),
    SpeedTarget(
        "1 env: what VectorEnv.step(copy=True) adds to the exchange", "at most", 1.5, "µs", _env("shm", 1), _SHM,
    ),
    SpeedTarget(
        "1 env, VectorEnv.step: legacy gRPC over shm", "at least", 100, "times", _env("grpc", 1), _env("shm", 1),
    ),
    SpeedTarget(
        "4096 envs, VectorEnv.step(copy=True), toy engine at work: shm over in-process", "at most", 1.25, "times",
        _env("shm", 4096, STEPPING), _env("inproc", 4096, STEPPING),
    ),
    SpeedTarget(
        "4096 envs, exchange, engine copies its frame: batch service over shm", "at least", 10, "times",
        _exchange("grpc-batch", 4096, COPY), _exchange("shm", 4096, COPY),
    ),
    SpeedTarget(
        "4096 envs, exchange: 4096 legacy Steps over shm whose engine copies its frame", "at least", 1000, "times",
        _exchange("grpc", 4096), _exchange("shm", 4096, COPY),
    ),
    SpeedTarget(
        "in place: 4096 envs over 1 env", "at most", 1.5, "times",
        _exchange("shm", 4096, actions="inplace"), _exchange("shm", 1, actions="inplace"),
    ),
    _paced_at(200, "p50", 30, "µs"),
    _paced_at(200, "p99", 1.5, "times"),
    SpeedTarget(
        "50 steps a second: adaptive minus block", "at most", 20, "µs", _AT_50_HZ, _AT_50_HZ | {"wait": "block"},
    ),
)  # fmt: skip

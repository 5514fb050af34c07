"""The suite of steps: exchanges and VectorEnv.step of whole batches.

    exchange    one exchange, over every path and waiting strategy, at each num_envs; also 50 a second
    in place    the same, actions written and observations read where they lie
    step, view  VectorEnv.step, with copies and without
    frame       one exchange of one env whose frame grows, with an engine that copies it
    limit       two native processes that spin or sleep on one word and copy as many bytes

The form of a cell is its engine. What an engine of known content must show is looked at in every exchange, outside the
timed part: a stamp at both ends of the frame. All of the frame is looked at around every loop.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lucky_transport.env.vector_env import VectorEnv
from lucky_transport.errors import RemoteProtocolError, plural
from lucky_transport.spec.composite import unpack
from lucky_transport.transport import Transport
from lucky_transport_migration.bench.limits import measure_limit
from lucky_transport_migration.bench.measuring import Look, Measurement, measure_loop
from lucky_transport_migration.bench.run import PreparedSuite
from lucky_transport_migration.bench.suite import OPEN_LOOP_HZ, BenchSuite, Case, Cell, Plan, SpeedTarget, marks
from lucky_transport_migration.paths import ConnectedEngine, find_path
from lucky_transport_migration.units import bytes_text

IDLE, COPY, STEPPING = "toy:idle", "toy:copy", "toy"
#: The batch of the paced rows, with an engine that is chosen here; any other has the sizes of its plan.
PACED_ENVS = 16
_PACED_HZ = (50, 200, 1000)
_FLOAT_BYTES = 4
#: Observations of one frame, in bytes, from a handful of joints to an image.
_FRAMES = (64, 4096, 262_144, 4_194_304)
_STAMP = "the stamps at both ends of its observations"


def _paced(rate_hz: int, column: str, goal: float, unit: str) -> SpeedTarget:
    ours, theirs = (marks("step", path, STEPPING, PACED_ENVS, rate_hz=rate_hz) for path in ("shm", "inproc"))
    what, word = f"{PACED_ENVS} envs of toy, {rate_hz} steps a second, {column}", "minus" if unit == "µs" else "over"
    return SpeedTarget(f"{what}: shm {word} in process", "at most", goal, unit, ours, theirs, f"us.{column}")


def _exchange(path: str, num_envs: int, engine: str = IDLE, **more: Any) -> dict[str, Any]:
    return marks("exchange", path, engine, num_envs, **more)


_SHM, _AT_50_HZ = _exchange("shm", 1), _exchange("shm", 1, rate_hz=OPEN_LOOP_HZ)
_STEP, _LEGACY_STEP = marks("step", "shm", IDLE, 1), marks("step", "grpc", IDLE, 1)
STEP_TARGETS: tuple[SpeedTarget, ...] = (
    SpeedTarget("1 env, exchange: legacy gRPC over shm", "at least", 400, "times", _exchange("grpc", 1), _SHM),
    SpeedTarget("1 env, exchange: batch service over shm", "at least", 200, "times", _exchange("grpc-batch", 1), _SHM),
    SpeedTarget(
        "1 env, exchange: shm over the native two-process spin", "at most", 3, "times",
        _SHM, _exchange("limit", 1, wait="spin"),
    ),
    SpeedTarget("1 env: what VectorEnv.step(copy=True) adds to the exchange", "at most", 1.5, "µs", _STEP, _SHM),
    SpeedTarget("1 env, VectorEnv.step: legacy gRPC over shm", "at least", 100, "times", _LEGACY_STEP, _STEP),
    SpeedTarget(
        "4096 envs, VectorEnv.step(copy=True), toy engine at work: shm over in-process", "at most", 1.25, "times",
        marks("step", "shm", STEPPING, 4096), marks("step", "inproc", STEPPING, 4096),
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
        marks("in place", "shm", IDLE, 4096), marks("in place", "shm", IDLE, 1),
    ),
    _paced(200, "p50", 30, "µs"),
    _paced(200, "p99", 1.5, "times"),
    SpeedTarget(
        "50 steps a second: adaptive minus block", "at most", 20, "µs", _AT_50_HZ, _AT_50_HZ | {"wait": "block"},
    ),
)  # fmt: skip


def suite_of(engine: str) -> BenchSuite:
    """Return what the suite says of itself with this engine."""
    return BenchSuite(
        name="step",
        title=f"Transports of {engine}",
        engine=engine,
        titles={
            "exchange": "One exchange{what}",
            "in place": "One exchange in place{what}",
            "step": "VectorEnv.step(copy=True){what}",
            "view": "VectorEnv.step(copy=False){what}",
            "frame": "One exchange, 1 env, frame copied by its engine",
        },
        forms={IDLE: "", COPY: ", engine copies its frame", STEPPING: ", toy engine at work", engine: ""},
        sizes={"frame": bytes_text},
        targets=STEP_TARGETS,
        lead=("exchange", "step"),
        more=("in place", "view"),
    )


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
) -> Plan:
    """Return the plan of a command line; `grpc` stands for the legacy Steps and for the batch service.

    A quick plan has one round of short loops, and fewer sizes, strategies and rates where none were asked for. Frames
    of growing size and rates that were not asked for are those of an engine that does no work of its own.
    """
    idle = engine == IDLE
    if options is None:
        options = {"obs_size": 100, "act_size": 12} if engine.partition(":")[0] == "toy" else {}
    paths: list[str] = []
    for name in transports:
        paths += [path for path in (("grpc", "grpc-batch") if name == "grpc" else (name,)) if path not in paths]
    return Plan.of(
        paths,
        waits or (("adaptive",) if quick else ("adaptive", "block", "spin")),
        options,
        rounds=rounds,
        quick=quick,
        engine=engine,
        num_envs=tuple(num_envs or ((1, 64) if quick else (1, 64, 4096))),
        rates=tuple(rates or (_PACED_HZ[1:2] if quick else _PACED_HZ) if idle else rates or ()),
        frames=(_FRAMES[:1] if quick else _FRAMES) if idle else (),
    )


def cases_of(plan: Plan) -> list[Case]:
    """Return the cases of one round. Cells are those of transports that have frames in place."""
    if plan.engine != IDLE:
        return [*_at_work(plan, plan.engine, plan.num_envs), *_at_rates(plan, (plan.engine,), plan.num_envs)]
    return [
        *_exchanges(plan),
        *_copied(plan),
        *_at_work(plan, STEPPING, (max(plan.num_envs),)),
        *_at_rates(plan, (STEPPING, IDLE), (PACED_ENVS,)),
        *_limits(plan),
    ]


def _exchanges(plan: Plan) -> Iterator[Case]:
    """Yield the exchanges with an engine that does nothing; the env in the strategy that stands for its path alone."""
    for num_envs in plan.num_envs:
        for path in plan.paths:
            for wait in plan.waits_of(path):
                kinds = ["exchange"]
                kinds += ["in place", "step", "view"] if wait == plan.main_wait(path) else []
                cells = [Cell(kind, path, wait, IDLE, num_envs) for kind in kinds]
                if path != "inproc" and num_envs == min(plan.num_envs):
                    cells.insert(1, Cell("exchange", path, wait, IDLE, num_envs, OPEN_LOOP_HZ))
                yield Case(path, wait, tuple(cells), plural(num_envs, "env"))


def _copied(plan: Plan) -> Iterator[Case]:
    """Yield what an engine that copies its frame is measured in: batches, and frames of growing size.

    Batches not over legacy gRPC: each of its Steps would copy the whole batch's frame, which is the engine's cost.
    """
    for num_envs in plan.num_envs:
        for path in plan.paths:
            if path != "grpc":
                cell = Cell("exchange", path, plan.main_wait(path), COPY, num_envs)
                yield Case(path, cell.wait, (cell,), f"{plural(num_envs, 'env')}, copied")
    for size in plan.frames:
        for path in plan.paths:
            cell = Cell("frame", path, plan.main_wait(path), COPY, size)
            yield Case(path, cell.wait, (cell,), f"1 env, frame of {plural(size, 'byte')}")


def _at_work(plan: Plan, engine: str, sizes: Sequence[int]) -> Iterator[Case]:
    """Yield the steps of an engine that computes; one chosen here is measured in process too, the engine's work alone,
    and not over legacy gRPC, where thousands of Steps say nothing new.
    """
    for num_envs in sizes:
        for path in plan.paths if engine == plan.engine else dict.fromkeys((*plan.paths, "inproc")):
            if path != "grpc" or engine == plan.engine:
                wait = plan.main_wait(path)
                cells = tuple(Cell(kind, path, wait, engine, num_envs) for kind in ("step", "view"))
                yield Case(path, wait, cells, f"{plural(num_envs, 'env')} at work")


def _at_rates(plan: Plan, engines: Sequence[str], sizes: Sequence[int]) -> Iterator[Case]:
    """Yield what is stepped at a rate, in process too; not over the legacy Step, one call an env."""
    for engine in engines if plan.rates else ():
        for num_envs in sizes:
            for path in dict.fromkeys((*plan.paths, "inproc")):
                if path != "grpc":
                    wait = plan.main_wait(path)
                    cells = tuple(Cell("step", path, wait, engine, num_envs, rate) for rate in plan.rates)
                    yield Case(path, wait, cells, f"{plural(num_envs, 'env')} at a rate")


def _limits(plan: Plan) -> Iterator[Case]:
    """Yield the machine's own limits: sleeping at the smallest size, spinning at every one."""
    sleeping = Cell("exchange", "limit", "block", IDLE, min(plan.num_envs))
    spinning = [Cell("exchange", "limit", "spin", engine, n) for engine in (IDLE, COPY) for n in plan.num_envs]
    yield Case("limit", None, (sleeping, *spinning))


def prepare(plan: Plan) -> PreparedSuite:
    """Return the suite for a plan.

    Running it raises what starting and driving the engines raises, and RemoteProtocolError when frames were lost or
    torn.
    """
    notes: list[str] = []
    if plan.engine != IDLE:
        notes.append(f"{plan.engine} computes, so only VectorEnv rows are given: they hold the engine's time too")
    else:
        notes.append("where the engine does nothing no frame is copied over shared memory; all others send theirs")

    def measure(case: Case) -> Mapping[Cell, Measurement]:
        if case.path != "limit":
            return measure_case(case, plan)
        found = {cell: measure_limit(cell, plan) for cell in case.cells}
        notes.extend(why for why in found.values() if isinstance(why, str))
        return {cell: one for cell, one in found.items() if not isinstance(one, str)}

    return PreparedSuite(suite_of(plan.engine), plan, plan.with_twins(cases_of(plan)), measure, notes)


def measure_case(case: Case, plan: Plan) -> dict[Cell, Measurement]:
    """Return the measurements of those cells that the transport offers; its processes have ended when this returns.

    Raises RemoteProtocolError when frames were lost or hold what they must not hold.
    """
    one = case.cells[0]  # all of them have engine and size in common
    size, is_frame = one.size or 1, one.kind == "frame"
    options = plan.options | {"obs_size": size // _FLOAT_BYTES} if is_frame else plan.options
    num_envs = 1 if is_frame else size
    with ConnectedEngine(find_path(case.path), one.what, num_envs, seed=0, options=options, wait=case.wait) as link:
        transport = link.transport
        # Written, as a policy's are: pages never written are one page of zeros, which stays in the cache.
        actions = np.full(transport.spec.action_shape, 0, transport.spec.action.dtype)
        offered = [
            cell for cell in case.cells if transport.capabilities.zero_copy or cell.kind not in ("in place", "view")
        ]
        # An env closes its transport when it is collected, so each lives to the end.
        envs = {
            cell: VectorEnv(transport, copy=cell.kind == "step") for cell in offered if cell.kind in ("step", "view")
        }
        found: dict[Cell, Measurement] = {}
        for cell in offered:
            own = transport.actions if cell.kind == "in place" else actions
            found[cell] = _measure(transport, envs.get(cell), cell, own, plan, link.pid)
        for env in envs.values():
            env.close()
        return found


def _measure(
    transport: Transport, env: VectorEnv | None, cell: Cell, actions: NDArray[Any], plan: Plan, pid: int | None
) -> Measurement:
    """Time the exchanges of a cell, or the steps of an env, and look at whole frames around them."""
    given, step = actions, transport.step
    if env is not None:
        env.reset(seed=0)
        parts = env.batch_spec.action_parts
        given, step = unpack(actions, parts) if parts else actions, env.step
    if cell.what not in (IDLE, COPY):
        return measure_loop(step, given, plan.effort, pid, rate_hz=cell.rate_hz)
    first = transport.step(actions)
    start, check = first.seq, _check_whole(cell.what, first.observations)
    look = (Look.at_frames if env is None else Look.at_steps)(_STAMP, check)
    found = measure_loop(step, given, plan.effort, pid, look, cell.rate_hz)
    last = transport.step(actions)
    check(last.observations)
    _check_whole(cell.what, last.observations)
    made, expected = last.seq - start, found.samples_ns.size + found.warmup_ns.size + 1
    if made != expected:  # no episode ends, so every step is one exchange
        raise RemoteProtocolError(f"{made} frames for {expected} steps: exchanges were lost or doubled")
    return found


def _check_whole(engine: str, observations: NDArray[Any]) -> Callable[[NDArray[Any]], None]:
    """Look at a whole frame of toy:idle or toy:copy; return what looks at the stamps of those that follow it.

    Both stamps of toy:copy are the number of its step, its other values 0.5; toy:idle leaves its zeros.
    """
    values = observations.reshape(-1)
    due, grows = float(values[0]), float(engine == COPY)
    if values[-1] != due or not (values[1:-1] == grows / 2).all():
        raise RemoteProtocolError(f"observations of {engine} hold other values than {grows / 2}: a frame was torn")

    def check(observations: NDArray[Any]) -> None:
        nonlocal due
        due += grows
        first, last = observations.item(0), observations.item(-1)
        if not first == last == due:
            raise RemoteProtocolError(
                f"observations of {engine}: stamps {first} and {last}, not {due}: a frame was torn"
            )

    return check

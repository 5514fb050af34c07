"""The suite of stubs: gRPC code as it is, over real gRPC and over shared memory.

    unary      a call of about 100 bytes each way, its handler in the pool or marked inline, flat out or 50, 100 and
               1,000 times a second, beside as many bytes through two pipes
    stream     messages of 1 kB from the server, as fast as they come
    callers    16 threads of one client on one channel, each calling flat out
    bytes      a call that sends 1 kB to 64 MB and gets them back
    futures    20 calls that are started, then waited for
    channel    the unary call, each time on a new channel, which is closed behind it
    absent     the same where there is no server, until it fails
    aio        the unary call once more, awaited one at a time or 20 gathered; channel and server are those of asyncio
    uvloop     the same on event loops of uvloop, where it is installed
    program    the unary call of a whole program to another, over shm both under `lucky-transport run`

All cells of a case share its processes and its channel; a comparison is between cases of one round. What is compared
runs the same stub, the same servicer and the same loop; channel and server differ alone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from lucky_transport.errors import ConfigError, MissingExtra
from lucky_transport.foreign_code import import_problem
from lucky_transport_migration.bench.rows import Measured
from lucky_transport_migration.bench.run import PreparedSuite
from lucky_transport_migration.bench.stubs.programs import Job, measure_echo, measure_pair
from lucky_transport_migration.bench.suite import (
    BYTES,
    OPEN_LOOP_HZ,
    BenchSuite,
    Case,
    Cell,
    Plan,
    SpeedTarget,
    call_cases,
    decimal_text,
    marks,
)

#: Calls a second of the paced rows.
_RATES = (OPEN_LOOP_HZ, 100, 1000)
_TCP, _SHM = marks("unary", "grpc-tcp", "pool"), marks("unary", "shm", "pool")
#: What is measured, how many times as long it takes over TCP at least, and the marks of its rows.
_TIMES = (
    ("unary, pool, adaptive", 15, "unary", "pool", None),
    ("server streaming of 1 kB messages", 20, "stream", "", None),
    ("16 concurrent callers", 8, "callers", "", None),
    ("200 kB there and back", 5, "bytes", "", 200_000),
    ("1 MB there and back", 6, "bytes", "", 1_000_000),
    ("64 MB there and back", 2.5, "bytes", "", 64_000_000),
    ("20 futures at once", 10, "futures", "", None),
    ("a channel for each call", 1.3, "channel", "", None),
    ("a call to an absent server", 1, "absent", "", None),
    ("asyncio, one at a time", 6, "aio", "", None),
    ("asyncio, 20 at a time", 5, "aio", "together", None),
)
STUB_TARGETS: tuple[SpeedTarget, ...] = (
    *(
        SpeedTarget(
            f"{name}: gRPC over TCP over shm", "at least", goal, "times",
            marks(kind, "grpc-tcp", what, size), marks(kind, "shm", what, size),
        )
        for name, goal, kind, what, size in _TIMES
    ),
    SpeedTarget(
        "unary, pool, adaptive: gRPC over a unix socket over shm", "at least", 12, "times",
        marks("unary", "grpc-unix", "pool"), _SHM,
    ),
    SpeedTarget("unary, pool, block: gRPC over TCP over shm", "at least", 4, "times", _TCP, _SHM | {"wait": "block"}),
    SpeedTarget(
        "CPU seconds per 10,000 calls, both processes: shm over gRPC over TCP", "at most", 0.2, "times",
        _SHM, _TCP, "cpu_us_each",
    ),
    *(
        SpeedTarget(
            f"unary, pool, {rate} a second: shm over two pipes", "at most", 8, "times",
            _SHM | {"rate_hz": rate}, marks("unary", "pipes", "pool", rate_hz=rate),
        )
        for rate in _RATES
    ),
)  # fmt: skip

STUBS = BenchSuite(
    name="stubs",
    title="Existing gRPC code over shared memory",
    engine="a servicer that answers with what it was asked",
    titles={
        "unary": "unary call of a generated stub, handler {what}",
        "stream": "server streaming of 1 kB messages, per message",
        "callers": "16 concurrent callers of one channel, per call",
        "bytes": "unary call of a generated stub with bytes there and back",
        "futures": "20 futures of one channel at once, all of them",
        "channel": "unary call on a channel of its own",
        "absent": "unary call to an absent server, until it fails",
        "aio": "unary call of a generated stub, asyncio on both sides{what}",
        "uvloop": "unary call of a generated stub, uvloop on both sides{what}",
        "program": "unmodified program and its server, per call",
    },
    forms={"together": ", 20 at a time, all of them"},
    sizes={"bytes": decimal_text},
    targets=STUB_TARGETS,
)

_NOTES = (
    "all ways have the same stub, servicer and loop, grpc's default options, and a pool of 16 threads at the server; "
    "calls carry no deadline",
    "a handler marked inline runs on the thread that reads the calls; to gRPC the mark means nothing",
    "CPU counts all threads of both processes, so also what spins or works while the caller waits",
)
#: A transport as the command line names it -> the ways by which its stubs can be reached.
_WAYS = {"grpc": ("grpc-tcp", "grpc-unix"), "shm": ("shm",)}
_OPTIONS = {"text_chars": 100, "item_bytes": 1000, "callers": 16}

_CALLS = [
    *(("unary", "pool", None, rate) for rate in (None, *_RATES)),
    *(("unary", "inline", None, rate) for rate in (None, OPEN_LOOP_HZ)),
    *((kind, "", None, None) for kind in ("stream", "callers", "futures", "channel", "absent")),
]
_AIO = [(form, None, None) for form in ("", "together")]


def cases_of(plan: Plan) -> list[Case]:
    """Return the cases of one round."""
    return [
        *call_cases(plan, _CALLS, in_each_wait="unary"),
        *call_cases(plan, BYTES, "sizes"),
        Case("pipes", None, tuple(Cell("unary", "pipes", what="pool", rate_hz=rate) for rate in _RATES)),
        *call_cases(plan, [("aio", *row) for row in _AIO], "asyncio"),
        *(() if import_problem("uvloop") else call_cases(plan, [("uvloop", *row) for row in _AIO], "uvloop")),
        *call_cases(plan, [("program", "", None, None)], "program", paths=("grpc-tcp", "shm")),  # connect to a port
    ]


def plan_of_stubs(transports: Sequence[str], waits: Sequence[str] | None, *, rounds: int, quick: bool) -> Plan:
    """Return the plan of a command line; `grpc` stands for loopback TCP and for a unix socket.

    A quick plan has one round of short loops. Raises ConfigError for a transport that carries no stubs.
    """
    for name in transports:
        if name not in _WAYS:
            raise ConfigError(
                f"transport {name!r} carries no calls of gRPC stubs", hint=f"write --between {','.join(_WAYS)}"
            )
    paths = [way for name in transports for way in _WAYS[name]]
    waits = waits or (("adaptive",) if quick else ("adaptive", "block"))
    return Plan.of(paths, waits, _OPTIONS, rounds=rounds, quick=quick, budget_s=0.5)


def prepare(transports: Sequence[str], waits: Sequence[str] | None, *, rounds: int, quick: bool) -> PreparedSuite:
    """Return the suite for a command line. A quick one has one round of short loops.

    Raises ConfigError for a transport that carries no stubs, MissingExtra without gRPC. Running it raises what starting
    a pair raises, and RemoteProtocolError when an answer or item was lost, doubled or torn.
    """
    plan = plan_of_stubs(transports, waits, rounds=rounds, quick=quick)
    if why := import_problem("grpc"):
        raise MissingExtra(f"bench --suite stubs needs gRPC ({why})", hint="pip install 'lucky-transport[grpc]'")
    cases = plan.with_twins(cases_of(plan))
    return PreparedSuite(STUBS, plan, cases, lambda case: measure_stubs(case, plan), notes=_NOTES)


def measure_stubs(case: Case, plan: Plan) -> Mapping[Cell, Measured]:
    """Return the measurements of a case's cells; its processes have ended when this returns."""
    job = Job(case, plan.effort, plan.options)
    if case.what == "program":
        (cell,) = case.cells
        return {cell: measure_echo(job)}
    return measure_pair(job)

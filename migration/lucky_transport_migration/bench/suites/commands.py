"""The suite of commands, against an engine that answers at once.

    unary      one small typed call, its handler inline or in the pool, flat out or at 50 Hz
    stream     messages of 1 kB, none skipped, as fast as they come
    images     1280x720 RGBA, prepared beforehand, looked at or copied
    bytes      a typed call that sends 1 kB to 64 MB and gets them back, from the client that steps

All cells of a case share its processes and its connection; a comparison is between cases of one round. What is
compared differs in transport and waiting strategy alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from lucky_transport.client import Client
from lucky_transport.messages import SetStateRequest
from lucky_transport.messages.methods import method
from lucky_transport_migration.bench.flow import measure_images, measure_messages
from lucky_transport_migration.bench.measuring import Look, measure_bytes, measure_calls
from lucky_transport_migration.bench.rows import Measured
from lucky_transport_migration.bench.run import PreparedSuite
from lucky_transport_migration.bench.suite import (
    BYTES,
    OPEN_LOOP_HZ,
    SIZES,
    BenchSuite,
    Case,
    Cell,
    Plan,
    SpeedTarget,
    call_cases,
    decimal_text,
    marks,
)
from lucky_transport_migration.paths import ConnectedEngine, find_path

#: The call that the echo engine answers with the bytes that it is given.
_ECHO = method("/lucky_transport.v1.StateService/SetState")
#: Bytes that both sides take: the longest message with what is around it.
_LONGEST = 2 * max(SIZES)
_ASKED = Look("the number that it was asked with", lambda answer: answer.beams)


def _over_shm(name: str, goal: float, kind: str, what: str = "", wait: str = "adaptive") -> SpeedTarget:
    """Return the target that gRPC takes so many times as long; of images those of the promised size."""
    options = {"width": 1280, "height": 720} if kind == "images" else {}
    ours = marks(kind, "shm", what, wait=wait)
    return SpeedTarget(name, "at least", goal, "times", marks(kind, "grpc", what), ours, options=options)


COMMAND_TARGETS: tuple[SpeedTarget, ...] = (
    _over_shm("small typed call, inline, adaptive: gRPC over shm", 15, "unary", "inline"),
    _over_shm("small typed call, pool, adaptive: gRPC over shm", 15, "unary", "pool"),
    _over_shm("small typed call, inline, block: gRPC over shm", 4, "unary", "inline", "block"),
    _over_shm("small typed call, pool, block: gRPC over shm", 4, "unary", "pool", "block"),
    _over_shm("stream of 1 kB messages: gRPC over shm", 20, "stream"),
    _over_shm("1280x720 RGBA as views: gRPC over shm", 10, "images", "view"),
    _over_shm("1280x720 RGBA as copies: gRPC over shm", 8, "images", "copy"),
)

COMMANDS = BenchSuite(
    name="commands",
    title="Commands, streams and images",
    engine="echo",
    titles={
        "unary": "small typed call, handler {what}",
        "stream": "stream of 1 kB messages, per message",
        "images": "RGBA images, per image, as {what}",
        "bytes": "typed call with bytes there and back",
    },
    sizes={"bytes": decimal_text},
    targets=COMMAND_TARGETS,
)

#: Of the images and messages; `--quick` makes them small.
_OPTIONS: dict[str, Any] = {"width": 1280, "height": 720, "item_bytes": 1000}
_QUICK_OPTIONS: dict[str, Any] = {"width": 64, "height": 36, "item_bytes": 1000}
_CALLS = [
    *(("unary", what, None, rate) for what in ("inline", "pool") for rate in (None, OPEN_LOOP_HZ)),
    *(("stream", "", None, None), ("images", "view", None, None), ("images", "copy", None, None)),
]


def cases_of(plan: Plan) -> list[Case]:
    """Return the cases of one round."""
    return [*call_cases(plan, _CALLS, in_each_wait="unary"), *call_cases(plan, BYTES, "sizes")]


def plan_of_commands(paths: Sequence[str], waits: Sequence[str] | None, *, rounds: int, quick: bool) -> Plan:
    """Return the plan of a command line. A quick plan has one round of short loops and small images."""
    waits = waits or (("adaptive",) if quick else ("adaptive", "block"))
    options = _QUICK_OPTIONS if quick else _OPTIONS
    return Plan.of(paths, waits, options, rounds=rounds, quick=quick, budget_s=0.5)


def prepare(paths: Sequence[str], waits: Sequence[str] | None, *, rounds: int, quick: bool) -> PreparedSuite:
    """Return the suite for a command line. A quick one has one round of short loops and small images.

    Running it raises what starting the engines raises, and RemoteProtocolError when an answer or item was lost,
    doubled or torn.
    """
    plan = plan_of_commands(paths, waits, rounds=rounds, quick=quick)
    note = (
        f"images are {plan.options['width']}x{plan.options['height']} and prepared beforehand: an engine that renders "
        "them takes longer than any transport"
    )
    cases = plan.with_twins(cases_of(plan))
    return PreparedSuite(COMMANDS, plan, cases, lambda case: measure_commands(case, plan), [note])


def measure_commands(case: Case, plan: Plan) -> dict[Cell, Measured]:
    """Return the measurements of a case's cells; its processes have ended when this returns.

    Raises RemoteProtocolError when an answer or an item is not the one that was due.
    """
    with ConnectedEngine(
        find_path(case.path), COMMANDS.engine, 1, options=plan.options, wait=case.wait, max_message_bytes=_LONGEST
    ) as link:
        client = Client(link.transport)
        return {cell: measure(client, cell, plan, link.pid) for cell in case.cells}


def measure(client: Client, cell: Cell, plan: Plan, pid: int | None) -> Measured:
    """Return the measurement of one cell, over a connection to an echo engine.

    Raises RemoteProtocolError when an answer or an item is not the one that was due.
    """
    if cell.kind == "unary":
        call = client.lidar.get_beam_count if cell.what == "inline" else client.lidar.get_beam_angles
        return measure_calls(call, _ASKED, plan.effort, pid, cell.rate_hz)
    if cell.kind == "stream":
        return measure_messages(client, int(plan.options["item_bytes"]), plan.effort, pid)
    if cell.kind == "bytes":
        echo, size = client.transport.call, cell.size or 0
        send = lambda value: echo(_ECHO, SetStateRequest(0, value))  # noqa: E731
        return measure_bytes(send, "observation", size, plan.effort, pid)
    return measure_images(client, cell.what, plan.effort, pid)

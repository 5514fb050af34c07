"""The suite of commands, ready to run: each case is a fresh pair of processes, all of which have ended after it."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from lucky_transport.client import Client
from lucky_transport.errors import RemoteProtocolError
from lucky_transport.messages import SetStateRequest, SetStateResponse
from lucky_transport.messages.methods import method
from lucky_transport_migration.bench.measuring import Effort, Look, Measurement, measure_loop
from lucky_transport_migration.bench.plan import Case, Plan
from lucky_transport_migration.bench.rows import Measured
from lucky_transport_migration.bench.run import PreparedSuite
from lucky_transport_migration.bench.suite import SIZES, CallCell
from lucky_transport_migration.bench.suites.commands import COMMANDS, cases_of, plan_of_commands
from lucky_transport_migration.bench.workloads.flow import measure_images, measure_messages
from lucky_transport_migration.paths import ConnectedEngine, find_path

__all__ = ["measure", "measure_commands", "prepare"]

#: The call that the echo engine answers with the bytes that it is given.
_ECHO = method("/lucky_transport.v1.StateService/SetState")
_NUMBER_BYTES = 8
#: Bytes that both sides take: the longest message with what is around it.
_LONGEST = 2 * max(SIZES.values())
_NOTHING = np.zeros(0)  # the loops hand their "actions" to the step; a call brings its own request


def prepare(paths: Sequence[str], waits: Sequence[str] | None, *, rounds: int, quick: bool) -> PreparedSuite:
    """Return the suite for a command line. A quick one has one round of short loops and small images.

    Running it raises what starting the engines raises, and RemoteProtocolError when an answer or item was lost,
    doubled or torn.
    """
    plan = plan_of_commands(paths, waits, rounds=rounds, quick=quick)
    return PreparedSuite(
        COMMANDS,
        plan,
        plan.with_twins(cases_of(plan)),
        lambda case: measure_commands(case, plan),
        notes=[
            f"images are {plan.options['width']}x{plan.options['height']} and prepared beforehand: an engine that "
            "renders them takes longer than any transport"
        ],
    )


def measure_commands(case: Case, plan: Plan) -> dict[CallCell, Measured]:
    """Return the measurements of a case's cells; its processes have ended when this returns.

    Raises RemoteProtocolError when an answer or an item is not the one that was due.
    """
    with ConnectedEngine(
        find_path(case.path), COMMANDS.engine, 1, options=plan.options, wait=case.wait, max_message_bytes=_LONGEST
    ) as link:
        client = Client(link.transport)
        return {cell: measure(client, cell, plan, link.pid) for cell in case.cells}


def measure(client: Client, cell: CallCell, plan: Plan, pid: int | None) -> Measured:
    """Return the measurement of one cell, over a connection to an echo engine.

    Raises RemoteProtocolError when an answer or an item is not the one that was due.
    """
    if cell.kind == "unary":
        return _measure_unary(client, cell, plan.effort, pid)
    if cell.kind == "stream":
        return measure_messages(client, int(plan.options["item_bytes"]), plan.effort, pid)
    if cell.kind == "bytes":
        return _measure_bytes(client, SIZES[cell.what], plan.effort, pid)
    return measure_images(client, cell.what, plan.effort, pid)


def _measure_unary(client: Client, cell: CallCell, effort: Effort, pid: int | None) -> Measurement:
    """Time a call whose answer is the number it was asked with, so that none can be taken for another."""
    call: Callable[[int], Any] = client.lidar.get_beam_count if cell.what == "inline" else client.lidar.get_beam_angles
    numbers = itertools.count(1)

    def ask(_: Any) -> Any:
        return call(next(numbers))

    look = Look("the number that it was asked with", lambda answer: answer.beams)
    return measure_loop(ask, _NOTHING, effort, pid, look, cell.rate_hz)


def _measure_bytes(client: Client, size: int, effort: Effort, pid: int | None) -> Measurement:
    """Time a call that is answered with its own bytes, so that none can be taken for another."""
    numbers, padding = itertools.count(1), bytes(size - _NUMBER_BYTES)

    def send(_: Any) -> SetStateResponse:
        return client.transport.call(
            _ECHO, SetStateRequest(0, next(numbers).to_bytes(_NUMBER_BYTES, "little") + padding)
        )

    def check(answer: SetStateResponse) -> int:
        if len(answer.observation) != size:
            raise RemoteProtocolError(f"an answer of {len(answer.observation)} bytes to a request of {size}")
        return int.from_bytes(answer.observation[:_NUMBER_BYTES], "little")

    return measure_loop(send, _NOTHING, effort, pid, Look("its number and its length", check))

"""Measuring one setup once: a fresh pair of processes, all its cells, everything ended again."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np

from lucky_transport.client import Client
from lucky_transport.errors import RemoteProtocolError
from lucky_transport_migration.bench.call_suite.cell import CallCell
from lucky_transport_migration.bench.call_suite.rows import Measured
from lucky_transport_migration.bench.commands.cells import COMMANDS, CodecSetup, CommandPlan, CommandSetup
from lucky_transport_migration.bench.commands.codec_cost import measure_codec
from lucky_transport_migration.bench.commands.flow import measure_images, measure_messages
from lucky_transport_migration.bench.commands.training import measure_training
from lucky_transport_migration.bench.measuring import Effort, Measurement, closed_loop, open_loop
from lucky_transport_migration.paths import ConnectedEngine, find_path

__all__ = ["measure_commands"]

_NOTHING = np.zeros(0)  # the loops hand their "actions" to the step; a call brings its own request


def measure_commands(setup: CommandSetup | CodecSetup, plan: CommandPlan) -> dict[CallCell, Measured]:
    """Return the measurements of a setup's cells; its processes have ended when this returns.

    Raises RemoteProtocolError when an answer or an item is not the one that was due.
    """
    if isinstance(setup, CodecSetup):
        return {
            CallCell("codec", path, None, direction): samples
            for (path, direction), samples in measure_codec(plan.effort).items()
        }
    path = find_path(setup.path)
    with ConnectedEngine(path, COMMANDS.engine, 1, options=plan.options_of(setup), wait=setup.wait) as link:
        client = Client(link.transport)
        return {cell: _measure(client, cell, plan, link.pid) for cell in setup.cells()}


def _measure(client: Client, cell: CallCell, plan: CommandPlan, pid: int | None) -> Measured:
    if cell.kind == "unary":
        return _measure_unary(client, cell, plan.effort, pid)
    if cell.kind == "stream":
        return measure_messages(client, int(plan.options["item_bytes"]), plan.effort, pid)
    if cell.kind == "images":
        return measure_images(client, cell.what, plan.effort, pid)
    return measure_training(client, plan.effort)


def _measure_unary(client: Client, cell: CallCell, effort: Effort, pid: int | None) -> Measurement:
    """Time a call whose answer is the number it was asked with, so that none can be taken for another."""
    call: Callable[[int], Any] = client.lidar.get_beam_count if cell.what == "inline" else client.lidar.get_beam_angles
    numbers = itertools.count(1)

    def ask(_: Any) -> Any:
        return call(next(numbers))

    if cell.rate_hz is None:
        return closed_loop(ask, _NOTHING, effort, pid, lambda answer: answer.beams)
    first = next(numbers)
    found = open_loop(ask, _NOTHING, cell.rate_hz, max(5, int(effort.open_loop_s * cell.rate_hz)), pid)
    expected = first + found.samples_ns.size + found.warmup_ns.size + 1
    if ask(None).beams != expected:
        raise RemoteProtocolError(f"call {expected} was answered as another: calls were lost or doubled")
    return found

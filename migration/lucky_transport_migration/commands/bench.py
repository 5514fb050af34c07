"""The suite of commands: rounds of setups, then the codec, as one JSON-able result."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from lucky_transport_migration import environment
from lucky_transport_migration.commands.cells import CODEC, ENGINE, CommandCell, CommandPlan, CommandSetup, setups_of
from lucky_transport_migration.commands.codec_cost import measure_codec
from lucky_transport_migration.commands.comparisons import command_ratios, floor_of
from lucky_transport_migration.commands.rounds import Measured, measure_commands
from lucky_transport_migration.commands.rows import command_row
from lucky_transport_migration.measuring import Samples

__all__ = ["CommandResults", "command_result", "estimate_s", "pieces", "run_commands"]

_START_S = 0.9  # an engine process: started, connected, ended


@dataclass
class CommandResults:
    """All measurements, by cell, one per round; `twins` are the second halves of A/A pairs."""

    cells: dict[CommandCell, list[Measured | Samples]] = field(
        default_factory=dict[CommandCell, "list[Measured | Samples]"]
    )
    twins: dict[CommandCell, list[Measured | Samples]] = field(
        default_factory=dict[CommandCell, "list[Measured | Samples]"]
    )
    notes: list[str] = field(default_factory=list[str])


def pieces(plan: CommandPlan) -> int:
    """Return how many times `run_commands` calls `advance`."""
    return plan.rounds * (len(list(setups_of(plan))) + 1)


def estimate_s(plan: CommandPlan) -> float:
    """Return about how long the suite will take."""
    effort, total = plan.effort, 5 * plan.effort.budget_s
    for setup in setups_of(plan):
        parts = {"training": 4.5 * effort.budget_s}
        total += _START_S + sum(
            effort.open_loop_s if cell.rate_hz else parts.get(cell.kind, 1.1 * effort.budget_s)
            for cell in setup.cells()
        )
    return plan.rounds * total


def run_commands(
    plan: CommandPlan, command: str, advance: Callable[..., None] = lambda text="": None
) -> dict[str, Any]:
    """Return the suite's result as JSON values; `advance` is called with a text before each piece of work is done.

    Raises what starting the engines raises, and RemoteProtocolError when an answer or item was lost, doubled or torn.
    """
    results, load = CommandResults(), os.getloadavg()[0]
    setups = list(setups_of(plan))
    for index in range(plan.rounds):
        for setup in plan.order(setups, index):
            table = results.twins if setup.twin else results.cells
            for cell, found in measure_commands(setup, plan).items():
                table.setdefault(cell, []).append(found)
            advance(_describe(setup, index))
        for (path, direction), samples in measure_codec(plan.effort).items():
            results.cells.setdefault(CommandCell(CODEC, path, None, direction), []).append(samples)
        advance(f"round {index + 1}: codec")
    return command_result(results, plan, command, load)


def _describe(setup: CommandSetup, index: int) -> str:
    wait = f" {setup.wait}" if setup.wait else ""
    return f"round {index + 1}: {setup.path}{wait}{', training' if setup.training else ''}"


def command_result(results: CommandResults, plan: CommandPlan, command: str, load: float) -> dict[str, Any]:
    """Return the result of these measurements."""
    floor = floor_of(results.cells, results.twins)
    notes = list(results.notes)
    if load > len(os.sched_getaffinity(0)) / 4:
        notes.append(
            f"the machine was busy before the bench began (load {load:.1f}): tails and waiting are worse than it can do"
        )
    if not any(cell.kind == CODEC and cell.path == "grpc" for cell in results.cells):
        notes.append("protobuf is not installed, so the codec has nothing to be compared with")
    return {
        "version": 1,
        "suite": "commands",
        "command": command,
        "engine": ENGINE,
        "options": plan.options,
        "rounds": plan.rounds,
        "reference": plan.reference,
        "reference_wait": plan.main_wait(plan.reference),
        "environment": environment.capture(),
        "rows": [command_row(cell, rounds) for cell, rounds in results.cells.items()],
        "surroundings": [],
        "ratios": command_ratios(results.cells, plan, floor),
        "noise_floor": floor,
        "notes": [
            *notes,
            "p50 is the median over rounds of fresh processes; p99 and beyond come from all rounds' samples together",
            "an open loop counts latency from when a call was due, so waiting for a slow one is not left out",
            "a stream's time per item is its whole time over its items, the first tenth left out",
            f"pictures are {plan.options['width']}x{plan.options['height']} and prepared beforehand: an engine that "
            "renders them takes longer than any transport",
        ],
    }

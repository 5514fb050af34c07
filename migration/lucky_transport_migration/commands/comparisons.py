"""Ratios between the cells of one run, each with the reference's cell that differs in the way alone."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import Any

from lucky_transport_migration.commands.cells import CODEC, CommandCell, CommandPlan
from lucky_transport_migration.commands.rows import typical_us
from lucky_transport_migration.paths import label
from lucky_transport_migration.stats import Interval, compare, ratio

__all__ = ["command_ratios", "floor_of", "what_of"]

Cells = Mapping[CommandCell, Sequence[Any]]


def floor_of(cells: Cells, twins: Cells) -> dict[str, Any] | None:
    """Return the A/A ratio: the same cell measured by two fresh pairs per round; None when there was none."""
    for cell, second in twins.items():
        first = cells.get(cell)
        if first:
            interval = _ratio(first, second)
            return {
                "path": cell.path,
                **_rounded(interval),
                "floor": round(max(interval.mid, 1 / interval.mid), 4),
            }
    return None


def command_ratios(cells: Cells, plan: CommandPlan, floor: Mapping[str, Any] | None) -> list[dict[str, Any]]:
    """Return one row per comparison, each with its interval, word and sentence."""
    noise = 1.0 if floor is None else float(floor["floor"])
    found: list[dict[str, Any]] = []
    for cell, other in _pairs(cells, plan):
        interval = _ratio(cells[other], cells[cell])
        verdict = compare(_name(cell, other), _name(other, cell), interval, noise)
        row = asdict(cell) | {"of": cell.path, "to": other.path, "to_wait": other.wait}
        row |= _rounded(interval) | {"rounds": interval.rounds, "word": verdict.word.value}
        found.append(row | {"sentence": f"{what_of(asdict(cell))}: {verdict.sentence}"})
    return found


def _pairs(cells: Cells, plan: CommandPlan) -> Iterator[tuple[CommandCell, CommandCell]]:
    """Yield (ours, theirs): every waiting strategy of the reference against every other path's main one.

    The codec is the reference transport's against the other's; training loops are compared by what they lose.
    """
    for cell in cells:
        if cell.path != plan.reference or cell.kind == "training":
            continue
        for other in cells:
            wait = None if other.kind == CODEC else plan.main_wait(other.path)
            if other.path != cell.path and other == cell.over(other.path, wait):
                yield cell, other


def _ratio(over: Sequence[Any], under: Sequence[Any]) -> Interval:
    return ratio([typical_us(one) for one in over], [typical_us(one) for one in under])


def _rounded(interval: Interval) -> dict[str, float]:
    return {"ratio": round(interval.mid, 4), "low": round(interval.low, 4), "high": round(interval.high, 4)}


_CODECS = {"shm": "FlatBuffers", "grpc": "protobuf"}


def _name(cell: CommandCell, other: CommandCell) -> str:
    if cell.kind == CODEC:
        return _CODECS.get(cell.path, label(cell.path))
    return f"{label(cell.path)} ({cell.wait})" if cell.wait else label(cell.path)


_TITLES = {
    "unary": "small typed call, handler {what}",
    "stream": "stream of 1 kB messages, per message",
    "images": "RGBA pictures, per picture, as {what}",
    "training": "training loop, 1 ms a step, beside two streams",
    "codec": "codec, to {what} a message",
}


def what_of(row: Mapping[str, Any]) -> str:
    """Return what the rows of a group have in common: everything but the path and its way of waiting."""
    title = _TITLES[row["kind"]].format(what=row["what"])
    return f"{title}, {row['rate_hz']} a second" if row["rate_hz"] else title

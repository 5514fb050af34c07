"""A skirmish as one env of a batch: a coarse picture and some counts in, one of a few standing orders out.

The observation is float32 (GRID, GRID, CHANNELS + 1): the spatial map, averaged over GRID x GRID blocks, and behind it
one channel with the counts, in thousands where they are credits, row after row.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lucky_transport.spec.batch_spec import ArraySpec
from lucky_transport.world import WorldBatch, WorldProgress
from lucky_transport_openra.skirmish.messages import Command, Economy, MapInfo, Military, Observation, Order, Orders
from lucky_transport_openra.skirmish.rules import KINDS, QUEUES
from lucky_transport_openra.skirmish.view import CHANNELS

GRID = 8

#: What the number of an action stands for; each also puts up what is ready and unpacks the builder.
MOVES: tuple[Command, ...] = (
    Command(Order.NO_OP),
    *(Command(Order.BUILD, item_type=kind.name) for kind in KINDS.values() if kind.queue and kind.is_building),
    *(Command(Order.TRAIN, item_type=kind.name) for kind in KINDS.values() if kind.queue and not kind.is_building),
    Command(Order.ATTACK_MOVE, target_x=-1, target_y=-1),
    Command(Order.STOP),
)
_ALWAYS = (Command(Order.DEPLOY), Command(Order.PLACE_BUILDING, target_x=-1, target_y=-1))

#: Which counts are shown, and the number of them that shows as 1.
_ECONOMY = {
    **dict.fromkeys(("cash", "ore", "resource_capacity"), 1000),
    **dict.fromkeys(("power_provided", "power_drained"), 100),
    "harvester_count": 1,
}
_MILITARY = {
    **dict.fromkeys(("army_value", "kills_cost", "deaths_cost", "assets_value"), 1000),
    **dict.fromkeys(("active_unit_count", "units_killed", "units_lost", "buildings_killed", "buildings_lost"), 1),
}


class SkirmishBatch(WorldBatch):
    """See the module. A step is ten ticks, 0.4 s of the game, or as many as asked for; the reward is what the score
    gained.
    """

    observation = ArraySpec("float32", (GRID, GRID, len(CHANNELS) + 1), 0.0)
    action = ArraySpec("int64", (), 0, len(MOVES) - 1, len(MOVES))
    reward_terms = ("score",)
    termination_terms = ("decided", "out_of_time")
    timeout_terms = ("out_of_time",)
    ticks_per_step = 10

    def __init__(self, ticks_per_step: int = ticks_per_step) -> None:
        self.ticks_per_step = ticks_per_step

    def write(
        self, message: Any, progress: WorldProgress, gained: float, row: NDArray[Any], signals: NDArray[np.float32]
    ) -> None:
        row[:, :, : len(CHANNELS)] = _blocks(message)
        counts = np.zeros(GRID * GRID, np.float32)
        found = _counts(message)
        counts[: len(found)] = found
        row[:, :, len(CHANNELS)] = counts.reshape(GRID, GRID)
        is_draw = progress.is_over and progress.result == "draw"
        signals[:] = gained, progress.is_over and not is_draw, is_draw

    def actions(self, row: NDArray[Any]) -> list[Any]:
        number = int(row)
        move = MOVES[number] if 0 <= number < len(MOVES) else MOVES[0]
        return [Orders([*_ALWAYS, move])]


def _blocks(message: Observation) -> NDArray[np.float32]:
    """Return the means of the spatial map's blocks, float32 (GRID, GRID, channels); zeros where there is no map."""
    info, channels = message.map_info, message.spatial_channels
    size = 4 * info.width * info.height * channels if info is not None else 0
    if info is None or channels != len(CHANNELS) or len(message.spatial_map) != size or not _is_large(info):
        return np.zeros((GRID, GRID, len(CHANNELS)), np.float32)
    grid = np.frombuffer(message.spatial_map, np.float32).reshape(info.height, info.width, channels)
    down = np.add.reduceat(grid, _edges(info.height), axis=0)
    both: NDArray[np.float32] = np.add.reduceat(down, _edges(info.width), axis=1)
    return both * np.float32(GRID * GRID / (info.height * info.width))


def _is_large(info: MapInfo) -> bool:
    return info.width >= GRID and info.height >= GRID


def _edges(length: int) -> NDArray[np.intp]:
    return np.arange(GRID) * length // GRID


def _counts(message: Observation) -> Sequence[float]:
    economy, military = message.economy or Economy(), message.military or Military()
    return [
        *(getattr(economy, name) / unit for name, unit in _ECONOMY.items()),
        *(getattr(military, name) / unit for name, unit in _MILITARY.items()),
        *(sum(item.queue_type == name for item in message.production) for name in QUEUES),
        message.explored_percent / 100,
    ]

"""What a bench measures, one cell a row of its result.

A cell is a key: two measurements with equal cells may be put together, and nothing else may.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from lucky_transport_migration.bench.measuring import Effort
from lucky_transport_migration.units import bytes_text

__all__ = ["COPY", "IDLE", "OPEN_LOOP_HZ", "QUICK", "STEPPING", "Cell", "Place", "work_of"]

IDLE, COPY, STEPPING = "toy:idle", "toy:copy", "toy"
OPEN_LOOP_HZ = 50  # the rate at which the users of such engines step them

#: The effort of `--quick`: a first look and a test that everything runs, no figures to quote.
QUICK = Effort(budget_s=0.02, least=1, most=2_000, open_loop_s=0.2, idle_s=0.3, neighbour_s=0.2)

_WORK = {COPY: ", engine copies its frame", STEPPING: ", toy engine at work"}

Place = Literal["copy", "inplace"]


def work_of(engine: str, frame_bytes: int | None = None) -> str:
    """Return what a title says of the engine's work, "" for one that does nothing, and of a frame of its own size."""
    work = _WORK.get(engine, "")
    return work if frame_bytes is None else f"{work}, frame of {bytes_text(frame_bytes)}"


@dataclass(frozen=True, slots=True)
class Cell:
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

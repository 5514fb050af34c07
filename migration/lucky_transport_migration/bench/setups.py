"""What runs together: cells in setups, one fresh pair of processes each.

All cells of a setup share its processes and its connection; a comparison is between setups of one round.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from lucky_transport.errors import plural
from lucky_transport_migration.bench.cells import COPY, IDLE, OPEN_LOOP_HZ, Cell, Place
from lucky_transport_migration.bench.measuring import Effort
from lucky_transport_migration.bench.peers.kinds import AT_A_RATE, IN_PLACE, VECTOR_ENV
from lucky_transport_migration.bench.peers.vector import MOST_ENVS

__all__ = ["AnySetup", "PeerSetup", "Setup"]

_START_S = 0.9  # an engine process: started, connected, ended
_PEER_START_S = 0.4  # the same of a peer, which imports less
_LEGACY_STEP_S = 180e-6  # one legacy Step among many, for the estimate only


@dataclass(frozen=True, slots=True)
class Setup:
    """One engine process with one client. `twin` marks the second measurement of an A/A pair.

    `frame_bytes` makes it one of the sweep over payloads, with one cell.
    """

    path: str
    wait: str | None
    num_envs: int
    engine: str
    full: bool = True  # False: only the plain transport rows; the waiting strategies differ nowhere else
    open_loop: bool = False
    twin: bool = False
    frame_bytes: int | None = None

    def cells(self, *, zero_copy: bool) -> list[Cell]:
        """Return what to measure over a transport that has frames in place or not."""
        observations: Place = "inplace" if zero_copy else "copy"
        key = (self.path, self.wait, self.num_envs, self.engine)
        idle = self.engine == IDLE
        if self.frame_bytes is not None:
            return [Cell("transport", *key, "copy", observations, frame_bytes=self.frame_bytes)]
        cells: list[Cell] = []
        if self.engine in (IDLE, COPY):
            cells.append(Cell("transport", *key, "copy", observations))
        if idle and self.open_loop:
            cells.append(Cell("transport", *key, "copy", observations, rate_hz=OPEN_LOOP_HZ))
        if self.twin or not self.full:
            return cells
        if zero_copy and idle:
            cells.append(Cell("transport", *key, "inplace", observations))
        cells.append(Cell("env", *key, "copy", "copy", copy=True))
        if zero_copy:
            cells.append(Cell("env", *key, "copy", observations, copy=False))
        return cells

    def estimate_s(self, effort: Effort) -> float:
        """Return about how long it takes in one round."""
        cells = self.cells(zero_copy=self.path in ("shm", "inproc"))
        step_s = self.num_envs * _LEGACY_STEP_S if self.path == "grpc" else 0.0
        closed = max(effort.budget_s * 1.1, (effort.least + 4) * step_s)
        return _START_S + sum(closed if cell.rate_hz is None else effort.open_loop_s for cell in cells)

    def __str__(self) -> str:
        wait = f" {self.wait}" if self.wait else ""
        size = "" if self.frame_bytes is None else f", frame of {plural(self.frame_bytes, 'byte')}"
        return f"{self.path}{wait}, {plural(self.num_envs, 'env')}{size}"


@dataclass(frozen=True, slots=True)
class PeerSetup:
    """One peer in processes of its own, with all its cells one after the other."""

    path: str
    num_envs: tuple[int, ...]
    payloads: tuple[int, ...]
    twin: bool = False

    def cells(self) -> list[Cell]:
        """Return what to measure."""
        if self.path == VECTOR_ENV:
            sizes = [n for n in self.num_envs if n <= MOST_ENVS]
            return [Cell("env", self.path, None, n, IDLE, copy=True) for n in sizes]
        place: Place = "inplace" if self.path in IN_PLACE else "copy"

        def cell(num_envs: int, engine: str, **more: Any) -> Cell:
            return Cell("transport", self.path, None, num_envs, engine, observations=place, **more)

        steps = [cell(n, engine) for n in self.num_envs for engine in (IDLE, COPY)]
        at_a_rate = [cell(min(self.num_envs), IDLE, rate_hz=OPEN_LOOP_HZ)] if self.path == AT_A_RATE else []
        return [*steps, *at_a_rate, *(cell(1, COPY, frame_bytes=size) for size in self.payloads)]

    def estimate_s(self, effort: Effort) -> float:
        """Return about how long it takes in one round."""
        loops = (effort.open_loop_s if cell.rate_hz else effort.budget_s * 1.1 for cell in self.cells())
        return _PEER_START_S + sum(loops)

    def __str__(self) -> str:
        return self.path


AnySetup = Setup | PeerSetup

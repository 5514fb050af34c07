"""The agents of a client, as the engine sees them: their blocks, their envs, and the actions of these."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from lucky_transport.spec.array_spec import ArraySpec
from lucky_transport.spec.batch_spec import BatchSpec
from lucky_transport.spec.composite import arrays
from lucky_transport_holodeck.agent_types import SPHERE_MOVES, TELEPORT_NUMBERS, AgentType, Teleport
from lucky_transport_holodeck.blocks import BlockFile, BlockFiles
from lucky_transport_holodeck.sources import Source

_NONE = b"\0"


def agent_blocks(name: str) -> tuple[str, str, str, str]:
    """Return the keys of the blocks that every agent has: action, teleport's flag and numbers, control scheme."""
    return name, f"{name}_teleport_flag", f"{name}_teleport_command", f"{name}_control_scheme"


class HostedSensor:
    """A sensor with its block. `rate`: ticks from one showing to the next; the first is in the tick in which it comes.
    is_task: it shows the end of the episode.
    """

    def __init__(self, file: BlockFile, source: Source, *, rate: int = 1, is_task: bool = False) -> None:
        self.rate = rate
        self.is_task = is_task
        self._age = 0
        self._file = file
        self._source = source
        self._bytes = source.array.data

    def show(self) -> None:
        """Write into the block what the sensor shows now; call it once per tick."""
        age = self._age
        self._age += 1
        if age % self.rate:
            return
        source = self._source
        if source.renew is not None:
            source.renew(source.array)
        self._file.write(self._bytes)

    def close(self) -> None:
        """Close the block."""
        self._file.close()


class HostedAgent:
    """`env` is -1 for an agent that was spawned when all envs had one. An action is carried out until the next one."""

    def __init__(self, name: str, kind: AgentType, env: int, files: BlockFiles) -> None:
        self.name = name
        self.kind = kind
        self.env = env
        self.sensors: dict[str, HostedSensor] = {}
        sizes = (4 * kind.action_size, 1, 4 * TELEPORT_NUMBERS, 1)
        self._action, self._flag, self._place, self._scheme = map(files.open, agent_blocks(name), sizes)

    @property
    def has_task(self) -> bool:
        """True when one of its sensors shows the end of the episode."""
        return any(sensor.is_task for sensor in self.sensors.values())

    def read_action(self, row: memoryview) -> None:
        """Read the action in force into `row`, float32 as bytes, as far as either goes."""
        self._action.read_into(row)

    def chosen_move(self) -> int:
        """Return which discrete move (0 to 3) of a SphereRobot is in force, -1 when its action is none of them."""
        if self.kind.wire_name != "SphereRobot" or self._scheme.read() != _NONE:
            return -1
        action = np.frombuffer(self._action.read(), np.float32)
        matches = np.flatnonzero((np.array(SPHERE_MOVES, np.float32) == action).all(axis=1))
        return int(matches[0]) if matches.size else -1

    def pop_teleport(self) -> Teleport | None:
        """Return where the client wants the agent, once; None when it is to stay."""
        flag = self._flag.read()
        if flag == _NONE:
            return None
        self._flag.write(_NONE)
        return Teleport.of(flag[0], np.frombuffer(self._place.read(), np.float32).tolist())

    def close(self) -> None:
        """Close all blocks."""
        for file in (self._action, self._flag, self._place, self._scheme):
            file.close()
        for sensor in self.sensors.values():
            sensor.close()


class ActionRows:
    """Turns agents' vectors into a batch of actions. `size`: values that one env takes.

    An env's action is its agent's vector as far as it goes, the parts of a composite action one after the other.
    Integers are rounded and kept within the space; NaN and infinity count as 0.

    rows: per env the memory of its agent's vector, float32 (size,) as bytes; what is not written is 0.
    """

    def __init__(self, spec: BatchSpec, actions: NDArray[Any]) -> None:
        self._arrays = [(array, rows) for _, array, rows in arrays(actions, spec.action, spec.action_parts)]
        self.size = sum(array.size for array, _ in self._arrays)
        self.is_choice = len(self._arrays) == 1 and bool(self._arrays[0][0].n)
        self._vectors = np.zeros((spec.num_envs, self.size), np.float32)
        self.rows = [row.data.cast("B") for row in self._vectors]

    def clear(self) -> None:
        """Make all vectors 0."""
        self._vectors[:] = 0

    def convert(self) -> None:
        """Make the vectors the actions of their envs."""
        vectors = self._vectors
        if not np.isfinite(vectors).all():
            np.nan_to_num(vectors, copy=False, nan=0.0, posinf=0.0, neginf=0.0)
        at = 0
        for array, rows in self._arrays:
            rows[...] = _fitting(array, vectors[:, at : at + array.size].reshape(rows.shape))
            at += array.size

    def choose(self, env: int, choice: int) -> None:
        """Make `choice`, counted from 0, the action of `env`, where the action is one of a number of choices."""
        array, rows = self._arrays[0]
        rows[env] = int(array.low or 0) + min(choice, array.n - 1)


def _fitting(array: ArraySpec, values: NDArray[np.float32]) -> NDArray[Any]:
    """Return `values` (num_envs, *shape) in the dtype and, for whole numbers, within the bounds of `array`."""
    dtype = np.dtype(array.dtype)
    if dtype.kind == "f":
        return values
    if dtype.kind == "b":
        return values > 0.5
    limits = np.iinfo(dtype)
    low = limits.min if array.low is None else np.asarray(array.low)
    high = limits.max if array.high is None else np.asarray(array.high)
    return np.clip(np.rint(values.astype(np.float64)), low, high).astype(dtype)

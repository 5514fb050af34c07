"""Exchanges as vectors: what a script does to a segment and what the engine finds there, and a whole engine."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from mmap import mmap
from typing import Any

import numpy as np

from lucky_transport import errors
from lucky_transport.engine import HOLD, RESET, Buffers
from lucky_transport.engines.pendulum import PendulumEngine
from lucky_transport.messages import SetSeedsRequest
from lucky_transport.native import EngineChannel
from lucky_transport.shm.segment import header
from lucky_transport.shm.segment.channel import Result, channel_offsets
from lucky_transport.shm.segment.layout import plan

__all__ = ["exchanges", "pendulum"]

_PID, _STARTED = 4242, 987_654_321
_NUM_ENVS = 2
_FOUND = {Result.HAS_ACTIONS: "actions", Result.HAS_CONTROL: "control", Result.HAS_COMMANDS: "commands"}


class _Script:
    """Records what is done to a segment of two pendulums, and what the engine's channel finds and leaves there."""

    def __init__(self, name: str) -> None:
        spec = PendulumEngine(_NUM_ENVS).spec
        layout = plan(spec, ring_bytes=4096)
        self._mapping = mmap(-1, layout.total_size)
        header.write(self._mapping, layout, spec, pid=_PID, started=_STARTED, namespace=0, lock=0, ring_bytes=4096)
        self._channel = EngineChannel(self._mapping, channel_offsets(layout, _NUM_ENVS), strategy=2)
        self._channel.set_peer(3)
        self._control = layout["control"].offset
        self._commands = layout["ring_c2s"].offset
        self.steps: list[dict[str, Any]] = []
        self.case = {"name": name, "num_envs": _NUM_ENVS, "ring_bytes": 4096, "steps": self.steps}

    def store(self, word: str, value: int) -> None:
        self.steps.append({"do": "store", "word": word, "value": value})
        if word == "commands":
            struct.pack_into("<I", self._mapping, self._commands, value)
        else:
            header.put(self._mapping, word, value)

    def control(self, *values: int) -> None:
        self.steps.append({"do": "control", "bytes": bytes(values).hex()})
        self._mapping[self._control : self._control + _NUM_ENVS] = bytes(values)

    def next(self) -> None:
        found = self._channel.next(0)
        names = [name for bit, name in _FOUND.items() if found > 0 and found & bit]
        self.steps.append({"do": "next", "found": ["out of order"] if found == Result.OUT_OF_ORDER else names})

    def publish(self, status: int = 0) -> None:
        self._channel.publish(status)
        self.steps.append({"do": "publish", "status": status})
        self.expect("frame_seq", "frame_status", "park_frame")

    def resync(self) -> None:
        self._channel.resync()
        self.steps.append({"do": "resync"})
        self.expect("action_seq")

    def commands_read(self, position: int) -> None:
        self._channel.commands_read(position)
        self.steps.append({"do": "commands_read", "value": position})

    def expect(self, *words: str) -> None:
        for word in words:
            self.steps.append({"do": "expect", "word": word, "value": header.get(self._mapping, word)})


def exchanges() -> Iterator[dict[str, Any]]:
    script = _Script("idle, then two plain exchanges")
    script.next()
    for seq in (1, 2):
        script.store("action_seq", seq)
        script.next()
        script.publish()
    script.next()
    yield script.case

    script = _Script("reset, hold, and neither again")
    for seq, control in enumerate(((RESET, HOLD), (HOLD, 0), (RESET | HOLD, 4), (0, 0)), start=1):
        script.control(*control)
        script.store("action_seq", seq)
        script.next()
        script.publish()
    yield script.case

    script = _Script("a client that is parked is woken, one that is not is left alone")
    script.store("action_seq", 1)
    script.next()
    script.store("park_frame", 1)
    script.publish()
    script.store("action_seq", 2)
    script.next()
    script.publish()
    yield script.case

    script = _Script("a refused exchange, then a frame")
    script.store("action_seq", 1)
    script.next()
    script.publish(errors.EngineFailed.wire_code)
    script.store("action_seq", 2)
    script.next()
    script.publish()
    yield script.case

    script = _Script("commands alone, and before actions")
    script.store("commands", 64)
    script.next()
    script.commands_read(64)
    script.next()
    script.store("commands", 96)
    script.store("action_seq", 1)
    script.next()
    script.commands_read(96)
    script.next()
    script.publish()
    script.next()
    yield script.case

    for name, seq in {
        "two exchanges at once": 2,
        "a counter of the largest number": (1 << 64) - 1,
    }.items():
        script = _Script(name)
        script.store("action_seq", seq)
        script.next()
        script.resync()
        script.next()
        script.store("action_seq", 1)
        script.next()
        script.publish()
        yield script.case


def pendulum() -> dict[str, Any]:
    """Return what two pendulums do: actions and control bytes, and each frame's bytes."""
    engine = PendulumEngine(2, max_ticks=5)
    buffers = Buffers.allocate(engine.spec)
    engine.bind(buffers)
    seeds = [11, (1 << 64) - 1]
    engine.services["/lucky_transport.v1.BatchService/SetSeeds"](SetSeedsRequest(seeds))
    controls = [(1, 1), None, None, (2, 0), (0, 1), None, None, (0, 2), (3, 0), None, None, None]
    frames: list[dict[str, Any]] = []
    for number, control in enumerate(controls):
        buffers.actions[:, 0] = (0.25 * number - 1.0, 2.5 - number)
        engine.step(None if control is None else np.array(control, np.uint8))
        reset = np.zeros(2, bool) if control is None else (np.array(control) & RESET) != 0
        for array in (buffers.rewards, buffers.truncated):  # as the host does
            array[reset] = 0
        buffers.signals[:, reset] = 0
        frames.append(
            {
                "actions": buffers.actions.tobytes().hex(),
                "control": bytes(control or (0, 0)).hex(),
                "observations": buffers.observations.tobytes().hex(),
                "rewards": buffers.rewards.tobytes().hex(),
                "truncated": buffers.truncated.tobytes().hex(),
                "signals": buffers.signals.tobytes().hex(),
            }
        )
    return {"num_envs": 2, "max_ticks": 5, "seeds": seeds, "frames": frames}

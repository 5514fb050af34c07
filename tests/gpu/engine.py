"""A toy engine that shows its observations on a GPU, and does what a test asks of it beside its steps.

A driver opens its handles in other processes alone, so the engine has one of its own. There each line on stdin is a
JSON list, the name of a method of `DeviceToy` and what it takes; each line on stdout what that returned; and the engine
ends with its stdin. The stand-in opens handles anywhere: such an engine starts faster in the process of the tests.
"""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from lucky_transport import api
from lucky_transport.cuda import libcuda
from lucky_transport.cuda.memory import DeviceActions, DeviceObservations
from lucky_transport.engine import Buffers
from lucky_transport.engines.toy import ToyEngine
from lucky_transport.process import python_command, unique_name
from tests.support.allocating_driver import AllocatingDriver

#: Of the observations in their allocation: a tensor is seldom its allocation's first.
_OFFSET = 256
#: Where in its step an engine may be killed.
PHASES = ("begin", "host frame", "half the frame", "frame", "half a move", "move")


class DeviceToy(ToyEngine):
    """on_demand: writes observations for the host where they are asked for. move_every: takes other memory so often.

    on_stream: it has a stream, and reads its actions on the GPU: a step returns before its frame is there.
    dies_in: the phase in which it kills itself, in step `dies_at`.
    """

    def __init__(
        self,
        library: str,
        num_envs: int,
        obs_size: int,
        *,
        on_demand: bool = False,
        on_stream: bool = False,
        move_every: int = 0,
        dies_in: str = "",
        dies_at: int = 0,
        **options: Any,
    ) -> None:
        super().__init__(num_envs, obs_size=obs_size, **options)
        self._gpu = AllocatingDriver(library)
        self._move_every = move_every
        self._dies_in, self._dies_at = dies_in, dies_at
        self._steps = self._moves = self._written = 0
        self._fails = False
        self._on_demand = on_demand
        self._rows = np.zeros(self.spec.observation_shape, np.float32)
        self._observed = self._rows  # what a step writes
        self._given = np.zeros(self.spec.action_shape, np.float32)  # the actions of a step
        self._pointer = 0
        self._old: list[int] = []
        self._stream = self.device_stream = self._gpu.make_stream() if on_stream else None
        if on_stream:
            self._actions = self._gpu.allocate(self._given.nbytes)
            self.device_actions = DeviceActions(self._from_host)
            self.device_actions.publish(self._actions, self._given.nbytes)
        self._published = self.device_observations = DeviceObservations(self._to_host if on_demand else None)
        self.move()

    def bind(self, buffers: Buffers) -> None:
        self._observed = self._rows if self._on_demand else buffers.observations
        actions = self._given if self.device_actions else buffers.actions
        super().bind(replace(buffers, observations=self._observed, actions=actions))

    def step(self, control: NDArray[np.uint8] | None) -> None:
        self._steps += 1
        self._free_unused()
        self._at("begin")
        if self.device_actions:
            self._gpu.read(self._given, self._actions, self._stream)
        super().step(control)
        self._at("host frame")
        rows = self._observed.reshape(-1)
        half = rows.size // 2
        self._gpu.write(self._pointer + _OFFSET, rows[:half], self._stream)
        self._at("half the frame")
        self._gpu.write(self._pointer + _OFFSET + half * rows.itemsize, rows[half:], self._stream)
        self._at("frame")
        if self._move_every and self._steps % self._move_every == 0:
            self.move()

    def move(self) -> None:
        """Take other memory, which shows the same frame; what was there before is freed when no client has it open."""
        if self._pointer:
            self._old.append(self._pointer)
        self._pointer = self._gpu.allocate(_OFFSET + self._observed.nbytes)
        self._gpu.write(self._pointer + _OFFSET, self._observed, self._stream)
        self._at("half a move")
        self._published.publish(self._pointer + _OFFSET, self._observed.nbytes)
        self._moves += 1
        self._at("move")

    def moves(self) -> int:
        """Return how often it took memory."""
        return self._moves

    def withdraw(self) -> None:
        self._published.withdraw()

    def is_unused(self) -> bool:
        """True when no client has memory open that was published before the present one."""
        return self._published.wait_unused(0)

    def written(self) -> int:
        """Return how often it wrote observations for the host on demand."""
        return self._written

    def fail(self, fails: bool) -> None:
        """Have writing for the host fail, or no longer."""
        self._fails = fails

    def _to_host(self, rows: NDArray[Any]) -> None:
        if self._fails:
            raise RuntimeError("an illegal memory access was encountered")
        self._gpu.read(rows, self._pointer + _OFFSET, self._stream)
        self._written += 1

    def _from_host(self, rows: NDArray[Any]) -> None:
        self._gpu.write(self._actions, rows, self._stream)

    def _free_unused(self) -> None:
        if self._old and self._published.wait_unused(0):
            for pointer in self._old:
                self._gpu.free(pointer)
            self._old.clear()

    def _at(self, phase: str) -> None:
        if phase == self._dies_in and self._steps >= self._dies_at:
            os.kill(os.getpid(), signal.SIGKILL)


class EngineUnderTest(Protocol):
    """A `DeviceToy` that is served. endpoint: where."""

    endpoint: str

    def ask(self, method: str, *arguments: Any) -> Any:
        """Return what a method of the engine returns."""


class LocalEngine:
    """A `DeviceToy` in this process."""

    def __init__(self, endpoint: str, engine: DeviceToy) -> None:
        self.endpoint = endpoint
        self._engine = engine

    def ask(self, method: str, *arguments: Any) -> Any:
        return getattr(self._engine, method)(*arguments)


class EngineProgram:
    """A `DeviceToy` in a process of its own."""

    def __init__(self, library: str, slots: int, options: dict[str, Any]) -> None:
        self._process = subprocess.Popen(
            python_command(__name__, library, str(slots), json.dumps(options)),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self.pid = self._process.pid
        self.endpoint: str = self._answer()

    def ask(self, method: str, *arguments: Any) -> Any:
        assert self._process.stdin is not None
        print(json.dumps([method, *arguments]), file=self._process.stdin, flush=True)
        return self._answer()

    def kill(self) -> None:
        """End it by SIGKILL, and wait for its end."""
        self._process.kill()
        self._process.wait()

    def stop(self) -> None:
        """End it in order, or find that it has ended."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        self._process.wait()
        self._process.stdout.close()

    def _answer(self) -> Any:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        assert line, f"the engine's program ended with {self._process.wait()}"
        return json.loads(line)


@contextmanager
def local_engine(library: str, slots: int = 1, **options: Any) -> Iterator[LocalEngine]:
    """Serve an engine with the options of a `DeviceToy` in this process."""
    engine = DeviceToy(library, **options)
    with api.serve(engine, f"shm://{unique_name()}", observation_slots=slots) as serving:
        yield LocalEngine(str(serving.endpoints[0]), engine)


@contextmanager
def engine_program(library: str, slots: int = 1, **options: Any) -> Iterator[EngineProgram]:
    """Start an engine with the options of a `DeviceToy`; it has ended afterwards."""
    program = EngineProgram(library, slots, options)
    try:
        yield program
    finally:
        program.stop()


def main(library: str, slots: str, options: str) -> None:
    """Be that process."""
    libcuda.LIBRARY = library
    libcuda.forget_driver()
    with local_engine(library, int(slots), **json.loads(options)) as engine:
        print(json.dumps(engine.endpoint), flush=True)
        for line in sys.stdin:
            print(json.dumps(engine.ask(*json.loads(line))), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])

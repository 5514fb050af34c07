"""An engine on the fake GPU of `tests.support.fake_cuda`: its `step` returns before its work is done."""

from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lucky_transport.cuda.memory import DeviceActions, DeviceObservations
from lucky_transport.engine import HOLD, RESET, Buffers, Engine
from lucky_transport.spec.batch_spec import ArraySpec, BatchSpec
from tests.support.fake_cuda import FakeDriver, FakeStream

NUM_ENVS, _OBS_SIZE, _ACT_SIZE = 3, 4, 2
#: Of the values in their allocation: a tensor is seldom its allocation's first.
_OFFSET = 256


def kernel(shown: NDArray[Any], actions: NDArray[Any], control: NDArray[np.uint8]) -> None:
    """The work of one step: every value of a row depends on the row before and on its actions."""
    stepped = shown * np.float32(0.5) + actions.sum(1, keepdims=True) + np.arange(_OBS_SIZE, dtype=np.float32)
    held, reset = (control & HOLD) != 0, (control & RESET) != 0
    shown[~held] = stepped[~held]
    shown[reset] = 1


def shown_after(*given: NDArray[Any]) -> NDArray[Any]:
    """Return the observations after a reset and a step with each of these actions."""
    shown = np.ones((NUM_ENVS, _OBS_SIZE), np.float32)
    for actions in given:
        kernel(shown, actions, np.zeros(NUM_ENVS, np.uint8))
    return shown


def policy(observations: NDArray[Any]) -> NDArray[Any]:
    """Return actions that depend on the observations."""
    return np.tanh(observations[:, :_ACT_SIZE])


class LateEngine(Engine):
    """ordered: it has a stream; otherwise `step` waits until its work is done."""

    def __init__(self, driver: FakeDriver, *, ordered: bool = True) -> None:
        self.spec = BatchSpec(
            "late", NUM_ENVS, ArraySpec("float32", (_OBS_SIZE,)), ArraySpec("float32", (_ACT_SIZE,), -1.0, 1.0)
        )
        self._driver = driver
        self.stream = FakeStream()
        self.device_stream = self.stream.cuda_stream if ordered else None
        self.from_host_calls = 0
        self.moves_in_step = False
        memory = driver.allocate(_OFFSET + NUM_ENVS * _OBS_SIZE * 4)
        self.shown: NDArray[Any] = memory[_OFFSET:].view(np.float32).reshape(NUM_ENVS, _OBS_SIZE)
        self.observations = self.device_observations = DeviceObservations(self._to_host)
        self.observations.publish(self.shown.ctypes.data, self.shown.nbytes)
        self.actions = self.device_actions = DeviceActions(self._from_host)
        self.move_actions()

    def move_actions(self) -> None:
        """Take other memory for actions."""
        memory = self._driver.allocate(_OFFSET + NUM_ENVS * _ACT_SIZE * 4)
        self.given: NDArray[Any] = memory[_OFFSET:].view(np.float32).reshape(NUM_ENVS, _ACT_SIZE)
        self.actions.publish(self.given.ctypes.data, self.given.nbytes)

    def bind(self, buffers: Buffers) -> None:
        self._buffers = buffers

    def step(self, control: NDArray[np.uint8] | None) -> None:
        bits = np.zeros(NUM_ENVS, np.uint8) if control is None else control.copy()
        self.stream.append_work(partial(kernel, self.shown, self.given, bits))
        if self.device_stream is None:
            self.stream.synchronize()
        if self.moves_in_step:
            self.stream.synchronize()
            self.move_actions()
        for array in (self._buffers.rewards, self._buffers.signals):
            array[:] = 1

    def _to_host(self, rows: NDArray[Any]) -> None:
        self.stream.synchronize()
        rows[:] = self.shown

    def _from_host(self, rows: NDArray[Any]) -> None:
        self.from_host_calls += 1
        self.stream.append_work(partial(np.copyto, self.given, rows.copy()))

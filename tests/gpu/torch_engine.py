"""The engine of docs/how-to/gpu.md in a process of its own: PyTorch computes its steps, on a stream.

It ends with its stdin, or kills itself behind the queued work of step `dies_at`.
"""

import os
import signal
import sys
from typing import Any

import numpy as np
import torch  # pyright: ignore[reportMissingImports]
from numpy.typing import NDArray

from lucky_transport import api
from lucky_transport.cuda.memory import DeviceActions, DeviceObservations
from lucky_transport.engine import RESET, Buffers, Engine
from lucky_transport.process import unique_name
from lucky_transport.spec.batch_spec import ArraySpec, BatchSpec


def stepped(observations: Any, actions: Any) -> Any:
    """Return what follows observations: the same bits wherever it is computed, one operation for each value."""
    following = observations * 0.5
    following[:, : actions.shape[1]] += actions
    return following


class TorchEngine(Engine):
    """busy: how many products of matrices each step computes besides, so that its work is done late.

    act_size: of an action, which is as large as an observation where it is 0.
    """

    def __init__(
        self, num_envs: int, size: int, *, device: str = "cuda", busy: int = 0, dies_at: int = 0, act_size: int = 0
    ) -> None:
        shapes = ArraySpec("float32", (size,)), ArraySpec("float32", (act_size or size,))
        self.spec = BatchSpec("torch", num_envs, *shapes, hold=False)
        self._observations: Any = torch.zeros(self.spec.observation_shape, device=device)
        self._actions: Any = torch.zeros(self.spec.action_shape, device=device)
        self._matrix: Any = torch.zeros(4096 if busy else 1, 4096 if busy else 1, device=device)
        self._busy, self._dies_at, self._steps = busy, dies_at, 0
        self.device_stream = torch.cuda.current_stream().cuda_stream if device == "cuda" else None
        observations = self.device_observations = DeviceObservations(to_host=self._to_host)
        observations.publish(self._observations.data_ptr(), self._observations.nbytes)
        actions = self.device_actions = DeviceActions(from_host=self._from_host)
        actions.publish(self._actions.data_ptr(), self._actions.nbytes)

    def bind(self, buffers: Buffers) -> None:
        self._buffers = buffers

    def step(self, control: NDArray[np.uint8] | None) -> None:
        self._steps += 1
        for _ in range(self._busy):
            self._matrix = self._matrix @ self._matrix
        self._observations.copy_(stepped(self._observations, self._actions))
        if control is not None:
            ended: Any = torch.from_numpy((control & RESET) != 0)
            self._observations[ended.to(self._observations.device)] = 0.0
        self._buffers.signals[:] = 1.0
        self._buffers.rewards[:] = 1.0
        if self._steps == self._dies_at:
            os.kill(os.getpid(), signal.SIGKILL)

    def _to_host(self, rows: NDArray[Any]) -> None:
        torch.from_numpy(rows).copy_(self._observations)

    def _from_host(self, rows: NDArray[Any]) -> None:
        self._actions.copy_(torch.from_numpy(rows.copy()))


def main(num_envs: str, size: str, busy: str, dies_at: str, act_size: str = "0") -> None:
    """Be that process."""
    shape, work = (int(num_envs), int(size)), int(busy)
    engine = TorchEngine(*shape, busy=work, dies_at=int(dies_at), act_size=int(act_size))
    with api.serve(engine, f"shm://{unique_name()}") as serving:
        print(serving.endpoints[0], flush=True)
        sys.stdin.read()


if __name__ == "__main__":
    main(*sys.argv[1:])

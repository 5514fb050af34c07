"""The engine on a GPU of the suite of training:

    python -m lucky_transport_migration.bench.workloads.gpu_engine NUM_ENVS OBS_SIZE DEVICE ON_DEMAND

It says `ready` with its endpoint, and ends with its stdin.
"""

from __future__ import annotations

import sys
from typing import Any

from numpy.typing import NDArray

from lucky_transport import api
from lucky_transport.cuda.memory import DeviceActions, DeviceObservations
from lucky_transport.engine import Buffers, Engine
from lucky_transport.process import unique_name
from lucky_transport.spec.batch_spec import ArraySpec, BatchSpec
from lucky_transport_migration.bench.suites.training_gpu import ACT_SIZE


class GpuEngine(Engine):
    """Points that drift; `points`, (num_envs, obs_size), are its observations and begin and end with the step's number.

    It reads its actions on the device too, and returns from a step before that is done. on_demand: writes observations
    for the host where they are asked for. On "cpu" nothing is offered on a device, and a step is done when it returns.
    """

    def __init__(self, num_envs: int, obs_size: int, device: str, *, on_demand: bool = False) -> None:
        import torch  # pyright: ignore[reportMissingImports]

        self.spec = BatchSpec(
            engine="points on a GPU",
            num_envs=num_envs,
            observation=ArraySpec("float32", (obs_size,)),
            action=ArraySpec("float32", (ACT_SIZE,), -1.0, 1.0),
        )
        self.points: Any = torch.zeros(num_envs, obs_size, device=device)
        self._actions: Any = torch.zeros(num_envs, ACT_SIZE, device=device)
        self._of_host = torch.from_numpy
        self._steps = 0
        self._writes = not on_demand
        self._buffers: Buffers
        if device == "cuda":
            torch.cuda.synchronize()
            self.device_stream = torch.cuda.current_stream().cuda_stream
            self.device_observations = DeviceObservations(self.to_host if on_demand else None)
            self.device_observations.publish(self.points.data_ptr(), self.points.nbytes)
            self.device_actions = DeviceActions(self.from_host)
            self.device_actions.publish(self._actions.data_ptr(), self._actions.nbytes)

    def bind(self, buffers: Buffers) -> None:
        self._buffers = buffers

    def step(self, control: NDArray[Any] | None) -> None:
        if self.device_actions is None:
            self.from_host(self._buffers.actions)
        self.advance(self._actions)
        if self._writes:
            self.to_host(self._buffers.observations)

    def advance(self, actions: Any) -> None:
        """Step all envs; what it gives to the present stream may go on."""
        self._steps += 1
        self.points.mul_(0.9).add_(actions.mean(dim=1, keepdim=True), alpha=0.1)
        self.points[0, 0] = self.points[-1, -1] = self._steps

    def to_host(self, rows: NDArray[Any]) -> None:
        """Write the observations into an array."""
        self._of_host(rows).copy_(self.points)

    def from_host(self, rows: NDArray[Any]) -> None:
        """Take actions from an array."""
        self._actions.copy_(self._of_host(rows))


def main(num_envs: str, obs_size: str, device: str, on_demand: str) -> None:
    """Be that program."""
    engine = GpuEngine(int(num_envs), int(obs_size), device, on_demand=bool(on_demand))
    with api.serve(engine, f"shm://{unique_name()}") as serving:
        print("ready", serving.endpoints[0], flush=True)
        sys.stdin.read()


if __name__ == "__main__":
    main(*sys.argv[1:])

"""What a step of a policy on a GPU takes, by the way of its observations: the table of docs/how-to/gpu.md.

    python -m tests.gpu.figures

A step is the policy of 256 hidden units, its actions to the engine, and the observations on the GPU: p50 synchronised,
and the mean in free run. Engines on the host copy their observations; the others are `TorchEngine`, on the same GPU.
What the tensors hold is compared by the tests of this folder.
"""

# pyright: reportMissingImports=false

import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import ExitStack
from typing import Any

import numpy as np

from lucky_transport import api
from lucky_transport.cli.tables import show
from lucky_transport.env.vector_env import VectorEnv
from lucky_transport.process import python_command
from lucky_transport_migration.bench.measuring import QUICK, Effort, measure_loop
from lucky_transport_migration.paths import ConnectedEngine, find_path
from lucky_transport_migration.units import duration_text
from tests.gpu.conftest import why_no_cuda

#: Envs and floats of each.
SIZES = ((64, 48), (4096, 48), (256, 28_224))
_ACTIONS, _HIDDEN = 12, 256
#: Path to an engine on the host, "device" or "" for this process; whether `from_numpy` uploads; the env's options.
WAYS: dict[str, tuple[str, bool, dict[str, Any]]] = {
    "gRPC, from_numpy": ("grpc-batch", True, {"copy": True}),
    "shm, from_numpy": ("shm", True, {"copy": True}),
    "shm, observations_torch, copy=True": ("shm", False, {"copy": True}),
    "shm, observations_torch, copy=False": ("shm", False, {"copy": False}),
    "shm, device memory, copy=True": ("device", False, {"copy": True}),
    "shm, device memory, copy=False": ("device", False, {"copy": False}),
    "shm, device memory alone": ("device", False, {"copy": False, "observations": "device"}),
    "engine and policy in one process": ("", False, {}),
}


def measure(way: str, size: tuple[int, int], effort: Effort, device: str = "cuda") -> tuple[float, float]:
    """Return the seconds of a step, synchronised and in free run; the engine has ended when this returns."""
    import torch

    wait = torch.cuda.synchronize if device == "cuda" else lambda: None
    with ExitStack() as stack, torch.no_grad():
        step = _loop(stack, *WAYS[way], size, device)

        def synchronised(_: Any) -> None:
            step()
            wait()

        stepped = float(np.median(measure_loop(synchronised, np.zeros(0), effort, None).samples_ns)) / 1e9
        count = max(effort.least, int(effort.budget_s / stepped))
        start = time.perf_counter()
        for _ in range(count):
            step()
        wait()
        return stepped, (time.perf_counter() - start) / count


def _loop(
    stack: ExitStack, path: str, uploads: bool, options: dict[str, Any], size: tuple[int, int], device: str
) -> Callable[[], None]:
    """Return what steps once and has the observations on the device."""
    import torch

    num_envs, floats = size
    layers = torch.nn.Linear(floats, _HIDDEN), torch.nn.Tanh(), torch.nn.Linear(_HIDDEN, _ACTIONS), torch.nn.Tanh()
    policy = torch.nn.Sequential(*layers).to(device)
    if not path:
        from tests.gpu.torch_engine import stepped

        alone = [torch.zeros(size, device=device)]

        def advance() -> None:
            alone[0].copy_(stepped(alone[0], policy(alone[0])))

        return advance
    if path == "device":
        sizes = map(str, (num_envs, floats, 0, 0, _ACTIONS))
        command = python_command("tests.gpu.torch_engine", *sizes)
        program = stack.enter_context(
            subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        )
        assert program.stdout is not None
        env = api.make(endpoint=program.stdout.readline().strip(), **options)
    else:
        sized = {"obs_size": floats, "act_size": _ACTIONS}
        link = stack.enter_context(ConnectedEngine(find_path(path), "toy:copy", num_envs, options=sized))
        env = VectorEnv(link.transport, **options)
    stack.enter_context(env)

    def on_device(returned: Any) -> Any:
        return torch.from_numpy(returned).to(device) if uploads else env.observations_torch(device)

    held = [on_device(env.reset()[0])]

    def step() -> None:
        actions = policy(held[0])
        held[0] = on_device(env.step(actions if path == "device" else actions.cpu().numpy())[0])

    return step


def main(effort: Effort) -> None:
    """Measure and print."""
    if why_not := why_no_cuda():
        sys.exit(why_not)
    heads = [f"{envs:,} x {floats:,}" for envs, floats in SIZES]
    found = {way: [measure(way, size, effort) for size in SIZES] for way in WAYS}
    for number, title in enumerate(("synchronised, p50", "free run, mean")):
        rows = [(way, *(duration_text(1e6 * one[number]) for one in times)) for way, times in found.items()]
        show(title, ("", *heads), rows, numbers=True)


if __name__ == "__main__":
    main(QUICK if "--quick" in sys.argv else Effort(budget_s=2.0))

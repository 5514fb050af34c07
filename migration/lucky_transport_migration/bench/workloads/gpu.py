"""A policy on a GPU that steps an engine: over a transport to its host, in its device memory, and in one process."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import ExitStack
from typing import Any

import numpy as np

from lucky_transport import api
from lucky_transport.env.vector_env import VectorEnv
from lucky_transport.errors import RemoteProtocolError
from lucky_transport.process import python_command
from lucky_transport_migration.bench.flow import StreamMeasurement
from lucky_transport_migration.bench.measuring import CpuTimer, Effort, Look, closed_loop
from lucky_transport_migration.bench.processes import serving
from lucky_transport_migration.bench.rows import Measured
from lucky_transport_migration.bench.suite import Case, Cell
from lucky_transport_migration.bench.suites.steps import COPY
from lucky_transport_migration.bench.suites.training_gpu import ACT_SIZE, SIZES
from lucky_transport_migration.bench.workloads.gpu_engine import GpuEngine
from lucky_transport_migration.paths import ConnectedEngine, find_path
from lucky_transport_migration.stats import percentile

_HIDDEN = 256
_LOOKED_AT = "the number of the step at both ends of the frame"

#: Steps once and returns the observations on the device.
Once = Callable[[], Any]


def why_no_gpu() -> str | None:
    """Return why no policy can run on a GPU here, None when one can."""
    try:
        import torch  # pyright: ignore[reportMissingImports]
    except ImportError as error:
        return f"no policy on a GPU: torch cannot be imported: {error}"
    return None if torch.cuda.is_available() else f"no policy on a GPU: PyTorch {torch.__version__} sees no CUDA device"


def measure_gpu(case: Case, effort: Effort, device: str = "cuda") -> dict[Cell, Measured]:
    """Return the measurements of a case's two cells; the engine has ended when this returns.

    Raises RemoteProtocolError for a frame that is not the next one.
    """
    import torch  # pyright: ignore[reportMissingImports]

    stepped, free = case.cells
    wait_for_device = torch.cuda.synchronize if device == "cuda" else lambda: None
    with ExitStack() as stack, torch.no_grad():
        once, pid = _loop(stack, torch, case, *SIZES[stepped.what], device)

        def synchronised(_: Any) -> Any:
            shown = once()
            wait_for_device()
            return shown

        found = closed_loop(synchronised, np.zeros(0), effort, pid, Look(_LOOKED_AT, _number))
        n = max(effort.least, int(effort.budget_s * 1e9 / percentile(found.samples_ns, 50.0)))
        shown = synchronised(None)
        before, watch, start = _number(shown), CpuTimer(pid), time.perf_counter_ns()
        for _ in range(n):
            shown = once()
        wait_for_device()
        took = time.perf_counter_ns() - start
        client, engine = watch.stop()
        if _number(shown) != before + n:
            raise RemoteProtocolError(f"frame {_number(shown)} came where frame {before + n} was due")
    return {
        stepped: found,
        free: StreamMeasurement(n, took, client, engine, watch.same_core(), looked_at=f"{_LOOKED_AT}, of the last"),
    }


def _number(shown: Any) -> int:
    """Return the number of the step that observations show; raises RemoteProtocolError when their ends differ."""
    first, last = float(shown[0, 0]), float(shown[-1, -1])
    if first != last:
        raise RemoteProtocolError(f"a frame begins with the number {first:g} and ends with {last:g}")
    return int(first)


def _loop(
    stack: ExitStack, torch: Any, case: Case, num_envs: int, obs_size: int, device: str
) -> tuple[Once, int | None]:
    """Return the loop of a case's path, and the process of its engine."""
    layers = torch.nn.Linear(obs_size, _HIDDEN), torch.nn.Tanh(), torch.nn.Linear(_HIDDEN, ACT_SIZE), torch.nn.Tanh()
    policy = torch.nn.Sequential(*layers).to(device)
    way, _, how = case.path.partition("-")
    if case.path == "one-process":
        engine = GpuEngine(num_envs, obs_size, device)

        def alone() -> Any:
            engine.advance(policy(engine.points))
            return engine.points

        return alone, None
    if way == "device":
        sizes = (str(num_envs), str(obs_size), device, "on demand" if how == "only" else "")
        server = stack.enter_context(serving("of the engine on a GPU", python_command(GpuEngine.__module__, *sizes)))
        options: dict[str, Any] = {"observations": "device"} if how == "only" else {}
        env, pid = api.make(endpoint=server.ready, copy=how == "copy", **options), server.pid
    else:
        path = find_path("shm" if way == "tensor" else case.path)
        sized = {"obs_size": obs_size, "act_size": ACT_SIZE}
        link = stack.enter_context(ConnectedEngine(path, COPY, num_envs, options=sized, wait=case.wait))
        env, pid = VectorEnv(link.transport, copy=how != "view"), link.pid
    stack.enter_context(env)
    returned = env.reset()[0]
    plain = way in ("shm", "grpc")
    held = [torch.from_numpy(returned).to(device) if plain else env.observations_torch(device)]

    def once() -> Any:
        actions = policy(held[0])
        returned = env.step(actions if way == "device" else actions.cpu().numpy())[0]
        held[0] = torch.from_numpy(returned).to(device) if plain else env.observations_torch(device)
        return held[0]

    return once, pid

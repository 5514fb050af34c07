"""Actions and observations that stay on a device, ordered by two events, in two processes: on a CUDA device alone.

What a stand-in can show of it is in `test_device_order.py` and `test_shm_device.py` of the shm plugin.
"""

import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import pytest

from lucky_transport import api
from lucky_transport.errors import PeerDied
from lucky_transport.process import python_command
from tests.gpu.conftest import Gpu
from tests.support.waiting import PATIENCE_S

_BUSY = 3
_STEPS = 2000
_KILLS = 20


@pytest.fixture(autouse=True)
def real(gpu: Gpu) -> None:
    if not gpu.is_real:
        pytest.skip("the stand-in does all work at once, so it has no order")


@contextmanager
def torch_engine(num_envs: int, size: int, *, busy: int = 0, dies_at: int = 0) -> Iterator[str]:
    """Start an engine, and yield its endpoint."""
    command = python_command("tests.gpu.torch_engine", *map(str, (num_envs, size, busy, dies_at)))
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        endpoint = process.stdout.readline().strip()
        assert endpoint, f"the engine's program ended with {process.wait()}"
        try:
            yield endpoint
        finally:
            process.communicate(timeout=PATIENCE_S)


@pytest.mark.parametrize("copy", [True, False], ids=["copies", "views"])
@pytest.mark.parametrize("busy", [0, _BUSY], ids=["fast engine", "late engine"])
@pytest.mark.parametrize(("num_envs", "size"), [(64, 48), (4096, 48), (256, 28_224)])
def test_a_free_run_has_the_bits_of_one_process(gpu: Gpu, num_envs: int, size: int, busy: int, copy: bool) -> None:
    from tests.gpu.torch_engine import stepped

    torch = gpu.torch
    steps = _STEPS if size < 1000 and not busy else _STEPS // 20
    expected = torch.zeros(num_envs, size, device="cuda")
    wrong = torch.zeros((), dtype=torch.int64, device="cuda")
    with (
        torch_engine(num_envs, size, busy=busy) as endpoint,
        api.make(endpoint=endpoint, observations="device", copy=copy) as env,
    ):
        env.reset()
        seen = env.observations_torch()
        for step in range(steps):
            actions = torch.tanh(seen) + step % 7
            expected = stepped(expected, torch.tanh(expected) + step % 7)
            if step % 10 == 3:
                gpu.busy()
            env.step(actions)
            seen = env.observations_torch()
            wrong += (seen != expected).sum()
            if step % 50 == 20:
                env.reset()
                expected = torch.zeros_like(expected)
                seen = env.observations_torch()
        assert int(wrong) == 0


def test_engines_that_die_behind_queued_work_are_told_and_the_clients_device_works_on() -> None:
    """Each client is a process of its own: CUDA documents nothing of a wait for work that died with its process."""

    def outlive(kill: int) -> str:
        with torch_engine(256, 4096, busy=_BUSY, dies_at=5) as endpoint:
            command = python_command(__name__, endpoint, str(kill % 2))
            done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S)
        return done.stdout or done.stderr

    with ThreadPoolExecutor(4) as pool:
        assert set(pool.map(outlive, range(_KILLS))) == {"dead\nclosed\nended\n"}


def client(endpoint: str, copy: str) -> None:
    """Step until the engine dies, close, and wait for the device; print how far that came."""
    import torch  # pyright: ignore[reportMissingImports]

    env: Any = api.make(endpoint=endpoint, observations="device", copy=copy == "1")
    env.reset()
    try:
        for _ in range(10):
            env.step(torch.tanh(env.observations_torch()))
    except PeerDied:
        print("dead", flush=True)
    env.close()
    print("closed", flush=True)
    torch.cuda.synchronize()
    print("ended", flush=True)


if __name__ == "__main__":
    client(*sys.argv[1:])

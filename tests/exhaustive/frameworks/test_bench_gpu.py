"""The rows of a policy on a GPU in `bench --suite training`, with the real PyTorch, on the CPU at least."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

pytest.importorskip("hdrh", reason="the bench is not installed: pip install 'lucky-transport[bench]'")

from lucky_transport.engine import Buffers
from lucky_transport.errors import RemoteProtocolError
from lucky_transport_migration.bench.measuring import QUICK
from lucky_transport_migration.bench.suite import Case
from lucky_transport_migration.bench.suites import training_gpu
from lucky_transport_migration.bench.suites.training import TRAINING, cases_of, plan_of_training
from lucky_transport_migration.bench.workloads import gpu
from lucky_transport_migration.bench.workloads.gpu_engine import GpuEngine

_SIZE = "3 x 5"


@pytest.fixture
def device(torch: Any, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setitem(training_gpu.SIZES, _SIZE, (3, 5))
    return "cuda" if torch.cuda.is_available() else "cpu"


def cases() -> list[Case]:
    plan = plan_of_training(("grpc", "shm"), None, rounds=1, quick=False)
    return [one for one in cases_of(plan, luckyenv=False, gpu=True) if one.what == f"gpu, {_SIZE}"]


def test_each_way_of_observations_to_a_policy_is_measured_synchronised_and_in_free_run(device: str) -> None:
    pytest.importorskip("grpc", reason="grpcio is not installed: pip install 'lucky-transport[grpc]'")
    for case in cases():
        if case.path == "device-only" and device == "cpu":
            continue
        found = gpu.measure_gpu(case, QUICK, device)
        assert [cell.kind for cell in found] == ["gpu", "gpu_free"]
        stepped: Any
        free: Any
        stepped, free = found.values()
        assert stepped.samples_ns.size > 0
        assert (free.n > 0, free.us_each > 0) == (True, True)
        for cell in found:
            assert TRAINING.title_of(cell).startswith(f"policy on a GPU, {_SIZE} floats, ")


def test_the_engine_writes_for_the_host_at_once_or_on_demand(torch: Any, device: str) -> None:
    for on_demand in (False, True):
        engine = GpuEngine(3, 5, "cpu", on_demand=on_demand)
        engine.bind(Buffers.allocate(engine.spec))
        for step in (1, 2):
            engine.step(None)
            assert gpu._number(engine.points) == step  # pyright: ignore[reportPrivateUsage]
        rows = np.zeros(engine.spec.observation_shape, np.float32)
        engine.to_host(rows)
        assert gpu._number(rows) == 2  # pyright: ignore[reportPrivateUsage]


def test_a_frame_of_two_steps_is_no_result() -> None:
    with pytest.raises(RemoteProtocolError, match="begins with the number 3 and ends with 2"):
        gpu._number(np.array([[3.0, 0.0], [0.0, 2.0]]))  # pyright: ignore[reportPrivateUsage]


def test_a_frame_that_is_shown_twice_ends_the_measurement(device: str, monkeypatch: pytest.MonkeyPatch) -> None:
    (case,) = [one for one in cases() if one.path == "one-process"]
    numbers = iter([1, 2, 2])
    monkeypatch.setattr(gpu, "_number", lambda shown: next(numbers))
    with pytest.raises(RemoteProtocolError, match="frame 2 came where frame 3 was due"):
        gpu.measure_gpu(case, QUICK, device)

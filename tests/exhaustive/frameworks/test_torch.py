"""With the real PyTorch, on the CPU: `env.observations_torch`, and the bench's rows of a policy on a GPU."""

from __future__ import annotations

import re
import warnings
from typing import Any

import numpy as np
import pytest

from lucky_transport.errors import ConfigError, DeviceError

pytest.importorskip("hdrh", reason="the bench is not installed: pip install 'lucky-transport[bench]'")

from lucky_transport.engine import Buffers
from lucky_transport.errors import RemoteProtocolError
from lucky_transport_migration.bench.measuring import QUICK
from lucky_transport_migration.bench.suite import Case
from lucky_transport_migration.bench.suites import training_gpu
from lucky_transport_migration.bench.suites.training import TRAINING, cases_of, plan_of_training
from lucky_transport_migration.bench.workloads import gpu
from lucky_transport_migration.bench.workloads.gpu_engine import GpuEngine


@pytest.mark.parametrize("copy", [True, False])
def test_the_tensor_is_the_newest_observation(make: Any, torch: Any, copy: bool) -> None:
    with make("toy", 3, copy=copy) as env, warnings.catch_warnings():
        warnings.simplefilter("error")
        observations, _ = env.reset(seed=1)
        for _ in range(3):
            tensor = env.observations_torch("cpu")
            assert tensor.dtype == torch.float32
            assert torch.equal(tensor, torch.tensor(observations))
            if env.transport.name == "shm":  # what gRPC receives is read-only, and PyTorch has no such tensors
                assert (tensor.data_ptr() == observations.ctypes.data) is not copy
            observations = env.step(np.zeros((3, 2), np.float32))[0]


def test_jax_reads_the_tensor_by_dlpack_and_its_actions_are_taken(make: Any) -> None:
    jax = pytest.importorskip("jax")
    with make("toy", 3) as env:
        observations, _ = env.reset(seed=1)
        np.testing.assert_array_equal(jax.dlpack.from_dlpack(env.observations_torch("cpu")), observations)
        stepped = env.step(jax.numpy.full((3, 2), 0.3, dtype="float32"))[0]
        env.reset(seed=1)
        np.testing.assert_array_equal(env.step(np.full((3, 2), 0.3, np.float32))[0], stepped)


@pytest.mark.parametrize("device", ["gpu", "cuda:x", None, [0]])
def test_what_is_no_device_is_named_in_one_line(make: Any, torch: Any, device: Any) -> None:
    with make("toy", 1) as env:
        env.reset(seed=1)
        with pytest.raises(ConfigError, match=re.escape(f"device {device!r}: ")) as caught:
            env.observations_torch(device)
        assert "\n" not in str(caught.value)


def test_a_gpu_that_is_not_there_is_an_error_of_ours(make: Any, torch: Any) -> None:
    if torch.cuda.is_available():
        pytest.skip("there is a GPU")
    with make("toy", 1) as env:
        env.reset(seed=1)
        with pytest.raises(DeviceError, match="sees no CUDA device"):
            env.observations_torch("cuda")


# --- `bench --suite training` ---


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
    monkeypatch.setattr(gpu, "_number", lambda shown: 2)
    with pytest.raises(RemoteProtocolError, match=r"frame 2 came where frame \d+ was due"):
        gpu.measure_gpu(case, QUICK, device)

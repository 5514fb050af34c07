"""With the real PyTorch, on the CPU: `env.observations_torch`, and the figures of a policy."""

import re
import warnings
from typing import Any

import numpy as np
import pytest

from lucky_transport.errors import ConfigError, DeviceError
from lucky_transport_migration.bench.measuring import QUICK
from tests.gpu import figures


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


@pytest.mark.parametrize("device", ["cuda", 0, "mps", "xpu", "hpu"])
def test_a_gpu_that_is_not_there_is_an_error_of_ours(make: Any, torch: Any, device: Any) -> None:
    if torch.cuda.is_available():
        pytest.skip("there is a GPU")
    with make("toy", 1) as env:
        env.reset(seed=1)
        with pytest.raises(DeviceError, match=f"device {device!r}: ") as caught:
            env.observations_torch(device)
        assert "\n" not in str(caught.value)


@pytest.mark.parametrize("way", [one for one in figures.WAYS if "device memory" not in one])
def test_the_figures_of_a_policy_have_each_way_to_an_engine_on_the_host(torch: Any, way: str) -> None:
    pytest.importorskip("grpc", reason="grpcio is not installed: pip install 'lucky-transport[grpc]'")
    stepped, free = figures.measure(way, (3, 15), QUICK, "cpu")
    assert stepped > 0
    assert free > 0

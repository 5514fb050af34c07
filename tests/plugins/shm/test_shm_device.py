"""Observations in an engine's device memory, through a segment: offered, opened, replaced and closed.

The driver is a fake, whose device memory is memory of this process: no machine of the tests needs a GPU. The segment is
real, and everything that both ends write and check.
"""

import logging
import os
from collections.abc import Generator
from typing import Any

import numpy as np
import pytest

from lucky_transport import api
from lucky_transport.cuda import libcuda
from lucky_transport.diagnosis import inspection
from lucky_transport.env.vector_env import VectorEnv
from lucky_transport.errors import DeviceError, SegmentError, SpecError
from lucky_transport.process import unique_name
from lucky_transport.serving import Serving
from lucky_transport.shm.segment import device_offer, header
from lucky_transport.shm.segment.device_offer import OBSERVATIONS
from tests.plugins.shm.conftest import mapping_of
from tests.support.fake_cuda import FakeDriver, FakeTorch
from tests.support.late_engine import NUM_ENVS, LateEngine

pytestmark = pytest.mark.usefixtures("torch")

#: Of the observations of a toy with so many envs.
OBS_BYTES = NUM_ENVS * 8 * 4


@pytest.fixture
def engine(driver: FakeDriver) -> LateEngine:
    return LateEngine(driver)


@pytest.fixture
def serving(engine: LateEngine) -> Generator[Serving]:
    with api.serve(engine, f"shm://{unique_name()}") as started:
        yield started


def connect(serving: Serving, **options: Any) -> VectorEnv:
    env = api.make(endpoint=str(serving.endpoints[0]), **options)
    env.reset()
    return env


# -- while all is well


def test_closing_closes_the_handle_and_a_tensor_that_is_held_keeps_it_open(
    serving: Serving, driver: FakeDriver
) -> None:
    env = connect(serving, copy=False)
    env.observations_torch("cuda")
    assert driver.open_count == 1
    env.close()
    assert driver.open_count == 0
    env = connect(serving, copy=False)
    tensor = env.observations_torch("cuda")
    env.close()
    assert driver.open_count == 1
    del tensor, env
    assert driver.open_count == 0


def test_an_engine_without_device_memory_offers_none_and_needs_no_driver(monkeypatch: pytest.MonkeyPatch) -> None:
    def load() -> FakeDriver:
        raise AssertionError("asked for the driver")

    monkeypatch.setattr(libcuda, "load_driver", load)
    with api.serve("toy", f"shm://{unique_name()}") as plain, connect(plain) as env:
        assert device_offer.read_offer(mapping_of(env), OBSERVATIONS, env.batch_spec, "here") is None
        assert inspection.of_segment(plain.endpoints[0].address).gpu == ""


def test_an_engine_of_the_host_costs_one_look_at_the_header_for_each_tensor(
    driver: FakeDriver, monkeypatch: pytest.MonkeyPatch
) -> None:
    looked: list[str] = []
    get = header.get

    def counted(mapping: Any, name: str) -> Any:
        looked.append(name)
        return get(mapping, name)

    with api.serve("toy", f"shm://{unique_name()}") as plain, connect(plain) as env:
        env.observations_torch("cuda")
        monkeypatch.setattr(header, "get", counted)
        env.observations_torch("cuda")
        assert looked == ["gpu_available"]


def test_an_engine_that_stops_withdraws_what_it_offered(engine: LateEngine, driver: FakeDriver) -> None:
    serving = api.serve(engine, f"shm://{unique_name()}")
    with connect(serving) as env:
        mapping = mapping_of(env)
        assert device_offer.read_offer(mapping, OBSERVATIONS, env.batch_spec, "here") is not None
        serving.stop()
        assert device_offer.read_offer(mapping, OBSERVATIONS, env.batch_spec, "here") is None


def test_device_memory_of_a_type_that_pytorch_lacks_is_named(serving: Serving, torch: FakeTorch) -> None:
    torch.lacks = "float32"
    with connect(serving) as env, pytest.raises(SpecError, match="no tensors of float32"):
        env.observations_torch("cuda")


# -- bytes of a peer


@pytest.mark.parametrize(
    ("changes", "error", "message"),
    [
        ({"gpu_obs_size": 44}, SegmentError, "gpu_obs_size is 44, the spec says 48"),
        ({"gpu_obs_size": 1 << 60}, SegmentError, "the spec says 48"),
        ({"gpu_obs_offset": 260}, SegmentError, "do not lie in the 304 bytes"),
        ({"gpu_obs_offset": (1 << 64) - 4}, SegmentError, "do not lie in"),
        ({"gpu_obs_offset": 2}, SegmentError, "not aligned"),
        ({"gpu_obs_generation": 7}, SegmentError, "in the middle of a change"),
        ({"gpu_obs_handle": b"\xff" * 64}, DeviceError, "CUDA_ERROR_INVALID_HANDLE.*another process of this host"),
        ({"gpu_device_uuid": b"\xab" * 16}, DeviceError, r"GPU 0 \(abab.*does not see.*CUDA_VISIBLE_DEVICES"),
        ({"gpu_act_size": 4}, SegmentError, "gpu_act_size is 4, the spec says 24"),
        ({"gpu_act_offset": 1 << 40}, SegmentError, "bytes of actions there do not lie in"),
        ({"gpu_act_offset": 2}, SegmentError, "gpu_act_offset is 2, not aligned"),
        ({"gpu_act_generation": 7}, SegmentError, "gpu_act_generation is 7, in the middle of a change"),
        ({"gpu_act_handle": b"\xff" * 64}, DeviceError, "CUDA_ERROR_INVALID_HANDLE"),
        ({"gpu_act_device_uuid": b"\xab" * 16}, DeviceError, "actions lie on its GPU 0 .*does not see"),
        ({"gpu_events_generation": 7}, SegmentError, "gpu_events_generation is 7, in the middle of a change"),
        ({"gpu_frame_event": b"\xff" * 64}, DeviceError, "cuIpcOpenEventHandle failed"),
        ({"gpu_client_event": b"\xff" * 64}, DeviceError, "cuIpcOpenEventHandle failed"),
        ({"gpu_events_device_uuid": b"\xab" * 16}, DeviceError, "events are on its GPU 0 .*does not see"),
    ],
)
def test_an_offer_that_does_not_fit_is_refused_and_nothing_stays_open(
    driver: FakeDriver, torch: FakeTorch, changes: dict[str, Any], error: type[Exception], message: str
) -> None:
    actions = torch.on_gpu(np.zeros((NUM_ENVS, 2), np.float32))
    endpoint = f"shm://{unique_name()}"
    with api.serve(LateEngine(driver), endpoint), api.make(endpoint=endpoint) as env:
        env.reset()
        events = len(driver.open_events)
        for name, value in changes.items():
            header.put(mapping_of(env), name, value)
        of_observations = any(name.startswith(("gpu_obs", "gpu_device")) for name in changes)
        with pytest.raises(error, match=message):
            env.observations_torch("cuda") if of_observations else env.step(actions)
        assert len(driver.open_events) == events
        assert header.get(mapping_of(env), "gpu_client_generation") == 0
    assert driver.open_count == 0


@pytest.fixture
def env(driver: FakeDriver) -> Generator[VectorEnv]:
    with api.serve("toy", f"shm://{unique_name()}", num_envs=NUM_ENVS) as plain, connect(plain) as made:
        yield made


def test_an_engine_that_knows_only_the_seeds_fields_is_understood(env: VectorEnv, driver: FakeDriver) -> None:
    expected = env.observations_torch("cpu").numpy()
    memory = driver.allocate(OBS_BYTES)
    memory[:] = np.frombuffer(expected.tobytes(), np.uint8)
    handle = driver.export(memory.ctypes.data).handle
    for name, value in {"gpu_available": 1, "gpu_obs_mode": 1, "gpu_obs_handle": handle, "gpu_device_id": 0}.items():
        header.put(mapping_of(env), name, value)
    np.testing.assert_array_equal(env.observations_torch("cuda").cpu().numpy(), expected)
    assert driver.opened == [memory.ctypes.data]


def test_memory_shared_by_vulkan_is_left_alone_and_the_segment_is_copied(env: VectorEnv, driver: FakeDriver) -> None:
    memory = driver.export(driver.allocate(OBS_BYTES).ctypes.data)
    device_offer.write_offer(mapping_of(env), OBSERVATIONS, memory, OBS_BYTES)
    header.put(mapping_of(env), "gpu_obs_mode", 2)
    expected = env.observations_torch("cpu").numpy()
    tensor = env.observations_torch("cuda")
    env.step(np.full((NUM_ENVS, 2), 0.3, np.float32))
    np.testing.assert_array_equal(tensor.numpy(), expected)
    assert driver.opened == []


# -- the engine's end, and the process's


def test_what_is_published_must_be_the_observations(driver: FakeDriver, engine: LateEngine, serving: Serving) -> None:
    with pytest.raises(DeviceError, match=f"12 bytes .* the observations have {engine.shown.nbytes}"):
        engine.observations.publish(engine.shown.ctypes.data, 12)


def test_an_engine_whose_memory_cannot_be_shared_does_not_start_and_leaves_nothing(
    driver: FakeDriver, engine: LateEngine
) -> None:
    driver.fails["export"] = "CUDA_ERROR_INVALID_VALUE (memory of a pool)"
    name = unique_name()
    with pytest.raises(DeviceError, match="memory of a pool"):
        api.serve(engine, f"shm://{name}")
    assert not [path for path in os.listdir("/dev/shm") if name in path]


def test_a_driver_that_fails_to_close_is_logged_and_closing_goes_on(
    serving: Serving, driver: FakeDriver, caplog: pytest.LogCaptureFixture
) -> None:
    env = connect(serving)
    env.observations_torch("cuda")
    driver.fails["close"] = "CUDA_ERROR_UNKNOWN"
    with caplog.at_level(logging.WARNING):
        env.close()
    assert "was not closed" in caplog.text

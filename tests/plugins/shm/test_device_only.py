"""Observations that stay in an engine's device memory, and are written for the host when somebody reads them there.

The driver is the fake of `tests.support.fake_cuda`; the segment and both ends of it are real.
"""

from __future__ import annotations

import pickle
import sys
from collections.abc import Generator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from lucky_transport import api
from lucky_transport.cuda import libcuda
from lucky_transport.cuda.memory import DeviceObservations
from lucky_transport.diagnosis import inspection
from lucky_transport.engine import Buffers
from lucky_transport.engines.toy import ToyEngine
from lucky_transport.env.device_env import DeviceVectorEnv
from lucky_transport.errors import ConfigError, DeviceError, EngineFailed, LocalProtocolError, SpecError
from lucky_transport.process import unique_name
from lucky_transport.serving import Serving
from tests.support.fake_cuda import FakeDriver, FakeTorch

NUM_ENVS, OBS_SIZE = 3, 8
ACTIONS = np.full((NUM_ENVS, 2), 0.3, np.float32)


class OnDemandToy(ToyEngine):
    """A toy whose observations are on the (fake) GPU, and written for the host by `to_host` alone."""

    def __init__(self, driver: FakeDriver) -> None:
        super().__init__(NUM_ENVS, obs_size=OBS_SIZE)
        self.memory = driver.allocate(NUM_ENVS * OBS_SIZE * 4).view(np.float32).reshape(NUM_ENVS, OBS_SIZE)
        self.written = 0
        self.fails = False
        self.published = self.device_observations = DeviceObservations(self.to_host)
        self.published.publish(self.memory.ctypes.data, self.memory.nbytes)

    def bind(self, buffers: Buffers) -> None:
        super().bind(replace(buffers, observations=self.memory))

    def to_host(self, rows: NDArray[Any]) -> None:
        if self.fails:
            raise RuntimeError("an illegal memory access was encountered")
        rows[:] = self.memory
        self.written += 1


@pytest.fixture
def driver(monkeypatch: pytest.MonkeyPatch) -> FakeDriver:
    fake = FakeDriver()
    monkeypatch.setattr(libcuda, "load_driver", lambda: fake)
    monkeypatch.setitem(sys.modules, "torch", FakeTorch())  # pyright: ignore[reportArgumentType]
    return fake


@pytest.fixture
def engine(driver: FakeDriver) -> OnDemandToy:
    return OnDemandToy(driver)


@pytest.fixture(params=[1, 2], ids=["one slot", "two slots"])
def serving(engine: OnDemandToy, request: pytest.FixtureRequest) -> Generator[Serving]:
    with api.serve(engine, f"shm://{unique_name()}", observation_slots=request.param) as started:
        yield started


def connect(serving: Serving, **options: Any) -> Any:
    return api.make(endpoint=str(serving.endpoints[0]), **options)


def expected(steps: int) -> list[NDArray[Any]]:
    """Return what a toy of the host shows after a reset with seed 4 and after each of `steps` steps."""
    with api.make("toy", NUM_ENVS, options={"obs_size": OBS_SIZE}, transport="inproc") as env:
        return [env.reset(seed=4)[0]] + [env.step(ACTIONS)[0] for _ in range(steps)]


def test_a_client_that_does_not_ask_gets_every_frame_as_before(serving: Serving, engine: OnDemandToy) -> None:
    with connect(serving) as env:
        frames = [env.reset(seed=4)[0]] + [env.step(ACTIONS)[0] for _ in range(3)]
        np.testing.assert_array_equal(frames, expected(3))
        np.testing.assert_array_equal(env.observations_torch("cuda").numpy(), frames[-1])


def test_a_client_that_asks_finds_them_on_the_device_and_none_is_written_for_the_host(
    serving: Serving, engine: OnDemandToy
) -> None:
    frames = expected(3)
    with connect(serving, observations="device") as env:
        np.testing.assert_array_equal(env.reset(seed=4)[0], frames[0])
        written = engine.written
        for frame in frames[1:]:
            env.step(ACTIONS)
            for device in ("cuda", "cpu"):
                np.testing.assert_array_equal(env.observations_torch(device).numpy(), frame)
        assert engine.written == written


def test_rewards_flags_and_infos_are_those_of_an_env_on_the_host(serving: Serving) -> None:
    with (
        connect(serving, observations="device") as env,
        api.make("toy", NUM_ENVS, options={"obs_size": OBS_SIZE}, transport="inproc") as host,
    ):
        env.reset(seed=4)
        host.reset(seed=4)
        for _ in range(5):
            _, *rest, info = env.step(ACTIONS)
            _, *host_rest, host_info = host.step(ACTIONS)
            np.testing.assert_equal((rest, dict(info)), (host_rest, dict(host_info)))


@pytest.mark.parametrize(
    "read",
    [
        np.asarray,
        np.array,
        len,
        iter,
        bool,
        hash,
        lambda seen: seen[0],
        lambda seen: seen + 1,
        lambda seen: seen == 0,
        lambda seen: seen.shape,
        lambda seen: seen.copy(),
        lambda seen: np.stack([seen, seen]),
    ],
)
def test_what_a_step_returns_in_their_place_cannot_be_read(serving: Serving, read: Any) -> None:
    with connect(serving, observations="device") as env:
        env.reset(seed=4)
        with pytest.raises(LocalProtocolError, match=r"on the device alone.*observations_torch"):
            read(env.step(ACTIONS)[0])


def test_it_is_taken_back_from_the_next_step_on(serving: Serving, engine: OnDemandToy) -> None:
    frames = expected(3)
    with connect(serving, observations="device") as env:
        env.reset(seed=4)
        env.step(ACTIONS)
        env.observations = "host"
        np.testing.assert_array_equal(env.observations_torch("cpu").numpy(), frames[1])  # that frame is not in it
        np.testing.assert_array_equal(env.step(ACTIONS)[0], frames[2])
        np.testing.assert_array_equal(env.observations_torch("cpu").numpy(), frames[2])
        env.observations = "device"
        with pytest.raises(LocalProtocolError):
            len(env.step(ACTIONS)[0])
        assert env.observations == "device"
        with pytest.raises(ConfigError, match="'gpu': expected 'host' or 'device'"):
            env.observations = "gpu"


def test_a_reset_in_mid_run_returns_the_hosts_and_the_next_step_none(serving: Serving) -> None:
    with connect(serving, observations="device", autoreset_mode="Disabled") as env:
        env.reset(seed=4)
        env.step(ACTIONS)
        before = env.observations_torch("cuda").numpy()
        mask = np.array([True, False, False])
        rows = env.reset(seed=4, options={"reset_mask": mask})[0]
        np.testing.assert_array_equal(rows[1:], before[1:])  # not reset, and not those of an older frame
        np.testing.assert_array_equal(rows[0], expected(0)[0][0])
        with pytest.raises(LocalProtocolError):
            len(env.step(ACTIONS)[0])


def test_the_next_client_finds_the_last_frame_of_one_that_left_it_on_the_device(
    serving: Serving, engine: OnDemandToy
) -> None:
    with connect(serving, observations="device", autoreset_mode="Disabled") as env:
        env.reset(seed=4)
        env.step(ACTIONS)
        last = env.observations_torch("cuda").numpy()
    with connect(serving) as env:
        held = env.transport.step(ACTIONS, np.full(NUM_ENVS, 2, np.uint8)).observations.copy()
        np.testing.assert_array_equal(held, last)
        env.reset(seed=4)
        np.testing.assert_array_equal(env.step(ACTIONS)[0], expected(1)[1])


def test_an_engine_that_withdraws_its_memory_meanwhile_is_told_from_an_old_frame(
    serving: Serving, engine: OnDemandToy
) -> None:
    with connect(serving, observations="device") as env:
        env.reset(seed=4)
        env.step(ACTIONS)
        engine.published.withdraw()
        with pytest.raises(DeviceError, match=r"on no device any more.*env.observations = 'host'"):
            env.observations_torch("cuda")
        env.observations = "host"
        np.testing.assert_array_equal(env.step(ACTIONS)[0], expected(2)[2])


def test_a_copy_to_the_host_that_fails_fails_the_step_that_asked_for_it(serving: Serving, engine: OnDemandToy) -> None:
    with connect(serving, observations="device") as env:
        env.reset(seed=4)
        engine.fails = True
        env.step(ACTIONS)
        env.observations = "host"
        with pytest.raises(EngineFailed, match="illegal memory access"):
            env.step(ACTIONS)
        engine.fails = False
        np.testing.assert_array_equal(env.reset(seed=4)[0], expected(0)[0])


def test_an_env_on_the_device_is_pickled_as_one(serving: Serving) -> None:
    with connect(serving, observations="device") as env:
        recipe = pickle.dumps(env)
    with pickle.loads(recipe) as again:
        assert isinstance(again, DeviceVectorEnv)


def test_inspection_says_that_they_are_written_on_demand(serving: Serving) -> None:
    assert "by CUDA IPC; here on demand" in inspection.of_segment(serving.endpoints[0].address).gpu


# -- refused


@pytest.mark.parametrize("transport", ["shm", "inproc"])
def test_an_engine_that_writes_every_frame_for_the_host_is_named(transport: str) -> None:
    with pytest.raises(ConfigError, match=r"engine 'toy'.*writes every observation for the host.*to_host"):
        api.make("toy", transport=transport, observations="device")


def test_a_recording_reads_every_frame_on_the_host(serving: Serving, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="without interceptors"):
        connect(serving, observations="device", record=str(tmp_path / "run.jsonl.gz"))
    with connect(serving, record=str(tmp_path / "run.jsonl.gz")) as env:
        env.reset(seed=4)
        np.testing.assert_array_equal(env.step(ACTIONS)[0], expected(1)[1])


def test_same_step_is_refused_since_final_observations_are_the_hosts(serving: Serving) -> None:
    with pytest.raises(ConfigError, match=r"SAME_STEP.*NEXT_STEP"):
        connect(serving, observations="device", autoreset_mode="SameStep")


def test_observations_with_parts_are_refused() -> None:
    with pytest.raises(SpecError, match="have parts"):
        api.make("toy:composite", transport="shm", observations="device")


def test_another_place_is_refused_by_name() -> None:
    with pytest.raises(ConfigError, match="observations 'gpu': expected 'host' or 'device'"):
        api.make("toy", observations="gpu")

"""Observations that stay in an engine's device memory, and are written for the host when somebody reads them there."""

import copy
import pickle
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from lucky_transport import api
from lucky_transport.env.device_env import DeviceVectorEnv, OnDevice
from lucky_transport.errors import ConfigError, DeviceError, EngineFailed, LocalProtocolError, SpecError
from tests.gpu.conftest import NUM_ENVS, Gpu, actions_at, reference
from tests.gpu.engine import EngineUnderTest

ACTIONS = actions_at(0)


@pytest.fixture(params=[1, 2], ids=["one slot", "two slots"])
def engine(gpu: Gpu, request: pytest.FixtureRequest) -> Iterator[EngineUnderTest]:
    with gpu.start(slots=request.param, on_demand=True) as started:
        yield started


def connect(engine: EngineUnderTest, **options: Any) -> Any:
    return api.make(endpoint=engine.endpoint, **options)


def expected(steps: int) -> list[NDArray[Any]]:
    """Return what a toy of the host shows after a reset with seed 4 and after each of `steps` steps."""
    with reference() as env:
        return [env.reset(seed=4)[0]] + [env.step(ACTIONS)[0] for _ in range(steps)]


def test_a_client_that_does_not_ask_gets_every_frame_as_before(engine: EngineUnderTest) -> None:
    with connect(engine) as env:
        frames = [env.reset(seed=4)[0]] + [env.step(ACTIONS)[0] for _ in range(3)]
        np.testing.assert_array_equal(frames, expected(3))
        np.testing.assert_array_equal(env.observations_torch("cuda").cpu().numpy(), frames[-1])


def test_a_client_that_asks_finds_them_on_the_device_and_none_is_written_for_the_host(engine: EngineUnderTest) -> None:
    frames = expected(3)
    with connect(engine, observations="device") as env:
        np.testing.assert_array_equal(env.reset(seed=4)[0], frames[0])
        written = engine.ask("written")
        for frame in frames[1:]:
            assert isinstance(env.step(ACTIONS)[0], OnDevice)
            for device in ("cuda", "cpu"):
                np.testing.assert_array_equal(env.observations_torch(device).cpu().numpy(), frame)
        assert engine.ask("written") == written


def test_rewards_flags_and_infos_are_those_of_an_env_on_the_host(engine: EngineUnderTest) -> None:
    with connect(engine, observations="device") as env, reference() as host:
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
        lambda seen: seen >= 0,
        lambda seen: 2 / seen,
        lambda seen: seen**2,
        lambda seen: -seen,
        abs,
        int,
        round,
        copy.copy,
        lambda seen: seen.shape,
        lambda seen: seen.copy(),
        lambda seen: np.stack([seen, seen]),
    ],
)
def test_what_a_step_returns_in_their_place_cannot_be_read(read: Any) -> None:
    with pytest.raises(LocalProtocolError, match=r"on the device alone.*observations_torch"):
        read(OnDevice("shm"))


def test_it_is_taken_back_from_the_next_step_on(engine: EngineUnderTest) -> None:
    frames = expected(3)
    with connect(engine, observations="device") as env:
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


def test_a_reset_in_mid_run_returns_the_hosts_and_the_next_step_none(engine: EngineUnderTest) -> None:
    with connect(engine, observations="device", autoreset_mode="Disabled") as env:
        env.reset(seed=4)
        env.step(ACTIONS)
        before = env.observations_torch("cuda").cpu().numpy()
        mask = np.arange(NUM_ENVS) == 0
        rows = env.reset(seed=4, options={"reset_mask": mask})[0]
        np.testing.assert_array_equal(rows[1:], before[1:])  # not reset, and not those of an older frame
        np.testing.assert_array_equal(rows[0], expected(0)[0][0])
        with pytest.raises(LocalProtocolError):
            len(env.step(ACTIONS)[0])


def test_the_next_client_finds_the_last_frame_of_one_that_left_it_on_the_device(engine: EngineUnderTest) -> None:
    with connect(engine, observations="device", autoreset_mode="Disabled") as env:
        env.reset(seed=4)
        env.step(ACTIONS)
        last = env.observations_torch("cuda").cpu().numpy()
    with connect(engine) as env:
        held = env.transport.step(ACTIONS, np.full(NUM_ENVS, 2, np.uint8)).observations.copy()
        np.testing.assert_array_equal(held, last)
        env.reset(seed=4)
        np.testing.assert_array_equal(env.step(ACTIONS)[0], expected(1)[1])


def test_an_engine_that_withdraws_its_memory_meanwhile_is_told_from_an_old_frame(engine: EngineUnderTest) -> None:
    with connect(engine, observations="device") as env:
        env.reset(seed=4)
        env.step(ACTIONS)
        engine.ask("withdraw")
        with pytest.raises(DeviceError, match=r"on no device any more.*env.observations = 'host'"):
            env.observations_torch("cuda")
        env.observations = "host"
        np.testing.assert_array_equal(env.step(ACTIONS)[0], expected(2)[2])


def test_a_copy_to_the_host_that_fails_fails_the_step_that_asked_for_it(engine: EngineUnderTest) -> None:
    with connect(engine, observations="device") as env:
        env.reset(seed=4)
        engine.ask("fail", True)
        env.step(ACTIONS)
        env.observations = "host"
        with pytest.raises(EngineFailed, match="illegal memory access"):
            env.step(ACTIONS)
        engine.ask("fail", False)
        np.testing.assert_array_equal(env.reset(seed=4)[0], expected(0)[0])


def test_an_env_on_the_device_is_pickled_as_one(engine: EngineUnderTest) -> None:
    with connect(engine, observations="device") as env:
        recipe = pickle.dumps(env)
    with pickle.loads(recipe) as again:
        assert isinstance(again, DeviceVectorEnv)


# -- refused


def test_a_recording_reads_every_frame_on_the_host(engine: EngineUnderTest, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="without interceptors"):
        connect(engine, observations="device", record=str(tmp_path / "run.jsonl.gz"))
    with connect(engine, record=str(tmp_path / "run.jsonl.gz")) as env:
        env.reset(seed=4)
        np.testing.assert_array_equal(env.step(ACTIONS)[0], expected(1)[1])


def test_same_step_is_refused_since_final_observations_are_the_hosts(engine: EngineUnderTest) -> None:
    with pytest.raises(ConfigError, match=r"SAME_STEP.*NEXT_STEP"):
        connect(engine, observations="device", autoreset_mode="SameStep")


@pytest.mark.parametrize(
    ("engine_name", "options", "error", "words"),
    [
        ("toy", {"transport": "shm"}, ConfigError, r"engine 'toy'.*writes every observation for the host.*to_host"),
        ("toy", {"transport": "inproc"}, ConfigError, r"engine 'toy'.*writes every observation for the host.*to_host"),
        ("toy", {"observations": "gpu"}, ConfigError, "observations 'gpu': expected 'host' or 'device'"),
        pytest.param("toy:composite", {"transport": "shm"}, SpecError, "have parts", marks=pytest.mark.exhaustive),
    ],
)
def test_what_cannot_be_on_a_device_is_refused(
    engine_name: str, options: dict[str, Any], error: type[Exception], words: str
) -> None:
    asked: Any = {"observations": "device"} | options
    with pytest.raises(error, match=words):
        api.make(engine_name, **asked)

"""Gymnasium envs as an engine: each is called as its control byte says, one exchange after the other."""

from typing import Any

import numpy as np
import pytest

from lucky_transport.api import make, make_engine
from lucky_transport.engine import HOLD, RESET, Buffers, Engine
from lucky_transport.errors import EngineFailed, SpecError
from lucky_transport.host.host import Host
from lucky_transport.messages import SetResetOptionsRequest, SetSeedsRequest, SimulationContract
from lucky_transport.messages.methods import method
from lucky_transport.testing.contract import EngineContract

SET_SEEDS = method("BatchService/SetSeeds")
SET_RESET_OPTIONS = method("BatchService/SetResetOptions")


class TestMountainCar(EngineContract):
    def make_engine(self, num_envs: int) -> Engine:
        return make_engine("gymnasium:MountainCar-v0", num_envs, seed=3, max_episode_steps=30)


class TestPendulum(EngineContract):
    def make_engine(self, num_envs: int) -> Engine:
        return make_engine("gymnasium:Pendulum-v1", num_envs, seed=3, max_episode_steps=30)


class TestPatchwork(EngineContract):
    @pytest.fixture(autouse=True)
    def _registered(self, diaries: list[Any]) -> None: ...

    def make_engine(self, num_envs: int) -> Engine:
        return make_engine("gymnasium:lucky_test/Patchwork-v0", num_envs, seed=3)


class TestFrozenLake(EngineContract):
    random_start = False

    def make_engine(self, num_envs: int) -> Engine:
        return make_engine("gymnasium:FrozenLake-v1", num_envs, seed=3)


def test_the_spec_has_one_reward_term_and_the_envs_own_limits() -> None:
    spec = make_engine("gymnasium:CartPole-v1", 2).spec
    assert spec.engine == "gymnasium:CartPole-v1"
    assert spec.reward_terms == ("reward",)
    assert spec.termination_terms == ()
    assert (spec.reset_ticks, spec.hold) == (0, True)
    assert (spec.action.dtype, spec.action.n) == ("int64", 2)
    assert spec.attributes["task"] == "CartPole-v1"
    assert spec.attributes["max_episode_steps"] == 500
    assert spec.attributes["render_fps"] == 50


@pytest.mark.parametrize("transport", ["inproc", "shm"])
def test_an_env_has_the_id_and_the_limit_of_its_envs_and_says_that_it_draws_nothing(transport: str) -> None:
    with make("gymnasium:CartPole-v1", num_envs=2, transport=transport) as env:
        assert env.spec is not None
        assert (env.spec.id, env.spec.max_episode_steps) == ("CartPole-v1", 500)
        assert env.get_attr("spec") == (env.spec, env.spec)
        with pytest.warns(UserWarning, match="is not carried"):
            assert env.render() == (None, None)


def test_envs_step_one_after_the_other_and_their_info_is_dropped(
    diaries: list[Any], caplog: pytest.LogCaptureFixture
) -> None:
    with make("gymnasium:lucky_test/Diary-v0", 4, transport="inproc") as env:
        env.reset(seed=0)
        for _ in range(5):
            *_, info = env.step(np.zeros((4, 3), np.float32))
            assert "note" not in info
    assert [len(diary.calls) for diary in diaries] == [6] * 4
    assert len(diaries[0].threads) == 1  # in one thread, so one at a time
    said = [record.getMessage() for record in caplog.records if "dropped" in record.getMessage()]
    assert [one.rpartition(": ")[2] for one in said] == ["fresh", "note"]  # each part once


class _Driver:
    """Diary envs behind a host."""

    def __init__(self, num_envs: int, **options: Any) -> None:
        self.host = Host(make_engine("gymnasium:lucky_test/Diary-v0", num_envs, **options))
        self.buffers = Buffers.allocate(self.host.spec)
        self.lease = self.host.drive("test", self.buffers)

    def step(self, *control: int) -> None:
        self.lease.step(np.array(control, np.uint8) if control else None)


def test_each_env_is_called_as_its_control_byte_says(diaries: list[Any]) -> None:
    driver = _Driver(3)
    driver.step(RESET, RESET, RESET)
    driver.step(0, HOLD, RESET)
    driver.step()
    reset = ("reset", None, None)
    assert [diary.calls for diary in diaries] == [[reset, "step", "step"], [reset, "step"], [reset, reset, "step"]]


def test_seeds_are_used_once_and_by_the_envs_they_are_for(diaries: list[Any]) -> None:
    driver = _Driver(2, seed=40)
    driver.step(RESET, HOLD)
    driver.step(RESET, RESET)
    driver.host.call(SET_SEEDS, SetSeedsRequest([7, 8], bytes([0, 1])))
    driver.step(RESET, RESET)
    driver.step(RESET, RESET)
    assert [seed for _, seed, _ in diaries[0].calls] == [40, None, None, None]
    assert [seed for _, seed, _ in diaries[1].calls] == [41, 8, None]


@pytest.mark.parametrize(
    ("row", "request_", "words"),
    [
        (SET_SEEDS, SetSeedsRequest([1]), "for 2 envs"),
        (SET_SEEDS, SetSeedsRequest([1, 2], b"\1\1\1"), "for 2 envs"),
        (SET_RESET_OPTIONS, SetResetOptionsRequest(None, "{"), "is no JSON"),
        (SET_RESET_OPTIONS, SetResetOptionsRequest(None, "3"), "is no JSON object"),
        (
            SET_RESET_OPTIONS,
            SetResetOptionsRequest(SimulationContract(friction_range=[1, 2])),
            "knows no randomisation",
        ),
    ],
)
def test_what_the_envs_cannot_be_reset_with_is_refused(diaries: list[Any], row: Any, request_: Any, words: str) -> None:
    try:
        answer = _Driver(2).host.call(row, request_)
        said = "" if answer.success else answer.message
    except SpecError as error:
        said = str(error)
    assert words in said


def test_reset_options_go_to_the_envs_reset_next_and_are_used_once(diaries: list[Any]) -> None:
    driver = _Driver(2)
    assert driver.host.call(SET_RESET_OPTIONS, SetResetOptionsRequest(None, '{"level": 3}')).success
    driver.step()
    driver.step(RESET, HOLD)
    driver.step(RESET, RESET)
    assert diaries[0].calls[1:] == [("reset", None, {"level": 3}), ("reset", None, None)]
    assert diaries[1].calls[1:] == [("reset", None, None)]


def test_a_contract_that_asks_for_nothing_is_fine(diaries: list[Any]) -> None:
    assert _Driver(1).host.call(SET_RESET_OPTIONS, SetResetOptionsRequest(SimulationContract())).success


def test_an_env_gets_its_own_copy_of_its_action(diaries: list[Any]) -> None:
    driver = _Driver(2)
    driver.buffers.actions[:] = [[0.1, 0.2, 0.3], [0.4, 0.5, 0.6]]
    before = driver.buffers.actions.copy()
    driver.step()
    assert driver.buffers.actions.tobytes() == before.tobytes()
    assert diaries[1].last_action == pytest.approx([1.4, 1.5, 1.6])  # what the env made of its copy
    assert driver.buffers.observations[1] == pytest.approx([0.4, 0.5])


def test_an_env_that_raises_is_an_engine_failure_that_names_the_cause(diaries: list[Any]) -> None:
    driver = _Driver(1, fail_at=2)
    driver.step(RESET)
    with pytest.raises(EngineFailed, match="ZeroDivisionError: out of pins") as caught:
        driver.step()
    assert isinstance(caught.value.__cause__, ZeroDivisionError)


@pytest.mark.parametrize("shape", [(), (1,), (3,), (1, 2)])
def test_an_observation_of_another_shape_than_promised_is_refused(diaries: list[Any], shape: tuple[int, ...]) -> None:
    driver = _Driver(1, observation_shape=shape)
    with pytest.raises(ValueError, match=r"observation has shape .* its observation_space says \(2,\)"):
        driver.step(RESET)


@pytest.mark.parametrize(
    ("reward", "said"),
    [
        (None, r"None \(object\)"),
        (2j, r"2j \(complex128\)"),
        ("1.5", r"1\.5 \(<U3\)"),
        (np.array([3.5]), r"shape \(1,\)"),
    ],
)
def test_a_reward_that_is_no_real_number_is_refused(diaries: list[Any], reward: Any, said: str) -> None:
    driver = _Driver(2, reward=reward)
    driver.step(RESET, RESET)
    with pytest.raises(SpecError, match=f"gymnasium:lucky_test/Diary-v0: env 0: reward has {said}"):
        driver.step()


@pytest.mark.parametrize("reward", [np.float64(1.5), np.array(2.5), 4, True, np.nan, np.float32(0.1), 0.1])
def test_a_reward_that_is_a_real_number_is_float32_and_its_own_signal(diaries: list[Any], reward: Any) -> None:
    driver = _Driver(1, reward=reward)
    driver.step(RESET)
    driver.step()
    expected = np.array([reward], np.float32).tobytes()
    assert driver.buffers.rewards.tobytes() == driver.buffers.signals.tobytes() == expected


def test_closing_closes_every_env_once_and_reports_the_first_failure(diaries: list[Any]) -> None:
    engine = make_engine("gymnasium:lucky_test/Diary-v0", 3, fail_close=True)
    with pytest.raises(OSError, match="stuck"):
        engine.close()
    assert all(diary.closed for diary in diaries)
    engine.close()

"""LuckyEnv of our own: one agent of the quadruped, over shared memory, with neither luckyrobots nor gRPC."""

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

pytest.importorskip("mujoco", reason="mujoco is not installed: pip install 'lucky-transport[mujoco]'")

import lucky_transport
from lucky_transport import LuckyEnv
from lucky_transport.errors import ClosedError, EngineFailed, NotReachable, SpecError
from lucky_transport.messages import SimulationContract
from lucky_transport.process import unique_name

REWARDS = ["track_lin_vel_xy", "alive"]
TERMINATIONS = ["fell_over", "time_out"]


@pytest.fixture
def endpoint() -> Iterator[str]:
    """An engine that nobody has driven yet."""
    name = f"shm://{unique_name()}"
    with lucky_transport.serve("mujoco:quadruped", name, seed=3):
        yield name


def test_it_is_the_agent_of_the_engine_with_spaces_of_its_sizes(endpoint: str) -> None:
    with LuckyEnv("quadruped", "flat", endpoint=endpoint) as env:
        assert env.observation_space.shape == (48,)
        assert env.action_space.shape == (12,)
        observation, info = env.reset()
        assert observation.dtype == np.float32
        assert observation in env.observation_space
        assert info["step_count"] == 0
        assert env.step(env.action_space.sample())[4]["step_count"] == 1


@pytest.mark.parametrize("reward_fn", [None, lambda signals: -signals["alive"]])
def test_steps_carry_the_negotiated_terms_and_their_sum_or_what_a_function_makes_of_them(
    endpoint: str, reward_fn: Any
) -> None:
    terms: dict[str, Any] = {"reward_terms": REWARDS, "termination_terms": TERMINATIONS}
    with LuckyEnv(**terms, reward_fn=reward_fn, endpoint=endpoint) as env:
        env.reset()
        _, reward, terminated, truncated, info = env.step(np.zeros(12))
        signals = info["reward_signals"]
        assert signals.keys() == set(REWARDS)
        assert reward == (reward_fn(signals) if reward_fn else sum(signals.values())) != 0
        assert info["termination_flags"] == {"fell_over": terminated, "time_out": truncated}


def test_an_episode_that_takes_too_long_is_truncated_not_terminated() -> None:
    name = f"shm://{unique_name()}"
    with (
        lucky_transport.serve("mujoco:quadruped", name, options={"max_episode_steps": 8}),
        LuckyEnv(termination_terms=["time_out"], endpoint=name) as env,
    ):
        env.reset()
        assert [env.step(np.zeros(12))[2:4] for _ in range(8)][-1] == (False, True)


@pytest.mark.parametrize(
    "given",
    [
        {"joint_position_noise": 0.3},
        SimpleNamespace(joint_position_noise=0.3, unrelated="x", friction_range=None),
        SimulationContract(joint_position_noise=0.3),
    ],
    ids=["dict", "object", "contract"],
)
def test_a_randomisation_takes_effect_however_it_is_given(endpoint: str, given: Any) -> None:
    with LuckyEnv(randomization_cfg=given, endpoint=endpoint) as env:
        first, second = (env.reset()[0] for _ in range(2))
        assert not np.array_equal(first, second)


@pytest.mark.parametrize(
    ("wrong", "kind", "words"),
    [
        ({"randomization_cfg": {"friktion": 1}}, SpecError, "unknown randomisation friktion.*friction_range"),
        ({"randomization_cfg": {"joint_position_noise": "much"}}, TypeError, "joint_position_noise.*'much'"),
        ({"reward_terms": ["trakc_lin"]}, EngineFailed, "trakc_lin"),
        ({"endpoint": "shm://lucky_nobody", "timeout": 0.1}, NotReachable, "lucky_nobody"),
    ],
)
def test_what_it_cannot_be_made_with_is_refused(
    endpoint: str, wrong: dict[str, Any], kind: type[Exception], words: str
) -> None:
    with pytest.raises(kind, match=words):
        LuckyEnv(**dict[str, Any](endpoint=endpoint) | wrong)


def test_the_engine_is_where_the_configuration_says(endpoint: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LUCKY_ENDPOINT", endpoint)
    with LuckyEnv(port=1) as env:  # the port of another program's gRPC server counts no more
        env.reset()


def test_after_close_it_refuses_to_step_and_closes_again(endpoint: str) -> None:
    env = LuckyEnv(endpoint=endpoint)
    env.reset()
    env.close()
    env.close()
    with pytest.raises(ClosedError):
        env.step(np.zeros(12))

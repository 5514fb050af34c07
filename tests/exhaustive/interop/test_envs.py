"""LuckyEnv and PolicyEnv, the package's envs, against the quadruped."""

# pyright: basic
# Reason: luckyrobots ships no types.

from collections.abc import Callable, Generator
from typing import Any

import gymnasium
import numpy as np
import pytest

import lucky_transport

NUM_ENVS = 2

REWARDS = ["track_lin_vel_xy", "alive"]
TERMINATIONS = ["fell_over", "time_out"]
COMMANDS = ["SetVx", "SetVy", "SetYawRate"]


@pytest.fixture
def make_env(lucky: Any, port: int, repaired: None) -> Generator[Callable[..., Any]]:
    """Open a LuckyEnv; it is closed after the test."""
    opened: list[Any] = []

    def open_env(**options: Any) -> Any:
        env = lucky.LuckyEnv(robot="quadruped", scene="flat", port=port, timeout=20.0, **options)
        opened.append(env)
        return env

    yield open_env
    for env in opened:
        env.close()


def test_steps_carry_exactly_the_negotiated_terms(make_env: Any) -> None:
    env = make_env(reward_terms=REWARDS, termination_terms=TERMINATIONS)
    assert (env.observation_space.shape, env.action_space.shape) == ((48,), (12,))
    _, info = env.reset()
    assert info["termination_flags"].keys() == set(TERMINATIONS)
    for _ in range(5):
        _, reward, terminated, truncated, info = env.step(np.zeros(12, np.float32))
        assert info["reward_signals"].keys() == set(REWARDS)
        assert reward == sum(info["reward_signals"].values()) > 0
        assert info["termination_flags"] == {"fell_over": terminated, "time_out": truncated}


def test_two_envs_drive_two_agents_of_one_engine(make_env: Any) -> None:
    first, second = make_env(agent_name="agent_0"), make_env(agent_name="agent_1")
    first.reset()
    still, _ = second.reset()
    for _ in range(5):
        first.step(np.full(12, 0.3, np.float32))
    moved, *_ = second.step(np.zeros(12, np.float32))
    assert np.abs(moved[12:24] - still[12:24]).max() < 0.2  # one tick of its own, none of the other's
    assert first.step(np.zeros(12, np.float32))[4]["frame_number"] == 7
    assert second.step(np.zeros(12, np.float32))[4]["frame_number"] == 3


def test_our_own_env_gives_the_same_trajectory_bit_for_bit(
    lucky: Any, serve: Callable[..., Any], port_of: Callable[[Any], int], repaired: None
) -> None:
    ours, theirs = serve(seed=11), serve(seed=11)
    options = {"reward_terms": REWARDS, "termination_terms": TERMINATIONS, "reward_fn": lambda found: found["alive"]}
    with (
        lucky_transport.LuckyEnv("quadruped", "flat", endpoint=str(ours.endpoints[0]), **options) as one,
        lucky.LuckyEnv("quadruped", "flat", port=port_of(theirs), timeout=20.0, **options) as other,
    ):
        assert one.observation_space == other.observation_space
        assert one.action_space == other.action_space
        random = np.random.default_rng(1)
        seen = [(env.reset()) for env in (one, other)]
        for _ in range(200):
            (first, *rest), (expected, *others) = seen
            assert first.tobytes() == expected.tobytes()
            assert rest == others
            ended = len(rest) == 4 and (rest[1] or rest[2])  # what `step` returned, and the episode is over
            action = random.uniform(-1, 1, 12).astype(np.float32)
            seen = [env.reset() if ended else env.step(action) for env in (one, other)]


# --- commands of a policy slot as actions ---


@pytest.fixture
def make_policy_env(lucky: Any, session: Any, robot: Any) -> Generator[Callable[..., Any]]:
    """Open a PolicyEnv on the Trot slot, which is active; it is closed after the test."""
    opened: list[Any] = []
    robot.set_policy_active("Trot", True)

    def open_env(**options: Any) -> Any:
        given = {"slot": "Trot", "command_names": COMMANDS, "reward_fn": _alive} | options
        env = lucky.PolicyEnv(session, robot.entity_id, **given)
        opened.append(env)
        return env

    yield open_env
    for env in opened:
        env.close()


def _alive(response: Any) -> float:
    return response.reward_signals["alive"]


def test_it_is_a_gymnasium_env_whose_actions_are_commands(make_policy_env: Any, robot: Any) -> None:
    env = make_policy_env()
    assert isinstance(env, gymnasium.Env)
    env.reset(seed=1)
    assert env.action_space.shape == (3,)
    observation, reward, terminated, truncated, info = env.step(np.array([0.5, 0.0, -0.25], np.float32))
    assert dict(robot.commands("Trot").items()) == {
        "SetVx": 0.5,
        "SetVy": 0.0,
        "SetYawRate": -0.25,
        "SetStandStill": 0.0,
    }
    assert observation.shape == (12,)
    assert env.observation_space.contains(observation)
    assert reward == pytest.approx(0.1)
    assert (terminated, truncated) == (False, False)
    assert info["step_response"].success
    assert info["slot_name"] == "Trot"


def test_the_filtered_state_can_be_the_observation(make_policy_env: Any, session: Any, robot: Any) -> None:
    env = make_policy_env(observation_mode="full_state_filtered")
    first, _ = env.reset()
    assert first.shape == env.observation_space.shape == (24,)
    second, *_ = env.step(np.zeros(3, np.float32))
    state = session.get_full_state(filter={"filter_by_slot_id": robot.get_state().slot("Trot").slot_id})
    assert np.array_equal(second, np.concatenate([state.qpos, state.qvel]))
    assert not np.array_equal(first, second)

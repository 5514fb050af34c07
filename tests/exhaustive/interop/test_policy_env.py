"""PolicyEnv: commands of a policy slot as the actions of a Gymnasium env."""

# pyright: basic
# Reason: luckyrobots ships no types.

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import Any

import gymnasium
import numpy as np
import pytest

COMMANDS = ["SetVx", "SetVy", "SetYawRate"]


@pytest.fixture
def make_env(lucky: Any, session: Any, robot: Any) -> Generator[Callable[..., Any]]:
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


def test_it_is_a_gymnasium_env_whose_actions_are_commands(make_env: Any, robot: Any) -> None:
    env = make_env()
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


def test_commands_walk_the_robot(make_env: Any, robot: Any) -> None:
    env = make_env()
    env.reset()
    for _ in range(100):
        env.step(np.array([0.5, 0.0, 0.0], np.float32))
    assert robot.get_base_pose("Trot")["x"] > 0.2


def test_the_filtered_state_can_be_the_observation(make_env: Any, session: Any, robot: Any) -> None:
    env = make_env(observation_mode="full_state_filtered")
    first, _ = env.reset()
    assert first.shape == env.observation_space.shape == (24,)
    second, *_ = env.step(np.zeros(3, np.float32))
    state = session.get_full_state(filter={"filter_by_slot_id": robot.get_state().slot("Trot").slot_id})
    assert np.array_equal(second, np.concatenate([state.qpos, state.qvel]))
    assert not np.array_equal(first, second)


def test_it_ends_as_its_owner_says(make_env: Any) -> None:
    env = make_env(max_steps=2, termination_fn=lambda response: response.observation.frame_number >= 3)
    env.reset()
    assert env.step(np.zeros(3, np.float32))[2:4] == (False, False)
    assert env.step(np.zeros(3, np.float32))[2:4] == (True, True)


def test_closing_it_deactivates_its_slot(make_env: Any, robot: Any) -> None:
    make_env().close()
    assert not robot.get_state().slot("Trot").active


def test_unknown_robots_slots_and_commands_are_told_apart(make_env: Any, lucky: Any, session: Any) -> None:
    with pytest.raises(LookupError, match="No RobotControllerComponent on entity 5"):
        lucky.PolicyEnv(session, 5, "Trot", COMMANDS, _alive)
    with pytest.raises(KeyError, match="Available"):
        make_env(slot="Moonwalk")
    with pytest.raises(KeyError, match="Declared commands"):
        make_env(command_names=["SetVz"])

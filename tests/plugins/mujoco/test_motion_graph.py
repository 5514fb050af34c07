"""The motion graph: its inputs, and how it moves a robot that nobody else drives."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from lucky_transport.messages import (
    EntityId,
    FireMotionGraphTriggerRequest,
    GetMotionGraphActiveRequest,
    GetMotionGraphInputRequest,
    MotionGraphInputValue,
    SetMotionGraphActiveRequest,
    SetMotionGraphInputRequest,
    SetPolicyActiveRequest,
    Vec3,
)

pytest.importorskip("mujoco", reason="needs the extra: pip install 'lucky-transport[mujoco]'")

ROBOT = EntityId(1_000_000)
CROUCH, ALERT, GAIT, LEAN, BOW = range(1, 6)


def agent(batch: Any, name: str, request: Any) -> Any:
    """Call a method of AgentService."""
    return batch.call("AgentService/" + name, request)


def put(batch: Any, number: int, **value: Any) -> Any:
    """Set an input of agent_0's graph."""
    return agent(
        batch, "SetMotionGraphInput", SetMotionGraphInputRequest(ROBOT, number, MotionGraphInputValue(**value))
    )


def start(batch: Any) -> Any:
    """Put the robot into the standing pose and activate its graph."""
    batch.randomize()
    batch.reset()
    assert agent(batch, "SetMotionGraphActive", SetMotionGraphActiveRequest(ROBOT, True)).success
    return batch


def height(batch: Any, ticks: int = 60) -> float:
    """Return the base's height after these ticks."""
    batch.tick(ticks)
    return float(batch.engine.physics.qpos[0, 2])


def test_it_is_inactive_until_it_is_activated(robots: Callable[..., Any]) -> None:
    batch = robots(1)
    for active in (False, True, False):
        agent(batch, "SetMotionGraphActive", SetMotionGraphActiveRequest(ROBOT, active))
        answer = agent(batch, "GetMotionGraphActive", GetMotionGraphActiveRequest(ROBOT))
        assert (answer.success, answer.active) == (True, active)


@pytest.mark.parametrize(
    ("number", "value"),
    [
        (CROUCH, MotionGraphInputValue(float_val=0.5)),
        (ALERT, MotionGraphInputValue(bool_val=True)),
        (GAIT, MotionGraphInputValue(int_val=2)),
        (LEAN, MotionGraphInputValue(vec3_val=Vec3(0.01, 0.02, 0.0))),
    ],
)
def test_an_input_keeps_its_value_also_while_the_graph_is_inactive(
    robots: Callable[..., Any], number: int, value: MotionGraphInputValue
) -> None:
    batch = robots(1)
    assert agent(batch, "SetMotionGraphInput", SetMotionGraphInputRequest(ROBOT, number, value)).success
    batch.reset()
    answer = agent(batch, "GetMotionGraphInput", GetMotionGraphInputRequest(ROBOT, number))
    assert (answer.success, answer.value) == (True, value)


def test_of_several_values_only_the_one_that_counts_is_looked_at(robots: Callable[..., Any]) -> None:
    batch = robots(1)
    assert put(batch, GAIT, int_val=2, float_val=math.nan).success
    answer = agent(batch, "GetMotionGraphInput", GetMotionGraphInputRequest(ROBOT, GAIT))
    assert answer.value == MotionGraphInputValue(int_val=2)


def test_crouching_lowers_and_alert_raises_the_robot(robots: Callable[..., Any]) -> None:
    batch = start(robots(1))
    normal = height(batch)
    assert put(batch, CROUCH, float_val=1.0).success
    assert height(batch) < normal - 0.05
    put(batch, CROUCH, int_val=0)  # a whole number does for a float
    put(batch, ALERT, bool_val=True)
    assert height(batch) > normal + 0.01


def test_steps_on_the_spot_lift_feet_and_a_lean_shifts_them(robots: Callable[..., Any]) -> None:
    batch = start(robots(1))
    batch.tick(20)
    put(batch, GAIT, int_val=2)
    calves: list[float] = []
    for _ in range(30):
        batch.tick()
        calves.append(batch.engine.world.ctrl[0, 2])
    assert max(calves) - min(calves) > 0.1
    put(batch, GAIT, int_val=0)
    put(batch, LEAN, vec3_val=Vec3(0.0, 0.03, 0.0))
    batch.tick()
    assert (batch.engine.world.ctrl[0, 0::3] < -0.05).all()


def test_a_trigger_plays_its_move_once(robots: Callable[..., Any]) -> None:
    batch = start(robots(1))
    batch.tick(20)
    rest = batch.engine.world.ctrl[0].copy()
    assert agent(batch, "FireMotionGraphTrigger", FireMotionGraphTriggerRequest(ROBOT, BOW)).success
    assert agent(batch, "GetMotionGraphInput", GetMotionGraphInputRequest(ROBOT, BOW)).value.trigger
    deepest = 0.0
    for _ in range(52):
        batch.tick()
        deepest = max(deepest, float(np.abs(batch.engine.world.ctrl[0] - rest).max()))
    assert deepest > 0.3
    assert batch.engine.world.ctrl[0] == pytest.approx(rest, abs=1e-6)
    assert not agent(batch, "GetMotionGraphInput", GetMotionGraphInputRequest(ROBOT, BOW)).value.trigger


def test_a_policy_drives_over_the_graph(robots: Callable[..., Any]) -> None:
    batch = start(robots(1))
    put(batch, CROUCH, float_val=1.0)
    agent(batch, "SetPolicyActive", SetPolicyActiveRequest(ROBOT, 3, True))  # sway: the hips
    batch.tick(40)
    control = batch.engine.world.ctrl[0]
    assert np.abs(control[0::3]).min() > 0.05  # sways
    assert (control[2::3] < -1.9).all()  # crouches


@pytest.mark.parametrize(
    ("number", "value", "text"),
    [
        (6, MotionGraphInputValue(bool_val=True), "has no input 6; there are 1 (crouch), 2 (alert)"),
        (CROUCH, None, "input 1 (crouch) takes float_val, not nothing"),
        (CROUCH, MotionGraphInputValue(), "takes float_val, not nothing"),
        (CROUCH, MotionGraphInputValue(bool_val=True), "takes float_val, not bool_val"),
        (CROUCH, MotionGraphInputValue(float_val=math.nan), "not finite"),
        (GAIT, MotionGraphInputValue(float_val=1.0), "takes int_val, not float_val"),
        (LEAN, MotionGraphInputValue(vec3_val=Vec3(0.0, math.inf, 0.0)), "not finite"),
    ],
)
def test_a_wrong_input_is_refused_with_what_would_do(
    robots: Callable[..., Any], number: int, value: MotionGraphInputValue | None, text: str
) -> None:
    answer = agent(robots(1), "SetMotionGraphInput", SetMotionGraphInputRequest(ROBOT, number, value))
    assert not answer.success
    assert text in answer.message


@pytest.mark.parametrize(
    ("name", "request_", "text"),
    [
        ("SetMotionGraphActive", SetMotionGraphActiveRequest(EntityId(1), True), "no robot controller"),
        ("GetMotionGraphActive", GetMotionGraphActiveRequest(EntityId(1)), "no robot controller"),
        ("GetMotionGraphInput", GetMotionGraphInputRequest(ROBOT, 77), "has no input 77"),
        ("FireMotionGraphTrigger", FireMotionGraphTriggerRequest(ROBOT, CROUCH), "is no trigger"),
        ("FireMotionGraphTrigger", FireMotionGraphTriggerRequest(None, BOW), "entity 0 has no robot controller"),
    ],
)
def test_what_the_graph_has_not_is_refused(robots: Callable[..., Any], name: str, request_: Any, text: str) -> None:
    answer = agent(robots(1), name, request_)
    assert not answer.success
    assert text in answer.message

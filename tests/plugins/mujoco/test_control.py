"""MujocoSceneService: controls, positions and resets written by hand, and who may write them."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lucky_transport import messages as m
from tests.plugins.mujoco.conftest import ROBOT, SWAY

pytest.importorskip("mujoco", reason="needs the extra: pip install 'lucky-transport[mujoco]'")


def test_controls_are_written_bulk_then_indexed_then_named(robots: Callable[..., Any]) -> None:
    batch = robots(2).still()
    request = m.SetControlRequest(
        bulk=[0.1, 1.0, -1.5, 0.2],
        indexed=[m.IndexedControlEntry(3, 0.3), m.IndexedControlEntry(4, 0.9)],
        named=[m.NamedControlEntry("FR_thigh_joint", 1.1)],
    )
    answer = batch.ask(request)
    assert (answer.success, answer.actuators_written, answer.rejected_actuators) == (True, 5, [])
    assert batch.state().ctrl[:5] == [0.1, 1.0, -1.5, 0.3, 1.1]
    assert batch.state().ctrl[5] == -1.6
    assert batch.engine.world.ctrl[1, 0] == 0  # another env


@pytest.mark.parametrize("end", ["step", "reset"])
def test_a_control_drives_in_steps_without_actions_until_one_with_actions_or_a_reset(standing: Any, end: str) -> None:
    answer = standing.ask(m.SetControlRequest(bulk=[0.4] + [0.0] * 20))  # more than there are actuators
    assert (answer.success, answer.actuators_written) == (True, 12)
    standing.tick(60)
    assert standing.state().ctrl[0] == pytest.approx(0.4)
    assert standing.state().qpos[7] == pytest.approx(0.4, abs=0.15)
    getattr(standing, end)()
    for _ in range(2):
        assert standing.state().ctrl[0] == 0
        standing.tick()


@pytest.mark.parametrize(("skip", "expected"), [(False, 0.8), (True, 1.5)])
def test_a_control_out_of_range_is_clamped_unless_that_is_skipped(standing: Any, skip: bool, expected: float) -> None:
    standing.ask(m.SetControlRequest(bulk=[1.5], skip_range_clamp=skip, wait_for_next_step=True))
    assert standing.state().ctrl[0] == pytest.approx(expected)
    standing.tick()
    assert standing.state().ctrl[0] == pytest.approx(expected)


def test_actuators_of_an_active_slot_are_named_and_left_alone(standing: Any) -> None:
    standing.activate(SWAY)
    before = standing.state().ctrl[0]
    answer = standing.ask(m.SetControlRequest(bulk=[0.7, 0.7]))
    assert (answer.success, answer.actuators_written) == (True, 1)
    assert answer.rejected_actuators == ["FL_hip_joint"]
    assert (standing.state().ctrl[0], standing.state().ctrl[1]) == (before, 0.7)


def test_actuators_of_an_agent_are_rejected_until_it_lets_go(standing: Any) -> None:
    standing.step()
    answer = standing.ask(m.SetControlRequest(bulk=[0.7]))
    assert (answer.success, answer.actuators_written, answer.rejected_actuators) == (True, 0, ["FL_hip_joint"])
    standing.tick()
    assert standing.ask(m.SetControlRequest(bulk=[0.7])).actuators_written == 1


def test_positions_are_written_whole_and_one_by_one(robots: Callable[..., Any]) -> None:
    batch = robots(2).still()
    other = batch.engine.physics.qpos[1].copy()
    bulk = [0.5, 0.25, 0.375, 1.0, 0.0, 0.0, 0.0, *[0.125, 0.75, -1.5] * 4]
    answer = batch.ask(m.SetQposRequest(bulk, [m.IndexedQposEntry(2, 0.5), m.IndexedQposEntry(7, 0.25)]))
    assert (answer.success, answer.values_written) == (True, 19)
    expected = [0.5, 0.25, 0.5, 1.0, 0.0, 0.0, 0.0, 0.25, *bulk[8:]]
    assert batch.state().qpos == expected
    assert (batch.engine.physics.qpos[1] == other).all()
    assert batch.ask(m.SetQposRequest(indexed=[m.IndexedQposEntry(0, 1.0)])).values_written == 1
    assert batch.state().qpos == [1.0, *expected[1:]]


def test_an_orientation_is_made_a_unit_quaternion(single: Any) -> None:
    single.ask(m.SetQposRequest(indexed=[m.IndexedQposEntry(3, 3.0), m.IndexedQposEntry(6, 4.0)]))
    assert single.state().qpos[3:7] == pytest.approx([0.6, 0, 0, 0.8])


def test_positions_of_an_agents_robot_need_force(standing: Any) -> None:
    standing.step()
    moving = [m.IndexedQposEntry(0, 2.0)]
    answer = standing.ask(m.SetQposRequest(indexed=moving))
    assert not answer.success
    assert "set force" in answer.message
    assert standing.state().qpos[0] != 2.0
    standing.change(m.SetQposRequest(indexed=moving, force=True))
    assert standing.state().qpos[0] == 2.0


@pytest.mark.parametrize("skip", [False, True])
def test_policies_begin_anew_after_a_move_unless_that_is_skipped(standing: Any, skip: bool) -> None:
    standing.activate(SWAY)
    standing.tick(30)
    before = standing.state().ctrl[0]
    standing.ask(m.SetQposRequest(indexed=[m.IndexedQposEntry(7, -0.5)], skip_policy_reseed=skip))
    standing.tick()
    if skip:
        assert standing.state().ctrl[0] == pytest.approx(before, abs=0.05)
    else:
        assert standing.state().ctrl[0] == pytest.approx(-0.5)


def test_gains_are_those_the_world_is_simulated_with(single: Any) -> None:
    single.randomize(motor_strength_range=[0.5, 0.9])
    single.reset()
    single.ask(
        m.SetPolicyGainsRequest(ROBOT, SWAY, [m.JointGainOverride("FL_hip_joint", kp=0.0)]),
    )
    single.activate(SWAY)
    answer = single.ask(m.GetActuatorGainsRequest())
    model = single.engine.physics.models[0]
    assert answer.success
    assert [each.gain_prm_0 for each in answer.actuators] == model.actuator_gainprm[:, 0].tolist()
    assert [each.bias_prm_0 for each in answer.actuators] == model.actuator_biasprm[:, 0].tolist()
    assert [each.actuator_name for each in answer.actuators] == list(single.spec.action_names)
    assert [each.neutralized for each in answer.actuators] == [True, *[False] * 11]


@pytest.mark.parametrize("preserve", [False, True])
def test_a_reset_of_the_scene_is_keyframe_0_at_rest(pair: Any, preserve: bool) -> None:
    pair.reset()
    pair.step(np.full((2, 12), 0.5))
    other, seconds = pair.engine.physics.qpos[1].copy(), pair.state().time
    pair.change(m.ResetSceneRequest(preserve))
    found, model = pair.state(), pair.engine.physics.models[0]
    assert found.qpos == pytest.approx(model.key_qpos[0].tolist())
    assert not any(found.qvel)
    assert not any(found.ctrl)
    assert found.time == (seconds if preserve else 0)
    assert (pair.engine.physics.qpos[1] == other).all()


def test_a_reset_of_the_scene_stands_on_the_ground_there_is(single: Any) -> None:
    single.randomize(terrain_type="rough", terrain_difficulty=1.0)
    single.reset()
    single.ask(m.ResetSceneRequest())
    assert single.state().qpos[2] == pytest.approx(0.28 + 0.08)


def test_a_reset_of_the_scene_draws_no_random_numbers(robots: Callable[..., Any]) -> None:
    plain, reset = robots(1), robots(1)
    for batch in (plain, reset):
        batch.reset()
    reset.ask(m.ResetSceneRequest())
    assert plain.reset().observations.tobytes() == reset.reset().observations.tobytes()


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    bulk=st.lists(st.floats(width=32), max_size=21),
    indices=st.lists(st.tuples(st.integers(0, 30), st.floats(width=32)), max_size=4),
    force=st.booleans(),
)
def test_whatever_is_written_leaves_a_sound_state_or_is_refused(
    robots: Callable[..., Any], bulk: list[float], indices: list[tuple[int, float]], force: bool
) -> None:
    batch = robots(1, threads=1)
    answer = batch.ask(m.SetQposRequest(bulk, [m.IndexedQposEntry(*each) for each in indices], force))
    assert answer.success == (not answer.message)
    answer = batch.ask(m.SetControlRequest(bulk, [m.IndexedControlEntry(*each) for each in indices]))
    assert answer.success == (not answer.message)
    frame = batch.tick()
    assert np.isfinite(frame.observations).all()
    assert np.isfinite(frame.rewards).all()
    batch.close()

"""Policies in slots: what drives a robot in a step without actions, and what does not."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lucky_transport import messages as m
from lucky_transport.engine import RESET, TICK
from tests.plugins.mujoco.conftest import ROBOT, SWAY, TROT

pytest.importorskip("mujoco", reason="needs the extra: pip install 'lucky-transport[mujoco]'")


def test_a_step_without_actions_and_without_policies_is_a_step_with_zeros(robots: Callable[..., Any]) -> None:
    plain, ticking = robots(3), robots(3)
    for batch in (plain, ticking):
        batch.reset()
    for _ in range(5):
        assert plain.step().observations.tobytes() == ticking.tick().observations.tobytes()


def test_a_step_with_actions_is_what_these_say_whatever_is_active(robots: Callable[..., Any]) -> None:
    plain, active = robots(2), robots(2)
    for batch in (plain, active):
        batch.reset()
    active.activate(TROT)
    active.activate(SWAY, env=1)
    generator = np.random.default_rng(0)
    for _ in range(10):
        actions = generator.uniform(-1, 1, (2, 12))
        assert plain.step(actions).observations.tobytes() == active.step(actions).observations.tobytes()


@pytest.mark.parametrize(("speed", "least", "most"), [(0.5, 0.7, 2.5), (-0.4, -2.5, -0.7)])
def test_trot_walks_the_way_it_is_told(standing: Any, speed: float, least: float, most: float) -> None:
    standing.command(TROT, 1, speed)
    standing.activate(TROT)
    start = standing.engine.physics.qpos[0, 0]
    for _ in range(200):
        assert not standing.tick().terminated.any()
    assert least < standing.engine.physics.qpos[0, 0] - start < most


def test_trot_turns_and_stands_still_on_command(standing: Any) -> None:
    standing.command(TROT, 3, 0.8)
    standing.activate(TROT)
    standing.tick(100)
    pose = standing.ask(m.GetPolicyBasePoseRequest(ROBOT, TROT))
    assert pose.yaw > 0.7
    standing.change(m.SetPolicyCommandBoolRequest(ROBOT, TROT, 4, True))
    standing.tick(50)
    assert np.abs(standing.engine.physics.qvel[0]).max() < 0.2


def test_a_policys_action_given_by_hand_leads_to_the_same_bits(robots: Callable[..., Any]) -> None:
    driven, given = robots(1), robots(1)
    for batch in (driven, given):
        batch.still()
    driven.command(TROT, 1, 0.5)
    driven.activate(TROT)
    for _ in range(40):
        expected = driven.tick()
        answer = driven.last_action(TROT)
        assert answer.joint_names == list(driven.spec.action_names)
        found = given.step(np.array(answer.action, np.float32))
        assert found.observations.tobytes() == expected.observations.tobytes()


def test_the_same_run_gives_the_same_bits_beside_other_envs(robots: Callable[..., Any]) -> None:
    """Env i draws from the engine's seed + i."""
    alone, beside = robots(1, seed=4), robots(3, seed=3)
    for batch, env in ((alone, 0), (beside, 1)):
        batch.reset()
        batch.activate(SWAY, env)
    beside.activate(TROT, env=2)
    for _ in range(30):
        assert alone.tick().observations[0].tobytes() == beside.tick().observations[1].tobytes()


def test_a_slot_drives_its_joints_only_and_the_later_joints_stay(standing: Any) -> None:
    standing.activate(SWAY)
    standing.tick(40)
    action = standing.engine.world.actions[0].reshape(4, 3)
    assert np.abs(action[:, 0]).min() > 0.1
    assert not action[:, 1:].any()
    standing.change(m.SetPolicyDrivenJointsRequest(ROBOT, SWAY, ["FL_hip_joint"]))
    standing.tick()
    action = standing.engine.world.actions[0].reshape(4, 3)
    assert action[0, 0] != 0
    assert not action[1:].any()


def test_an_action_group_lies_over_the_policy_for_one_step(standing: Any) -> None:
    standing.activate(TROT)
    standing.change(m.SetActionGroupRequest("agent_0", m.ActionGroupEntry("front_left", [0.1, 0.2, 0.3])))
    standing.tick()
    assert standing.engine.world.actions[0, :3] == pytest.approx([0.1, 0.2, 0.3])
    standing.tick()
    assert standing.engine.world.actions[0, :3] != pytest.approx([0.1, 0.2, 0.3])


def test_what_an_agent_steps_is_forgotten_by_a_policy_that_takes_over(standing: Any) -> None:
    """It begins anew from the pose it finds, so nothing jumps: the first target is that pose."""
    standing.activate(TROT)
    standing.tick(30)
    standing.step(np.full(12, 0.4))
    found = standing.engine.physics.qpos[0, 7:].copy()
    standing.tick()
    assert standing.engine.world.ctrl[0] == pytest.approx(found, abs=1e-6)


def test_a_reset_lets_a_policy_begin_anew_and_stay_active(single: Any) -> None:
    single.randomize()
    single.activate(TROT)
    runs: list[bytes] = []
    for _ in range(2):
        single.reset()
        single.tick(25)
        runs.append(single.engine.physics.qpos[0].tobytes())
    assert runs[0] == runs[1]


def test_the_last_action_is_there_from_the_activation_on_and_asking_changes_nothing(robots: Callable[..., Any]) -> None:
    asked, plain = robots(1), robots(1)
    for batch in (asked, plain):
        batch.still()
        batch.activate(TROT)
    before = asked.last_action(TROT)
    assert before.success
    for _ in range(10):
        assert asked.tick().observations.tobytes() == plain.tick().observations.tobytes()
        assert asked.last_action(TROT).success
    assert asked.last_action(TROT).action != before.action


def test_another_policy_takes_the_place_with_its_own_joints_and_commands(standing: Any) -> None:
    standing.activate(TROT)
    standing.change(m.SetPolicyDescriptorRequest(ROBOT, TROT, "policies/quadruped_sway.policy"))
    assert standing.engine.world.controllers.of(0).claims.tolist() == [TROT, 0, 0] * 4
    assert len(standing.last_action(TROT).action) == 4


def test_gains_are_those_of_the_model_while_the_slot_drives(robots: Callable[..., Any]) -> None:
    batch = robots(2).still()
    nominal = batch.engine.physics.models[0]
    override = m.JointGainOverride("FL_hip_joint", kp=40.0, kd=1.0, effort_limit=10.0)
    unknown = m.JointGainOverride("tail", kp=1.0)
    batch.change(m.SetPolicyGainsRequest(ROBOT, SWAY, [override, unknown]))
    batch.activate(SWAY)
    model = batch.engine.physics.models[0]
    assert (model.actuator_gainprm[0, 0], *model.actuator_biasprm[0, 1:3]) == (40, -40, -1)
    assert model.actuator_forcerange[0].tolist() == [-10, 10]
    assert model.actuator_gainprm[1, 0] == nominal.actuator_gainprm[1, 0] == 80
    assert batch.engine.physics.models[1] is nominal


def test_gains_of_a_weak_motor_stay_weak(single: Any) -> None:
    single.randomize(motor_strength_range=[0.5, 0.5])
    single.reset()
    single.change(m.SetPolicyGainsRequest(ROBOT, SWAY, [m.JointGainOverride("FL_hip_joint", kp=40.0)]))
    single.activate(SWAY)
    for _ in range(2):
        assert single.engine.physics.models[0].actuator_gainprm[:2, 0].tolist() == [20, 40]
        single.reset()
    single.activate(SWAY, active=False)
    assert single.engine.physics.models[0].actuator_gainprm[:2, 0].tolist() == [40, 40]


def test_scale_and_default_pose_move_the_target(standing: Any) -> None:
    override = m.JointGainOverride("FL_hip_joint", action_scale=0.25, default_pos=0.1)
    standing.change(m.SetPolicyGainsRequest(ROBOT, SWAY, [override]))
    standing.activate(SWAY)
    standing.tick(40)
    action = standing.last_action(SWAY).action
    hips = standing.engine.world.ctrl[0, 0::3]
    assert hips == pytest.approx([0.1 + 0.25 * action[0], *(0.5 * np.array(action[1:]))], abs=1e-6)


def test_typed_steps_without_actions_let_the_policy_walk(single: Any) -> None:
    single.activate(TROT)
    for _ in range(20):
        single.change(m.StepRequest())
    world = single.engine.world
    assert world.actions[0].any()
    assert not world.agent_drives[0]
    single.change(m.StepRequest(actions=[0.1] * 12))
    assert world.actions[0] == pytest.approx([0.1] * 12)
    assert world.agent_drives[0]


def test_reset_and_tick_at_once_is_a_reset(robots: Callable[..., Any]) -> None:
    plain, both = robots(2), robots(2)
    expected = plain.reset().observations.tobytes()
    assert both.step(control=np.full(2, RESET | TICK, np.uint8)).observations.tobytes() == expected


SLOTS = st.integers(1, 2)
NAMES = st.lists(st.sampled_from(["FL_hip_joint", "FL_calf_joint", "RR_hip_joint", "tail"]), unique=True)
PATHS = st.sampled_from(["", "policies/quadruped_trot.policy", "policies/quadruped_sway.policy", "policies/none"])
GAIN = st.one_of(st.none(), st.floats(0, 100, width=32))
HIP_GAINS = st.builds(m.JointGainOverride, st.just("FL_hip_joint"), GAIN, GAIN)
CHANGES = st.one_of(
    st.builds(m.SetPolicyActiveRequest, st.just(ROBOT), SLOTS, st.booleans()),
    st.builds(m.SetPolicyPriorityRequest, st.just(ROBOT), SLOTS, SLOTS),
    st.builds(m.SetPolicyDrivenJointsRequest, st.just(ROBOT), SLOTS, NAMES),
    st.builds(m.SetPolicyDescriptorRequest, st.just(ROBOT), SLOTS, PATHS),
    st.builds(m.SetPolicyGainsRequest, st.just(ROBOT), SLOTS, st.tuples(HIP_GAINS).map(list)),
    st.builds(m.ClearPolicyGainsRequest, st.just(ROBOT), SLOTS),
)


@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(changes=st.lists(st.one_of(CHANGES, st.sampled_from(["tick", "step", "reset"])), max_size=25))
def test_whatever_is_changed_the_slots_own_what_they_say_and_gains_are_theirs(
    robots: Callable[..., Any], changes: list[Any]
) -> None:
    batch = robots(1, threads=1)
    nominal = batch.engine.physics.models[0]
    for change in changes:
        if isinstance(change, str):
            frame = getattr(batch, change)()
            assert np.isfinite(frame.observations).all()
        else:
            answer = batch.ask(change)
            assert answer.success == (not answer.message)
        controller = batch.engine.world.controllers.of(0)
        owners = [[s for s in controller.slots.values() if s.active and j in s.driven] for j in range(12)]
        expected = [max(each, key=lambda s: (s.priority, -s.slot_id)).slot_id if each else 0 for each in owners]
        assert controller.claims.tolist() == expected
        gain = controller.slots[expected[0]].gains.get(0) if expected[0] else None
        kp = 80.0 if gain is None or gain.kp is None else gain.kp
        assert batch.engine.physics.models[0].actuator_gainprm[0, 0] == kp
        if gain is None or (gain.kp is None and gain.kd is None):
            assert batch.engine.physics.models[0] is nominal
    assert nominal.actuator_gainprm[0, 0] == 80
    batch.close()

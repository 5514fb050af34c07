"""MujocoScene: the whole model and its state, read, streamed and written."""

# pyright: basic
# Reason: luckyrobots ships no types.

from __future__ import annotations

import itertools
from collections.abc import Generator
from typing import Any

import numpy as np
import pytest


@pytest.fixture
def scene(session: Any) -> Generator[Any]:
    """A MujocoScene that no agent drives; the robot stands again afterwards."""
    session.reset()
    session.step()  # without actions: from here on nobody drives
    session.reset_scene()
    yield session.scene
    session.reset_scene()


def test_the_model_names_joints_and_actuators(lucky: Any, scene: Any) -> None:
    model = scene.model_info()
    assert isinstance(model, lucky.ModelInfo)
    assert (model.nq, model.nv, model.nu, model.njnt) == (19, 18, 12, 13)
    assert (len(model.joints), len(model.actuators)) == (13, 12)
    root = scene.joint("root")
    assert (root.type, root.qpos_adr, root.qvel_adr) == ("free", 0, 0)
    hip = scene.joint("FL_hip_joint")
    assert (hip.type, hip.qpos_adr, hip.limited, hip.range_lo) == ("hinge", 7, True, pytest.approx(-0.8))
    actuator = scene.actuator("FL_hip_joint")
    assert (actuator.target_joint_index, actuator.ctrl_limited) == (hip.index, True)
    with pytest.raises(KeyError):
        scene.joint("tail")


def test_state_has_the_models_sizes_and_only_what_was_asked_for(scene: Any) -> None:
    whole = scene.state()
    assert (whole.qpos.shape, whole.qvel.shape, whole.ctrl.shape) == ((19,), (18,), (12,))
    assert whole.included_joint_indices is None
    positions = scene.state(include_qvel=False, include_ctrl=False)
    assert (positions.qpos.shape, positions.qvel.shape, positions.ctrl.shape) == ((19,), (0,), (0,))


def test_state_is_filtered_by_slot_and_by_claims(scene: Any, robot: Any) -> None:
    sway = robot.get_state().slot("Sway").slot_id
    hips = scene.state(filter={"filter_by_slot_id": sway})
    assert (hips.qpos.shape, hips.qvel.shape, hips.ctrl.shape) == ((4,), (4,), (4,))
    assert [scene.joint(int(index)).name for index in hips.included_joint_indices] == [
        f"{leg}_hip_joint" for leg in ("FL", "FR", "RL", "RR")
    ]
    with robot.policy_slot("Sway"):
        claimed = scene.state(filter={"include_only_policy_claimed_joints": True})
        free = scene.state(filter={"include_only_unclaimed_joints": True})
        owned = scene.model_info(refresh=True).joint("FL_hip_joint").claimed_by_policy_slot_id
    assert list(claimed.included_joint_indices) == list(hips.included_joint_indices)
    assert claimed.included_joint_indices.size + free.included_joint_indices.size == 13
    assert owned == sway


def test_a_filter_for_a_slot_that_is_not_there_is_refused(scene: Any) -> None:
    with pytest.raises(RuntimeError, match="filter_by_slot_id 77: there are slots 1, 2, 3"):
        scene.state(filter={"filter_by_slot_id": 77})


def test_state_is_streamed_while_the_world_is_stepped(session: Any, scene: Any) -> None:
    stream = scene.stream_state(target_fps=200)
    first = next(stream)
    for _ in range(3):
        session.step()
    later = next(item for item in stream if item.frame_number >= first.frame_number + 3)
    stream.close()
    assert later.time == pytest.approx(first.time + 3 * 0.02)


def test_a_filtered_state_is_streamed(scene: Any) -> None:
    stream = scene.stream_state(filter={"filter_by_slot_id": 3}, target_fps=100, include_ctrl=False)
    first = next(stream)
    stream.close()
    assert (first.qpos.shape, first.qvel.shape, first.ctrl.shape) == ((4,), (4,), (0,))


def test_the_clients_own_stream_gives_the_raw_answers(session: Any) -> None:
    stream = session.engine_client.stream_full_state(target_fps=100, include_qvel=False, include_ctrl=False)
    items = list(itertools.islice(stream, 3))
    stream.cancel()
    assert [(len(item.state.qpos), len(item.state.qvel)) for item in items] == [(19, 0)] * 3


def test_a_control_set_by_name_index_or_bulk_is_read_back(session: Any, scene: Any) -> None:
    answer = scene.set_control(named={"FL_hip_joint": 0.25}, indexed={3: -0.25})
    assert (answer.success, answer.actuators_written, list(answer.rejected_actuators)) == (True, 2, [])
    assert scene.state().ctrl[[0, 3]].tolist() == [0.25, -0.25]
    bulk = np.linspace(-0.1, 0.1, 12)
    scene.set_control(bulk=bulk, skip_range_clamp=True)
    assert np.allclose(scene.state().ctrl, bulk)
    assert session.engine_client.set_ctrl({"FL_hip_joint": 0.125, 3: 0.5}).success
    assert session.engine_client.set_ctrl(bulk).success


def test_a_control_beyond_the_range_is_clamped_unless_told_otherwise(scene: Any) -> None:
    scene.set_control(named={"FL_hip_joint": 9.0})
    assert scene.state().ctrl[0] == pytest.approx(0.8)
    scene.set_control(named={"FL_hip_joint": 0.9}, skip_range_clamp=True)
    assert scene.state().ctrl[0] == pytest.approx(0.9)


def test_a_control_set_by_hand_moves_its_joint(session: Any, scene: Any) -> None:
    scene.set_control(named={"FL_hip_joint": 0.4})
    for _ in range(40):
        session.step()
    assert scene.state().qpos[scene.joint("FL_hip_joint").qpos_adr] > 0.2


def test_an_actuator_that_somebody_owns_is_rejected_by_name(session: Any, scene: Any, robot: Any) -> None:
    with robot.policy_slot("Sway"):
        answer = scene.set_control(named={"FL_hip_joint": 0.1, "FL_calf_joint": -1.5})
        assert (answer.success, list(answer.rejected_actuators)) == (True, ["FL_hip_joint"])
    session.reset()
    session.step([0.0] * 12)
    agents = scene.set_control(named={"FL_calf_joint": -1.0})
    assert (agents.success, list(agents.rejected_actuators)) == (True, ["FL_calf_joint"])
    assert scene.model_info(refresh=True).actuator("FL_calf_joint").claimed_by_rl_agent


def test_an_unknown_actuator_is_refused_with_the_nearest_name(scene: Any) -> None:
    with pytest.raises(RuntimeError, match="did you mean 'FL_hip_joint'"):
        scene.set_control(named={"FL_hip_joints": 0.1})


def test_positions_are_written_and_read_back(lucky: Any, scene: Any) -> None:
    scene.set_qpos(indexed={2: 0.5, 7: 0.25}, force=True)
    assert scene.state().qpos[[2, 7]].tolist() == [0.5, 0.25]
    whole = scene.state().qpos.copy()
    whole[0] = 1.0
    scene.set_qpos(bulk=whole, force=True)
    assert scene.state().qpos[0] == 1.0
    lucky.set_robot_pose(
        scene, base_xyz=(0.0, 1.0, 0.4), base_quat=(1.0, 0.0, 0.0, 0.0), joint_angles={"FL_calf_joint": -1.25}
    )
    after = scene.state().qpos
    assert after[:7].tolist() == pytest.approx([0.0, 1.0, 0.4, 1.0, 0.0, 0.0, 0.0])
    assert after[scene.joint("FL_calf_joint").qpos_adr] == -1.25


def test_positions_are_refused_while_an_agent_drives_unless_forced(session: Any, scene: Any) -> None:
    session.reset()
    session.step([0.0] * 12)
    with pytest.raises(RuntimeError, match="set force"):
        scene.set_qpos(indexed={2: 0.5})
    scene.set_qpos(indexed={2: 0.5}, force=True)
    assert scene.state().qpos[2] == 0.5


def test_gains_are_listed_and_none_is_neutralised(scene: Any) -> None:
    gains = scene.actuator_gains()
    assert [gain.actuator_name for gain in gains] == [actuator.name for actuator in scene.model_info().actuators]
    assert all(gain.gain_prm_0 > 0 and gain.bias_prm_0 != gain.gain_prm_0 for gain in gains)
    assert not any(gain.neutralized for gain in gains)


def test_reset_goes_back_to_the_start_and_keeps_the_time_where_asked(session: Any, scene: Any) -> None:
    for _ in range(5):
        session.step()
    assert scene.reset(preserve_time=True).success
    kept = scene.state()
    assert kept.time == pytest.approx(0.1)
    assert kept.qpos[2] == pytest.approx(0.28)
    scene.reset()
    assert scene.state().time == 0.0


def test_lists_of_joints_and_actuators_come_as_plain_dicts(client: Any) -> None:
    joints, actuators = client.list_all_joints(), client.list_all_actuators()
    assert [joint["name"] for joint in joints][:2] == ["root", "FL_hip_joint"]
    assert [joint["qpos_adr"] for joint in joints] == [0, *range(7, 19)]
    assert [actuator["target_joint_index"] for actuator in actuators] == list(range(1, 13))

"""Domain randomisation: what a contract may hold and draws, when it takes effect, and how robots move by it."""

from collections.abc import Callable
from dataclasses import fields
from typing import Any

import numpy as np
import pytest

from lucky_transport.messages import SetResetOptionsRequest, SimulationContract

pytest.importorskip("mujoco", reason="needs the extra: pip install 'lucky-transport[mujoco]'")
mujoco: Any = pytest.importorskip("mujoco", reason="needs the extra: pip install 'lucky-transport[mujoco]'")

from lucky_transport_mujoco.randomization import QUANTITIES  # noqa: E402


def test_every_field_of_a_contract_is_known_and_checked() -> None:
    assert {quantity.name for quantity in QUANTITIES} | {"terrain_type"} == {
        item.name for item in fields(SimulationContract)
    }


@pytest.mark.parametrize("quantity", QUANTITIES, ids=lambda quantity: quantity.name)
def test_limits_belong_to_the_legal_values_and_what_lies_beyond_does_not(single: Any, quantity: Any) -> None:

    def answer(value: float) -> Any:
        values: dict[str, Any] = {quantity.name: [value] * quantity.count if quantity.count else value}
        if quantity.name.startswith("push"):
            values = {"push_interval_range": [1, 2], "push_velocity_range": [0, 1]} | values
        return single.randomize(**values)

    for legal in (quantity.least, quantity.most):
        assert answer(legal).success
    for wrong in (quantity.least - 0.01, 1.01 * quantity.most, float("nan"), float("inf")):
        told = answer(wrong)
        assert not told.success
        assert quantity.name in told.message
        assert f"{quantity.most:g}" in told.message


def test_all_findings_come_at_once(robots: Callable[..., Any]) -> None:
    told = robots(1).randomize(friction_range=[2, 1], terrain_type="moon", joint_position_noise=-1).message
    assert all(name in told for name in ("friction_range", "terrain_type", "joint_position_noise"))


def test_options_of_other_engines_are_ignored_and_leave_the_contract_in_force(single: Any) -> None:
    single.randomize(mass_scale_range=[2, 2])
    assert single.call("BatchService/SetResetOptions", SetResetOptionsRequest(None, '{"level": 3}')).success
    single.reset()
    assert (single.engine.parameters.mass_scale == 2).all()


# --- what is drawn ---


N = 6

#: Contract field -> (range, how to read it from the engine's parameters, its nominal value).
PARAMETERS: dict[str, tuple[list[float], Callable[[Any], Any], float]] = {
    "friction_range": ([0.4, 0.9], lambda p: p.friction, 1),
    "restitution_range": ([0.2, 0.6], lambda p: p.restitution, 0),
    "mass_scale_range": ([0.7, 1.4], lambda p: p.mass_scale, 1),
    "com_offset_range": ([-0.03, 0.03], lambda p: p.com_offset, 0),
    "motor_strength_range": ([0.6, 0.9], lambda p: p.motor_strength, 1),
    "motor_offset_range": ([-0.1, 0.1], lambda p: p.motor_offset, 0),
}


@pytest.mark.parametrize("name", PARAMETERS)
def test_a_range_is_drawn_anew_within_its_limits_for_each_env_and_episode(
    robots: Callable[..., Any], name: str
) -> None:
    limits, read, nominal = PARAMETERS[name]
    batch = robots(N)
    batch.reset()
    assert (read(batch.engine.parameters) == nominal).all()
    assert batch.randomize(**{name: limits}).success
    episodes: list[Any] = []
    for _ in range(2):
        batch.reset()
        episodes.append(read(batch.engine.parameters).copy())
    drawn = np.concatenate(episodes)
    assert len(np.unique(drawn)) == drawn.size
    low, high = (np.float32(limit) for limit in limits)
    assert (drawn >= low).all()
    assert (drawn <= high).all()


@pytest.mark.parametrize("name", PARAMETERS)
def test_a_drawn_parameter_changes_how_the_robot_moves(robots: Callable[..., Any], name: str) -> None:
    limits, _, _ = PARAMETERS[name]
    plain, varied = robots(1), robots(1)
    plain.randomize()
    varied.randomize(**{name: limits})
    for batch in (plain, varied):
        batch.reset()
        for step in range(30):
            batch.step(0.6 * (-1) ** step)
    assert np.abs(plain.engine.physics.qpos - varied.engine.physics.qpos).max() > 1e-4


def test_the_models_hold_what_was_drawn(robots: Callable[..., Any]) -> None:
    batch = robots(3)
    nominal = batch.engine.physics.models[0]
    batch.randomize(**{name: limits for name, (limits, _, _) in PARAMETERS.items()})
    for _ in range(2):  # what is drawn twice does not add up
        batch.reset()
    drawn = batch.engine.parameters
    trunk = mujoco.mj_name2id(nominal, mujoco.mjtObj.mjOBJ_BODY, "trunk")
    for env, model in enumerate(batch.engine.physics.models):
        assert model.geom_friction[:, 0] == pytest.approx(drawn.friction[env])  # nominal friction is 1
        assert model.body_mass == pytest.approx(nominal.body_mass * drawn.mass_scale[env])
        assert model.body_inertia == pytest.approx(nominal.body_inertia * drawn.mass_scale[env])
        assert model.body_subtreemass[trunk] == pytest.approx(nominal.body_subtreemass[trunk] * drawn.mass_scale[env])
        assert model.body_ipos[trunk] - nominal.body_ipos[trunk] == pytest.approx(drawn.com_offset[env])
        assert model.actuator_gainprm[:, 0] == pytest.approx(80 * drawn.motor_strength[env])
        assert model.actuator_forcerange == pytest.approx(
            nominal.actuator_forcerange * drawn.motor_strength[env][:, None]
        )


def test_a_contract_holds_until_another_replaces_it_as_a_whole(robots: Callable[..., Any]) -> None:
    batch = robots(3)
    nominal = batch.engine.physics.models[0]
    batch.randomize(mass_scale_range=[1.5, 2])
    batch.step()
    batch.reset(1)  # an env randomises only when it is reset
    assert (batch.engine.parameters.mass_scale > 1).ravel().tolist() == [False, True, False]
    for _ in range(2):
        batch.reset()
        assert (batch.engine.parameters.mass_scale >= 1.5).all()
    batch.randomize(friction_range=[0.5, 0.5])
    batch.reset()
    assert (batch.engine.parameters.mass_scale == 1).all()
    assert (batch.engine.parameters.friction == 0.5).all()
    batch.randomize()
    batch.reset()
    assert all(model is nominal for model in batch.engine.physics.models)


def test_a_contract_means_the_same_whether_or_not_it_crossed_a_wire(robots: Callable[..., Any]) -> None:
    here, there = robots(2), robots(2)
    limits = [0.1, 0.7]
    here.randomize(friction_range=limits, joint_position_noise=0.1)
    there.randomize(
        friction_range=[float(np.float32(limit)) for limit in limits],
        joint_position_noise=float(np.float32(0.1)),
    )
    assert here.reset().observations.tobytes() == there.reset().observations.tobytes()
    assert here.engine.parameters.friction.tobytes() == there.engine.parameters.friction.tobytes()


@pytest.mark.parametrize(
    ("noise", "moved", "least"),
    [
        ({"pose_position_noise": [0.3, 0.3, 0.3]}, lambda physics: physics.qpos[:, 0:3], 0.05),
        ({"pose_orientation_noise": 0.3}, lambda physics: physics.qpos[:, 3:7], 0.05),
        ({"joint_position_noise": 0.3}, lambda physics: physics.qpos[:, 7:], 0.05),
        ({"joint_velocity_noise": 5}, lambda physics: physics.qvel[:, 6:], 0.1),
    ],
)
def test_noise_moves_what_it_names(
    robots: Callable[..., Any], noise: dict[str, Any], moved: Callable[[Any], Any], least: float
) -> None:
    quiet, noisy = robots(64).still(), robots(64)
    noisy.randomize(**noise)
    noisy.reset()
    spread = (moved(noisy.engine.physics) - moved(quiet.engine.physics)).std(axis=0)
    assert (spread[-2:] > least).all()


def test_position_noise_never_puts_a_robot_into_the_ground(robots: Callable[..., Any]) -> None:
    quiet, noisy = robots(32), robots(32)
    quiet.randomize()
    noisy.randomize(pose_position_noise=[0, 0, 0.5])
    for batch in (quiet, noisy):
        batch.reset()
    assert (noisy.engine.physics.qpos[:, 2] >= quiet.engine.physics.qpos[:, 2] - 0.01).all()


@pytest.mark.parametrize("restitution", [0.5, 0.8, 0.9])
def test_contacts_give_back_the_drawn_part_of_the_impact_speed(single: Any, restitution: float) -> None:
    single.randomize(restitution_range=[restitution, restitution])
    single.reset()
    time_constant, ratio = single.engine.physics.models[0].geom_solref[0]
    ball = mujoco.MjModel.from_xml_string(
        f"""<mujoco><option timestep="0.001"/><default><geom solref="{time_constant} {ratio}"/></default>
        <worldbody><geom type="plane" size="0 0 1"/>
        <body pos="0 0 0.3"><freejoint/><geom type="sphere" size="0.05" mass="1"/></body></worldbody></mujoco>"""
    )
    data = mujoco.MjData(ball)
    speeds: list[float] = []
    for _ in range(700):
        mujoco.mj_step(ball, data)
        speeds.append(float(data.qvel[2]))
    impact = int(np.argmin(speeds))
    assert max(speeds[impact:]) / -speeds[impact] == pytest.approx(restitution, abs=0.06)


def test_pushes_come_at_their_interval_with_their_speed(robots: Callable[..., Any]) -> None:
    pushed, left_alone = robots(4), robots(4)
    pushed.randomize(push_interval_range=[0.1, 0.1], push_velocity_range=[0.8, 0.8])
    left_alone.randomize()
    jumps: list[Any] = []
    for batch in (pushed, left_alone):
        batch.reset()
    for _ in range(6):
        pushed.step()
        left_alone.step()
        jumps.append(pushed.engine.physics.qvel[:, :2] - left_alone.engine.physics.qvel[:, :2])
    assert not np.concatenate(jumps[:5]).any()  # five steps of 20 ms make the interval; the sixth starts with the push
    assert (np.linalg.norm(jumps[5], axis=1) > 0.3).all()
    assert (jumps[5].std(axis=0) > 0.1).all()  # in every direction


def test_a_slope_tilts_the_robot_and_leads_uphill_along_x(single: Any) -> None:
    single.randomize(terrain_type="slope", terrain_difficulty=1)
    frame = single.reset()
    for _ in range(40):
        frame = single.step()
    assert single.seen(frame, "projected_gravity")[0, 0] < -0.2  # nose up
    assert not frame.terminated.any()


def test_rough_ground_carries_the_robot_higher(robots: Callable[..., Any]) -> None:
    heights: list[float] = []
    for difficulty in (0.0, 0.5, 1.0):
        batch = robots(8)
        batch.randomize(terrain_type="rough", terrain_difficulty=difficulty, pose_position_noise=[1, 1, 0])
        frame = batch.reset()
        for _ in range(40):
            frame = batch.step()
        assert not frame.terminated.any()
        heights.append(batch.engine.physics.qpos[:, 2].mean())
    assert heights[0] + 0.01 < heights[1] < heights[2] - 0.01


def test_terrain_goes_back_to_flat(robots: Callable[..., Any]) -> None:
    tilted, flat = robots(1), robots(1)
    tilted.randomize(terrain_type="slope", terrain_difficulty=1)
    flat.randomize(terrain_type="flat")
    for _ in range(2):
        flat.reset()
        tilted.reset()
        tilted.randomize(friction_range=[1, 1])
    assert tilted.engine.physics.qpos.tobytes() == flat.engine.physics.qpos.tobytes()

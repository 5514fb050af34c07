"""The quadruped as an engine: what it offers, as its README says, and that an env's trajectory is its own."""

import inspect
import itertools
import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from lucky_transport import messages as m
from lucky_transport.api import make_engine
from lucky_transport.engine import Engine
from lucky_transport.errors import ConfigError, SpecError, UnknownName
from lucky_transport.testing.contract import EngineContract

pytest.importorskip("mujoco", reason="needs the extra: pip install 'lucky-transport[mujoco]'")

from lucky_transport_mujoco import physics, robot, terrain
from lucky_transport_mujoco.control.policies import ACTION_SCALE_RAD, POLICIES
from lucky_transport_mujoco.engine import MujocoEngine
from lucky_transport_mujoco.randomization import QUANTITIES
from lucky_transport_mujoco.sensors import cameras
from lucky_transport_mujoco.sensors.lidar import PRESETS
from lucky_transport_mujoco.sensors.render_thread import MAX_SIDE
from lucky_transport_mujoco.sensors.viewport import MAX_DRAWINGS
from lucky_transport_mujoco.tasks.velocity import REWARDS, TERMINATIONS, WALKING

#: Everything that makes an env draw numbers or get a model of its own.
EVENTFUL = m.SimulationContract(
    joint_position_noise=0.1,
    friction_range=[0.5, 1.2],
    mass_scale_range=[0.8, 1.3],
    motor_offset_range=[-0.05, 0.05],
    push_interval_range=[0.02, 0.08],
    push_velocity_range=[0.2, 0.6],
    terrain_type="rough",
    terrain_difficulty=0.5,
    vel_command_resampling_time_range=[0.02, 0.1],
    vel_command_standing_probability=0.3,
)


class TestQuadruped(EngineContract):
    """The promises of every engine, on every terrain, with episodes short enough to end by time and wild enough to end
    by falling. Of two engines made one after the other the first has one thread and the second one per processor.
    """

    @pytest.fixture(params=["flat", "rough", "slope"], autouse=True)
    def _ground(self, request: pytest.FixtureRequest) -> None:
        self.contract = replace(EVENTFUL, terrain_type=request.param)
        self.threads = itertools.cycle([1, 0])

    def make_engine(self, num_envs: int) -> Engine:
        engine = make_engine("mujoco:quadruped", num_envs, seed=3, max_episode_steps=40, threads=next(self.threads))
        engine.services["/lucky_transport.v1.BatchService/SetResetOptions"](m.SetResetOptionsRequest(self.contract))
        return engine


def test_the_spec_names_every_element_and_says_what_the_task_is(robots: Callable[..., Any]) -> None:
    spec = robots(2).spec
    assert (spec.observation_shape, spec.action_shape) == ((2, 48), (2, 12))
    assert spec.observation_names[0] == "base_lin_vel/x"
    assert spec.observation_names[11:13] == ("velocity_command/yaw", "joint_pos/FL_hip_joint")
    assert len(set(spec.observation_names)) == 48
    assert spec.action_names[:3] == ("FL_hip_joint", "FL_thigh_joint", "FL_calf_joint")
    assert (spec.action.low, spec.action.high) == (-1.0, 1.0)
    assert (spec.step_s, spec.reset_ticks, spec.timeout_terms) == (pytest.approx(0.02), 1, ("time_out",))
    told = {"task": "velocity tracking", "max_episode_steps": 1000, "render_fps": 50}
    assert {name: spec.attributes[name] for name in told} == told


def test_engines_of_one_seed_show_the_same_images_and_the_same_scans(robots: Callable[..., Any]) -> None:
    shown: list[list[Any]] = []
    for seed in (5, 5, 6):
        batch = robots(2, seed=seed, renderer="rays")
        batch.change(m.SetResetOptionsRequest(EVENTFUL))
        assert batch.ask(m.SetLidarLiveRequest(True)).ok
        batch.reset()
        batch.step(0.3)
        requests = [
            m.GetCameraFrameRequest(name="front", width=32, height=24, kind=kind) for kind in m.CameraStreamKind
        ]
        batch.engine.check_camera_requests(1, requests)
        images = [bytes(one.frame.data) for one in batch.engine.camera_frames(1, requests)]
        shown.append([*images, batch.ask(m.GetLidarScanRequest(sensor=1, material=True)).ranges])
    assert shown[0] == shown[1]
    assert all(one != other for one, other in zip(shown[0], shown[2], strict=True))


def test_a_seed_waits_for_the_reset_of_its_env(robots: Callable[..., Any]) -> None:
    """And one that is masked leaves the other envs their own numbers."""
    plain, seeded = robots(2, seed=1), robots(2, seed=1)
    for batch in (plain, seeded):
        batch.randomize(vel_command_resampling_time_range=[0.02, 0.02])  # draws numbers in every step
        batch.reset()
    seeded.ask(m.SetSeedsRequest([9, 9], bytes([0, 1])))
    for _ in range(3):
        assert plain.step().observations.tobytes() == seeded.step().observations.tobytes()
    expected, found = plain.reset().observations, seeded.reset().observations
    assert expected[0].tobytes() == found[0].tobytes()
    assert expected[1].tobytes() != found[1].tobytes()


def test_an_env_that_was_never_reset_stands_still(single: Any) -> None:
    frame = single.step()
    assert not single.seen(frame, "velocity_command").any()
    assert frame.observations.any()
    assert not frame.terminated.any()


def test_actions_far_out_of_bounds_saturate_and_leave_everything_finite(pair: Any) -> None:
    pair.reset()
    for sign in (1, -1, 1):
        frame = pair.step(sign * 3e38)
        assert np.isfinite(frame.observations).all()
        assert np.isfinite(frame.rewards).all()
    assert np.abs(pair.seen(frame, "last_action")).max() == 10


@pytest.mark.parametrize(
    ("name", "options", "kind", "text"),
    [
        ("mujoco:biped", {}, UnknownName, "no variant 'biped'; use mujoco or mujoco:quadruped"),
        (
            "mujoco",
            {"thread": 6},
            ConfigError,
            r"no option 'thread'; did you mean 'threads'\? options: seed, ",
        ),
        ("mujoco", {"threads": -1}, SpecError, "threads -1"),
        ("mujoco", {"seed": -1}, SpecError, "seed -1"),
        *(("mujoco", {"episode_s": s}, SpecError, "expected at least one step") for s in (0, math.nan, math.inf)),
        ("mujoco", {"max_episode_steps": -5}, SpecError, "expected at least one step"),
        ("mujoco", {"num_envs": 0}, ConfigError, "num_envs = 0"),
    ],
)
def test_what_the_engine_cannot_be_made_with_is_refused(
    name: str, options: dict[str, Any], kind: type[Exception], text: str
) -> None:
    with pytest.raises(kind, match=text):
        make_engine(name, **options)


# --- the tables and numbers of the plugin's README ---


README = (Path(__file__).parents[3] / "plugins" / "lucky_transport_mujoco" / "README.md").read_text(encoding="utf-8")


def table(head: str) -> list[tuple[str, ...]]:
    """Return the rows of the table whose first heading is `head`, without back quotes."""
    _, _, rest = README.partition(f"| {head} |")
    rows = rest.partition("\n\n")[0].splitlines()[2:]
    return [tuple(cell.strip().strip("`") for cell in row.strip("|").split("|")) for row in rows]


def test_the_options_are_those_of_the_engine() -> None:
    parameters = inspect.signature(MujocoEngine).parameters.values()
    wanted = [(p.name, str(p.default)) for p in parameters if p.kind is p.KEYWORD_ONLY]
    assert [(name, default.strip('"')) for name, default, _ in table("option")] == wanted


def test_the_terms_are_those_of_the_task(robots: Callable[..., Any]) -> None:
    assert [(name, int(size)) for name, size, _ in table("observation")] == list(robots(1).spec.observation_terms)
    assert [(name, float(weight), text) for name, weight, text in table("reward term")] == [
        (term.name, term.weight, term.summary) for term in REWARDS
    ]
    assert table("termination") == [
        (term.name, "truncated" if term.is_timeout else "terminated", term.summary) for term in TERMINATIONS
    ]


def test_the_terms_of_walking_are_those_of_its_task() -> None:
    weights = {term.name: f"{term.weight}" for term in WALKING.rewards} | {WALKING.floor: ""}
    assert table("term when walking") == [(name, weights[name], text) for name, text in WALKING.summaries.items()]


def test_the_fields_are_those_of_a_contract() -> None:
    rows = [(name, unit, *map(float, limits.split(" to ")), text) for name, unit, limits, text in table("field")]
    assert rows == [(each.name, each.unit, each.least, each.most, each.summary) for each in QUANTITIES]


def test_the_slots_are_those_of_a_robot() -> None:
    assert table("slot") == [
        (str(number), policy.policy_id, ", ".join(policy.commands)) for number, policy in enumerate(POLICIES, 1)
    ]


def test_the_names_and_numbers_in_the_text_are_those_of_the_code() -> None:
    body = robot.load()
    camera, steepest = cameras._DEFAULT, terrain.angle(np.array([terrain.SLOPE]), np.ones(1))  # pyright: ignore[reportPrivateUsage]
    tallest = terrain.lift(np.array([terrain.ROUGH]), np.ones(1))
    for said in (
        f"{camera.width} x {camera.height} unless configured",
        f"{camera.depth_scale * 1000:g} mm from {camera.min_range:g} to {camera.max_range:g} m",
        f"bumps up to {tallest[0] * 100:g} cm",
        f"up to {np.degrees(steepest[0]):.0f} degrees",
        f"Speeds above {physics._TOO_FAST:g} m/s or rad/s",  # pyright: ignore[reportPrivateUsage]
        f"A step is {body.step_s:g} s",
        f"in units of {ACTION_SCALE_RAD} rad",
        f"The largest side is {MAX_SIDE} pixels",
        f"at most {MAX_DRAWINGS}",
        ", ".join(f"{preset.channels} x {preset.azimuth_bins}" for preset in PRESETS[:2]),
        *(f"`{name}`" for name in ("track", "front", "top", *terrain.NAMES)),
    ):
        assert said in README, said

"""The tables and numbers of the plugin's README are those of the code."""

from __future__ import annotations

import inspect
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("mujoco", reason="needs the extra: pip install 'lucky-transport[mujoco]'")

from lucky_transport_mujoco import physics, robot, terrain
from lucky_transport_mujoco.contract_fields import QUANTITIES
from lucky_transport_mujoco.control.policies import ACTION_SCALE_RAD, POLICIES
from lucky_transport_mujoco.engine import MujocoEngine
from lucky_transport_mujoco.sensors import cameras
from lucky_transport_mujoco.sensors.lidar import PRESETS
from lucky_transport_mujoco.sensors.render_thread import MAX_SIDE
from lucky_transport_mujoco.sensors.viewport import MAX_DRAWINGS
from lucky_transport_mujoco.tasks.velocity import REWARDS, TERMINATIONS, WALKING, observation_terms

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


def test_the_terms_are_those_of_the_task() -> None:
    assert [(name, int(size)) for name, size, _ in table("observation")] == list(observation_terms(robot.load()))
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
        (str(number), policy.policy_id, ", ".join(command.name for command in policy.commands))
        for number, policy in enumerate(POLICIES, 1)
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

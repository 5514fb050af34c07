"""What an env tells about itself: repr, attributes, and what it refuses."""

from __future__ import annotations

from typing import Any

import pytest

from lucky_transport import api
from lucky_transport.env.infos import attributes_of, frames_per_second
from lucky_transport.spec.batch_spec import ArraySpec, BatchSpec


def test_its_repr_names_engine_size_transport_and_mode() -> None:
    with api.make("toy", 4, transport="inproc") as env:
        assert repr(env) == "VectorEnv(toy, num_envs=4, transport=inproc, autoreset_mode=NEXT_STEP)"


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("task", "toy"),
        ("task_description", "stay in the middle"),
        ("max_episode_steps", 100),
        ("_max_episode_steps", 100),
        ("render_fps", 50),
    ],
)
def test_attributes_are_answered_once_per_env(name: str, value: Any) -> None:
    with api.make("toy", 2, transport="inproc") as env:
        assert env.get_attr(name) == (value, value)
        assert env.call(name) == (value, value)


def test_an_unknown_attribute_is_refused_with_the_known_ones() -> None:
    with api.make("toy", transport="inproc") as env, pytest.raises(AttributeError) as refused:
        env.call("task_descriptoin")
    assert str(refused.value) == (
        "the envs have no attribute 'task_descriptoin'; they have: "
        "_max_episode_steps, max_episode_steps, render_fps, task, task_description"
    )


def test_attributes_cannot_be_set() -> None:
    with api.make("toy", transport="inproc") as env, pytest.raises(AttributeError, match="'task' cannot be set: it is"):
        env.set_attr("task", "walk")


@pytest.mark.parametrize(
    ("step_s", "attributes", "rate"),
    [(0.02, {}, 50), (0.0, {}, None), (1 / 60, {}, 60), (0.3, {}, 3.333333), (0.02, {"render_fps": 25}, 25)],
)
def test_the_frame_rate_follows_from_the_time_of_a_step(
    step_s: float, attributes: dict[str, Any], rate: float | None
) -> None:
    spec = BatchSpec("e", 1, ArraySpec(), ArraySpec(), step_s=step_s, attributes=attributes)
    assert frames_per_second(spec) == rate
    assert type(frames_per_second(spec)) is type(rate)
    assert attributes_of(spec).get("render_fps") == rate


def test_an_engine_that_tells_nothing_has_no_attributes() -> None:
    assert dict(attributes_of(BatchSpec("e", 1, ArraySpec(), ArraySpec()))) == {}

"""A vector env over an engine with parts: nested observations, actions and infos, each part like a plain array."""

from __future__ import annotations

import re
from collections.abc import Callable, Generator
from contextlib import ExitStack
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from lucky_transport import api
from lucky_transport.env.vector_env import VectorEnv
from lucky_transport.errors import SpecError, SpecTypeError
from lucky_transport.spec.composite import flat, unpack, views
from lucky_transport.testing.trajectories import random_actions
from lucky_transport.transport import Frame

NUM_ENVS = 3

Make = Callable[..., VectorEnv]


@pytest.fixture
def make() -> Generator[Make]:
    with ExitStack() as stack:

        def make(mode: str = "NextStep", episode_steps: int = 100, **arguments: Any) -> VectorEnv:
            arguments |= {"transport": "inproc", "autoreset_mode": mode, "options": {"episode_steps": episode_steps}}
            return stack.enter_context(api.make("toy:composite", NUM_ENVS, **arguments))

        yield make


def actions_of(env: VectorEnv, seed: int = 0) -> Any:
    """Return random actions within bounds, nested as the action space."""
    spec = env.batch_spec
    return unpack(random_actions(spec, np.random.default_rng(seed)), spec.action_parts)


def sent(env: VectorEnv) -> list[NDArray[np.uint8]]:
    """Write down the rows that go out from now on."""
    rows: list[NDArray[np.uint8]] = []
    step = env.transport.step

    def spy(actions: Any, control: Any = None, deadline: Any = None) -> Frame:
        rows.append(np.array(actions))
        return step(actions, control, deadline)

    vars(env)["_exchange"] = spy  # the transport's step, bound once
    return rows


def test_every_part_of_an_action_arrives_cast_like_a_plain_action(make: Make) -> None:
    env = make()
    env.reset(seed=1)
    actions = {
        "push": np.array([[0.5, -0.5], [0, 1], [1, 1]]),
        "gears": np.array([[1, 2], [0, 1], [0, 0]], np.int8),
        "buttons": np.array([[1, 0, 1], [0, 0, 0], [1, 1, 1]]),
        "mode": np.array([3, 0, 1], np.uint16),
    }
    rows = sent(env)
    observations = env.step(actions)[0]
    gears, buttons, mode = observations["arms"]
    assert (gears * 2).tolist() == actions["gears"].tolist()
    assert buttons.tolist() == actions["buttons"].tolist()
    assert mode.tolist() == actions["mode"].tolist()
    arrived = unpack(rows[0], env.batch_spec.action_parts)
    assert {name: part.tolist() for name, part in arrived.items()} == {k: v.tolist() for k, v in actions.items()}


PARTS: list[tuple[str, Any, type[Exception], str]] = [
    ("push", np.full((3, 2), np.nan), SpecError, 'actions["push"] are not finite: nan at [0, 0] (env 0)'),
    ("push", np.full((3, 2), np.inf), SpecError, 'actions["push"] are not finite: inf'),
    ("push", np.zeros((3, 3)), SpecError, 'actions["push"] have shape (3, 3), expected (3, 2)'),
    ("push", "left", SpecTypeError, 'actions["push"] have dtype <U4'),
    ("gears", np.full((3, 2), 0.5), SpecTypeError, 'actions["gears"] have dtype float64, expected integers (int64)'),
    ("buttons", np.full((3, 3), 300), SpecError, 'actions["buttons"] do not fit int8: 300 at [0, 0] (env 0)'),
    ("mode", np.zeros(2, np.int64), SpecError, 'actions["mode"] have shape (2,), expected (3,)'),
]
KEYS = "expected a dict with the keys ['push', 'gears'"

#: What is made of right actions, and the words of its refusal.
REFUSALS: list[tuple[Callable[[Any], Any], type[Exception], str]] = [
    *((lambda given, part=part, value=value: given | {part: value}, kind, text) for part, value, kind, text in PARTS),
    (lambda given: list(given.values()), SpecTypeError, f"actions is a list of 4, {KEYS}"),
    (lambda given: None, SpecTypeError, "actions is NoneType, expected a dict"),
    (
        lambda given: given | {"brake": 1},
        SpecTypeError,
        "actions is a dict with the keys ['push', 'gears', 'buttons', 'mode'",
    ),
    (lambda given: {"push": given["push"]}, SpecTypeError, f"actions is a dict with the keys ['push'], {KEYS}"),
    (lambda given: np.zeros((3, 256), np.uint8), SpecTypeError, "actions is ndarray, expected a dict"),
]


@pytest.mark.parametrize(("change", "kind", "text"), REFUSALS, ids=[row[2] for row in REFUSALS])
def test_wrong_actions_are_refused_by_their_part_and_nothing_is_sent(
    make: Make, change: Callable[[Any], Any], kind: type[Exception], text: str
) -> None:
    env = make()
    env.reset(seed=1)
    rows = sent(env)
    actions = actions_of(env)
    with pytest.raises(kind, match=re.escape(text)):
        env.step(change(actions))
    assert rows == []
    env.step(actions)
    assert rows[0].tobytes() == random_actions(env.batch_spec, np.random.default_rng(0)).tobytes()


def test_actions_written_in_place_are_passed_on_as_they_are(make: Make) -> None:
    env, other = make(), make()
    env.reset(seed=1)
    other.reset(seed=1)
    actions = actions_of(env, seed=5)
    parts = views(env.transport.actions, env.batch_spec.action_parts)
    for (name,), part in parts.items():
        part[...] = actions[name]
    assert env.step(env.transport.actions)[0]["point"].tobytes() == other.step(actions)[0]["point"].tobytes()


def test_values_out_of_bounds_pass_and_are_counted_part_by_part(make: Make) -> None:
    env = make()
    env.reset(seed=1)
    assert env.out_of_bounds == 0
    actions = actions_of(env)
    actions["push"][:] = 2
    actions["mode"][1] = 9
    env.step(actions)
    assert env.out_of_bounds == 7


def test_strict_validation_names_the_part_and_sends_nothing(make: Make) -> None:
    env = make(validate="strict")
    env.reset(seed=1)
    rows = sent(env)
    actions = actions_of(env)
    actions["gears"][2, 1] = 3
    text = 'actions["gears"] are out of bounds: 3 at [2, 1] (env 2), expected 0 to 2; nothing was sent'
    with pytest.raises(ValueError, match=re.escape(text)):
        env.step(actions)
    assert rows == []
    env.step(actions_of(env))
    assert env.out_of_bounds == 0


# --- infos ---


def test_info_parts_come_out_as_copies_with_masks_at_every_level(make: Make) -> None:
    env = make(copy=False)
    _, info = env.reset(seed=1)
    assert sorted(info) == ["_clock", "_clock/ticks", "_distance", "clock/ticks", "distance"]
    observations, *_, info = env.step(actions_of(env))
    assert info["distance"].tolist() == np.abs(observations["point"][:, 0]).tolist()
    env.step(actions_of(env))
    assert (info["clock"]["ticks"].tolist(), info["clock"]["_ticks"].tolist()) == ([1] * 3, [True] * 3)
    assert info["_distance"].all()
    assert info["_clock"].all()


def test_a_partial_reset_masks_the_infos_of_the_others(make: Make) -> None:
    env = make()
    env.reset(seed=1)
    env.step(actions_of(env))
    _, info = env.reset(options={"reset_mask": np.array([True, False, True])})
    assert info["_distance"].tolist() == info["_clock"].tolist() == [True, False, True]
    assert info["distance"][1] == 0
    assert info["distance"][[0, 2]].all()


def test_an_env_that_is_reset_by_next_step_shows_its_new_infos(make: Make) -> None:
    env = make("NextStep", episode_steps=1)
    env.reset(seed=1)
    assert env.step(actions_of(env))[3].all()
    info = env.step(actions_of(env))[4]
    assert info["clock"]["ticks"].tolist() == [0, 0, 0]
    assert info["_clock"].all()
    assert not info["_reward_terms"].any()


# --- the end of an episode ---


def test_same_step_gives_the_last_observation_and_infos_of_the_ended_envs_only(make: Make) -> None:
    env, other = make("SameStep", episode_steps=4), make("Disabled", episode_steps=4)
    env.reset(seed=1)
    other.reset(seed=1)
    mask = np.array([True, False, False])
    for one in (env, other):
        one.step(actions_of(one))
        one.reset(options={"reset_mask": mask})  # from here on env 0 is one step behind
        one.step(actions_of(one, 1))
        one.step(actions_of(one, 2))
    found, expected = env.step(actions_of(env, 3)), other.step(actions_of(other, 3))
    ended = found[2] | found[3]
    assert ended.tolist() == [False, True, True]
    assert found[4]["_final_obs"].tolist() == found[4]["final_info"]["_distance"].tolist() == ended.tolist()
    finals, last = flat("observation", found[4]["final_obs"]), flat("observation", expected[0])
    for place, array in last.items():
        assert finals[place][ended].tobytes() == array[ended].tobytes(), place
        assert not finals[place][~ended].any(), place
    assert found[4]["final_info"]["clock"]["ticks"].tolist() == [0, 4, 4]
    assert found[4]["clock"]["ticks"].tolist() == [3, 0, 0]
    assert found[0]["point"][0].tobytes() == expected[0]["point"][0].tobytes()


# --- around it ---

"""What a step takes and returns, of plain arrays and of parts: dtypes, lifetimes, rewards, infos, refusals."""

import gc
import re
import sys
from collections.abc import Callable, Generator
from contextlib import ExitStack
from typing import Any

import gymnasium
import numpy as np
import pytest
from numpy.typing import NDArray

from lucky_transport import api
from lucky_transport.env.vector_env import VectorEnv
from lucky_transport.errors import ConfigError, SpecError, SpecTypeError, TransportError
from lucky_transport.spec.composite import flat, unpack, views
from lucky_transport.testing.trajectories import random_actions
from lucky_transport.transport import Frame

Rewards = Callable[[dict[str, NDArray[np.float32]]], Any]


def made(num_envs: int = 3, *, options: dict[str, Any] | None = None, **arguments: Any) -> VectorEnv:
    return api.make("toy", num_envs, transport="inproc", options=options, **arguments)


def _actions(env: VectorEnv, value: float = 0.5) -> NDArray[np.float32]:
    return np.full(env.batch_spec.action_shape, value, np.float32)


def test_it_has_what_others_look_for_on_a_vector_env() -> None:
    with made(4) as env:
        assert gymnasium.vector.VectorEnv in type(env).__bases__  # where skrl looks for it
        assert (env.num_envs, env.render_mode, env.spec, env.closed) == (4, None, None, False)
        assert (env.observation_space.shape, env.single_action_space.shape) == ((4, 8), (2,))
        assert env.autoreset_mode is env.metadata["autoreset_mode"] is gymnasium.vector.AutoresetMode.NEXT_STEP
        assert env.metadata["render_fps"] == 50
        assert env.unwrapped is env


@pytest.mark.parametrize("copy", [True, False])
def test_rewards_flags_and_info_columns_are_always_fresh(copy: bool) -> None:
    with made(copy=copy) as env:
        env.reset(seed=0)
        first = env.step(_actions(env))
        column = first[4]["reward_terms"]["centred"]
        kept = column.copy()
        second = env.step(_actions(env, -1))
        assert column.tobytes() == kept.tobytes()
        for array, later in zip(first[1:4], second[1:4], strict=True):
            array[:] = 1
            assert not np.shares_memory(array, later)
        third = env.step(_actions(env))
        assert not third[2].any()
        assert (third[1] != 1).all()


def test_without_copies_observations_are_read_only_views_of_the_same_memory() -> None:
    with made(copy=False) as env:
        start, _ = env.reset(seed=0)
        first = env.step(_actions(env))[0]
        shown = first.copy()
        second = env.step(_actions(env))[0]
        assert np.shares_memory(start, first)
        assert np.shares_memory(first, second)
        assert (first != shown).any()
        with pytest.raises(ValueError, match="read-only"):
            second[:] = 0


@pytest.mark.parametrize("mode", ["NextStep", "SameStep"])
def test_a_step_does_as_much_in_python_for_many_envs_as_for_few(mode: str) -> None:
    """Steps in which episodes end and envs are reset included: counted in calls, not in time."""

    def calls(num_envs: int) -> int:
        counted = 0

        def count(*_: object) -> None:
            nonlocal counted
            counted += 1

        with made(num_envs, options={"episode_steps": 3}, autoreset_mode=mode) as env:
            env.reset(seed=0)
            actions = _actions(env, 0.0)
            gc.collect()
            gc.disable()  # what a collection calls is not the step's
            sys.setprofile(count)
            try:
                for _ in range(8):
                    env.step(actions)
            finally:
                sys.setprofile(None)
                gc.enable()
        return counted

    calls(2)  # what is made once
    assert calls(2) == calls(500)


# refusals


ACTIONS: list[tuple[Any, type[Exception], str]] = [
    (np.zeros((4, 2)), SpecError, "axis 0 has 4 instead of 3"),
    (np.full((3, 2), np.nan), SpecError, "not finite"),
    (np.full((3, 2), "x"), SpecTypeError, "expected real numbers"),
]
OUTSIDE = (
    np.array([[0, 0], [0, -1.5], [0, 0]]),
    SpecError,
    r"out of bounds: -1\.5 at \[1, 1\] \(env 1\), expected -1\.0",
)


@pytest.mark.parametrize(
    ("actions", "kind", "text", "validate"),
    [*((*row, validate) for row in ACTIONS for validate in ("pass", "strict")), (*OUTSIDE, "strict")],
)
def test_refused_actions_leave_the_env_as_it_was(actions: Any, kind: type[Exception], text: str, validate: str) -> None:
    with made(options={"episode_steps": 2}, validate=validate) as env, made(options={"episode_steps": 2}) as plain:
        env.reset(seed=0)
        plain.reset(seed=0)
        for _ in range(5):
            with pytest.raises(kind, match=text):
                env.step(actions)
            for found, expected in zip(env.step(_actions(env))[:4], plain.step(_actions(plain))[:4], strict=True):
                assert found.tobytes() == expected.tobytes()
        assert env.out_of_bounds == 0


def test_an_unknown_validation_is_refused() -> None:
    with pytest.raises(ConfigError, match="validate 'loose': expected 'pass' or 'strict'"):
        made(validate="loose")


def test_a_step_before_the_first_reset_is_refused_as_gymnasium_does() -> None:
    with made() as env:
        for kind in (gymnasium.error.ResetNeeded, TransportError):
            with pytest.raises(kind, match=r"step is not possible: the env was never reset; call reset\(\)"):
                env.step(_actions(env))


# info


def test_terms_are_columns_with_masks_and_their_own_dtypes() -> None:
    with made(options={"episode_steps": 1}) as env:
        env.reset(seed=0)
        info = env.step(_actions(env))[4]
    columns = {"reward_terms/alive", "reward_terms/centred", "termination_terms/out_of_range"}
    columns |= {"termination_terms/time_out"}
    assert set(info) == columns | {f"_{name}" for name in (*columns, "reward_terms", "termination_terms")}
    assert set(info["reward_terms"]) == {"alive", "_alive", "centred", "_centred"}
    assert info["reward_terms"]["alive"].tolist() == [1.0, 1.0, 1.0]
    assert info["reward_terms"]["alive"].dtype == np.float32
    assert info["termination_terms"]["time_out"].tolist() == [True, True, True]
    assert info["termination_terms"]["out_of_range"].dtype == np.bool_
    for mask in (info["_reward_terms"], info["reward_terms"]["_alive"], info["termination_terms"]["_time_out"]):
        assert mask.tolist() == [True, True, True]
        assert not mask.flags.writeable


# rewards of the user's own


def test_a_reward_function_gets_copies_of_every_signal_and_its_result_is_the_reward() -> None:
    seen: list[dict[str, NDArray[np.float32]]] = []

    def reward(signals: dict[str, NDArray[np.float32]]) -> NDArray[Any]:
        seen.append(signals)
        signals["alive"] += 1
        return signals["alive"].astype(np.float64) - signals["time_out"] * 10

    with made(reward_fn=reward, options={"episode_steps": 2}) as env:
        env.reset()
        _, rewards, _, _, info = env.step(_actions(env))
        assert rewards.tolist() == [2.0, 2.0, 2.0]
        rewards += 1
        last = env.step(_actions(env))[1]
        assert last.tolist() == [-8.0, -8.0, -8.0]
        assert last.dtype == np.float32
    assert list(seen[0]) == ["alive", "centred", "out_of_range", "time_out"]
    assert seen[0]["alive"].tolist() == [2.0, 2.0, 2.0]
    assert info["reward_terms"]["alive"].tolist() == [1.0, 1.0, 1.0]


def test_a_reset_env_earns_nothing_whatever_the_reward_function_says() -> None:
    with made(reward_fn=lambda signals: signals["alive"] + 5, options={"episode_steps": 1}) as env:
        env.reset()
        assert env.step(_actions(env))[1].tolist() == [6.0, 6.0, 6.0]
        assert env.step(_actions(env))[1].tolist() == [0.0, 0.0, 0.0]


@pytest.mark.parametrize(
    ("function", "text"),
    [
        (
            lambda signals: signals["alive"][:, None],
            r"reward_fn returned float32 \(3, 1\), expected real numbers",
        ),
        (lambda signals: 1.0, r"reward_fn returned float64 \(\), expected"),
        (lambda signals: None, r"reward_fn returned object \(\), expected"),
        (lambda signals: ["a", "b", "c"], r"reward_fn returned <U1 \(3,\), expected"),
    ],
)
def test_a_reward_of_another_form_is_refused(function: Rewards, text: str) -> None:
    with made(reward_fn=function) as env:
        env.reset()
        with pytest.raises(ValueError, match=text):
            env.step(_actions(env))


def test_an_error_in_a_reward_function_is_the_users_own_and_the_env_goes_on() -> None:
    class Oops(Exception):
        pass

    def reward(signals: dict[str, NDArray[np.float32]]) -> NDArray[np.float32]:
        raise Oops

    with made(reward_fn=reward, options={"episode_steps": 1}) as env:
        env.reset()
        for _ in range(3):
            with pytest.raises(Oops):
                env.step(_actions(env))


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

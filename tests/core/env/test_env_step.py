"""What a step takes and returns: dtypes, lifetimes, rewards, info columns, and refusals that change nothing."""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable
from typing import Any

import gymnasium
import numpy as np
import pytest
from numpy.typing import NDArray

from lucky_transport import api
from lucky_transport.env.vector_env import VectorEnv
from lucky_transport.errors import ConfigError, SpecError, SpecTypeError, TransportError

Rewards = Callable[[dict[str, NDArray[np.float32]]], Any]


def _make(num_envs: int = 3, *, options: dict[str, Any] | None = None, **arguments: Any) -> VectorEnv:
    return api.make("toy", num_envs, transport="inproc", options=options, **arguments)


def _actions(env: VectorEnv, value: float = 0.5) -> NDArray[np.float32]:
    return np.full(env.batch_spec.action_shape, value, np.float32)


def test_it_has_what_others_look_for_on_a_vector_env() -> None:
    with _make(4) as env:
        assert gymnasium.vector.VectorEnv in type(env).__bases__  # where skrl looks for it
        assert (env.num_envs, env.render_mode, env.spec, env.closed) == (4, None, None, False)
        assert (env.observation_space.shape, env.single_action_space.shape) == ((4, 8), (2,))
        assert env.autoreset_mode is env.metadata["autoreset_mode"] is gymnasium.vector.AutoresetMode.NEXT_STEP
        assert env.metadata["render_fps"] == 50
        assert env.unwrapped is env


@pytest.mark.parametrize("copy", [True, False])
def test_rewards_flags_and_info_columns_are_always_fresh(copy: bool) -> None:
    with _make(copy=copy) as env:
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
    with _make(copy=False) as env:
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

        with _make(num_envs, options={"episode_steps": 3}, autoreset_mode=mode) as env:
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

    assert calls(2) == calls(2) == calls(500)


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
    with _make(options={"episode_steps": 2}, validate=validate) as env, _make(options={"episode_steps": 2}) as plain:
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
        _make(validate="loose")


def test_a_step_before_the_first_reset_is_refused_as_gymnasium_does() -> None:
    with _make() as env:
        for kind in (gymnasium.error.ResetNeeded, TransportError):
            with pytest.raises(kind, match=r"step is not possible: the env was never reset; call reset\(\)"):
                env.step(_actions(env))


# info


def test_terms_are_columns_with_masks_and_their_own_dtypes() -> None:
    with _make(options={"episode_steps": 1}) as env:
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


def test_the_terms_of_a_reset_env_are_masked_out() -> None:
    with _make(2, options={"episode_steps": 3}) as env:
        env.reset(seed=0)
        env.step(_actions(env))
        env.reset(options={"reset_mask": np.array([True, False])})
        env.step(_actions(env))
        assert env.step(_actions(env))[3].tolist() == [False, True]
        _, rewards, _, _, info = env.step(_actions(env))
        assert rewards[1] == 0
        assert rewards[0] != 0
        for mask in (info["_reward_terms"], info["reward_terms"]["_alive"], info["termination_terms"]["_time_out"]):
            assert mask.tolist() == [True, False]
        assert info["reward_terms"]["alive"].tolist() == [1.0, 0.0]


# rewards of the user's own


def test_a_reward_function_gets_copies_of_every_signal_and_its_result_is_the_reward() -> None:
    seen: list[dict[str, NDArray[np.float32]]] = []

    def reward(signals: dict[str, NDArray[np.float32]]) -> NDArray[Any]:
        seen.append(signals)
        signals["alive"] += 1
        return signals["alive"].astype(np.float64) - signals["time_out"] * 10

    with _make(reward_fn=reward, options={"episode_steps": 2}) as env:
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
    with _make(reward_fn=lambda signals: signals["alive"] + 5, options={"episode_steps": 1}) as env:
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
    with _make(reward_fn=function) as env:
        env.reset()
        with pytest.raises(ValueError, match=text):
            env.step(_actions(env))


def test_an_error_in_a_reward_function_is_the_users_own_and_the_env_goes_on() -> None:
    class Oops(Exception):
        pass

    def reward(signals: dict[str, NDArray[np.float32]]) -> NDArray[np.float32]:
        raise Oops

    with _make(reward_fn=reward, options={"episode_steps": 1}) as env:
        env.reset()
        for _ in range(3):
            with pytest.raises(Oops):
                env.step(_actions(env))

"""What a reset takes, each checked before anything is sent; and the three autoreset modes."""

import json
import warnings
from collections.abc import Mapping
from typing import Any
from unittest.mock import Mock

import gymnasium
import numpy as np
import pytest
from gymnasium.vector import AutoresetMode
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from lucky_transport import api
from lucky_transport.engines.toy import ToyEngine
from lucky_transport.env.resetting import neutral_actions, read_reset
from lucky_transport.env.vector_env import VectorEnv
from lucky_transport.errors import ConfigError, EngineFailed, LocalProtocolError, SpecError, SpecTypeError
from lucky_transport.host.host import Host
from lucky_transport.inproc import InprocTransport
from lucky_transport.messages import SetResetOptionsRequest, SetResetOptionsResponse, SimulationContract
from lucky_transport.spec.batch_spec import ArraySpec, BatchSpec
from lucky_transport.testing.stepping_contract import DialEngine
from tests.core.env.test_env_step import made
from tests.support.scripted_engine import ScriptedEngine


def _start(seed: Any, options: Mapping[str, Any] | None = None, num_envs: int = 3) -> NDArray[Any]:
    with made(num_envs) as env:
        return env.reset(seed=seed, options=options)[0]


def _curious(
    answer: SetResetOptionsResponse | None = None,
) -> tuple[list[SetResetOptionsRequest], VectorEnv]:
    """Return an env, and the reset options that its engine was sent, which it answers as it was told."""
    asked: list[SetResetOptionsRequest] = []

    def take(request: SetResetOptionsRequest) -> SetResetOptionsResponse:
        asked.append(request)
        return answer or SetResetOptionsResponse(True)

    engine = ScriptedEngine(3, services={"/lucky_transport.v1.BatchService/SetResetOptions": take})
    return asked, VectorEnv(InprocTransport(Host(engine)))


# seeds


def test_env_i_gets_the_seed_plus_i() -> None:
    assert _start(5)[1:].tobytes() == _start(6)[:2].tobytes()
    assert _start(5).tobytes() == _start([5, 6, 7]).tobytes()


@pytest.mark.parametrize(
    "seed",
    [np.int64(5), np.uint8(5), np.array(5), [np.int32(5), 6, 7], (5, 6, 7), np.arange(5, 8), np.array([5, 6, 7])],
)
def test_a_seed_may_be_any_kind_of_integer(seed: Any) -> None:
    assert _start(seed).tobytes() == _start(5).tobytes()


def test_none_in_a_list_leaves_that_envs_stream_as_it_is() -> None:
    start, plain = _start([5, None, 7]), _start(None)
    assert start[1].tobytes() == plain[1].tobytes()
    assert start[[0, 2]].tobytes() == _start(5)[[0, 2]].tobytes()
    assert _start([None, None, None]).tobytes() == plain.tobytes()


@given(seed=st.integers(0, (1 << 64) - 4))
def test_every_seed_of_64_bits_is_taken(seed: int) -> None:
    request = read_reset(ToyEngine(3).spec, seed, None).seeds
    assert request is not None
    assert request.seeds == [seed, seed + 1, seed + 2]


# masks


def test_a_mask_resets_its_envs_and_leaves_the_others_where_they_are() -> None:
    with made() as env:
        env.reset(seed=0)
        before = env.step(np.ones((3, 2)))[0]
        after, info = env.reset(options={"reset_mask": np.array([True, False, True])})
        assert after[1].tobytes() == before[1].tobytes()
        assert (after[[0, 2]] != before[[0, 2]]).any(axis=1).all()
        assert info == {}


def test_seeds_count_only_for_the_envs_of_the_mask() -> None:
    mask = np.array([False, True, False])
    with made() as env, made() as plain:
        for each in (env, plain):
            each.reset(seed=0)
        assert env.reset(seed=50, options={"reset_mask": mask})[0][1].tobytes() == _start(50)[1].tobytes()
        plain.reset(options={"reset_mask": mask})
        assert env.reset()[0][[0, 2]].tobytes() == plain.reset()[0][[0, 2]].tobytes()


def test_a_mask_of_all_is_a_full_reset_even_as_the_first_one() -> None:
    assert _start(5, {"reset_mask": np.ones(3, np.bool_)}).tobytes() == _start(5).tobytes()


@pytest.mark.parametrize(
    ("mask", "kind", "text"),
    [
        ([True, False, True], TypeError, r"must be a numpy array, got list: \[True, False, True\]"),
        (None, TypeError, "must be a numpy array, got NoneType"),
        (np.ones(2, np.bool_), ValueError, r"must have shape \(3,\), got \(2,\)"),
        (np.ones((3, 1), np.bool_), ValueError, r"must have shape \(3,\), got \(3, 1\)"),
        (np.ones(3, np.uint8), TypeError, "must have dtype bool, got uint8"),
        (np.zeros(3, np.bool_), ValueError, r"at least one True, got \[False False False\]"),
    ],
)
def test_a_wrong_mask_raises_the_class_gymnasium_raises(mask: Any, kind: type[Exception], text: str) -> None:
    import gymnasium

    theirs = gymnasium.make_vec("CartPole-v1", num_envs=3, vectorization_mode="sync")
    theirs.reset()
    with pytest.raises(kind):
        theirs.reset(options={"reset_mask": mask})
    theirs.close()
    with made() as env:
        env.reset()
        with pytest.raises(kind, match=text) as raised:
            env.reset(options={"reset_mask": mask})
    assert isinstance(raised.value, SpecError)


def test_the_first_reset_must_reset_every_env() -> None:
    with made() as env, pytest.raises(LocalProtocolError, match="a partial reset is not possible: the env was never"):
        env.reset(options={"reset_mask": np.array([True, False, True])})


def test_a_partial_reset_needs_an_engine_that_can_hold() -> None:
    with made(options={"hold": False}) as env:
        env.reset()
        with pytest.raises(LocalProtocolError, match="cannot hold envs while others step"):
            env.reset(options={"reset_mask": np.array([True, False, True])})
        env.step(np.zeros((3, 2)))


# options


def test_other_options_go_to_the_engine_as_json() -> None:
    asked, env = _curious()
    env.reset(options={"level": np.int64(3), "pose": np.array([1.5, 2.0]), "deep": {"a": [None, True, "ü"]}})
    (request,) = asked
    assert request.contract is None
    assert json.loads(request.options_json) == {"level": 3, "pose": [1.5, 2.0], "deep": {"a": [None, True, "ü"]}}


def test_without_options_nothing_is_sent() -> None:
    asked, env = _curious()
    env.reset()
    env.reset(options={})
    env.reset(options={"reset_mask": np.ones(3, np.bool_), "randomization": None})
    assert asked == []


def test_options_take_effect_in_that_very_reset() -> None:
    quiet, loud = _start(5, {"noise": 0.0}), _start(5)
    assert quiet.tobytes() == loud.tobytes()  # noise acts in steps, not in the start
    with made() as env, made() as plain:
        for each, options in ((env, {"noise": 0.0}), (plain, None)):
            each.reset(seed=5, options=options)
        assert (env.step(np.zeros((3, 2)))[0] != plain.step(np.zeros((3, 2)))[0]).any()


def test_options_nested_too_deeply_are_refused() -> None:
    deep: list[Any] = []
    for _ in range(100_000):
        deep = [deep]
    _, env = _curious()
    with pytest.raises(SpecError, match=r"options\['deep'\] is nested too deeply to go to the engine as JSON"):
        env.reset(options={"deep": deep})
    while deep:  # freed level by level: the interpreter's own way may need as deep a stack
        deep = deep[0]


@pytest.mark.parametrize(
    ("engine", "given", "text"),
    [
        (ToyEngine(3, seedable=False), {"seed": 1}, "engine 'toy' takes no seeds: episodes are not reproducible"),
        (DialEngine(3), {"options": {"level": 1}}, "takes no reset options: they have no effect"),
    ],
    ids=["seeds", "options"],
)
def test_what_an_engine_does_not_take_is_said_once_and_the_reset_goes_on(engine: Any, given: Any, text: str) -> None:
    env = VectorEnv(InprocTransport(Host(engine)))
    with pytest.warns(UserWarning, match=text):
        env.reset(**given)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        env.reset(**given)


def test_options_the_engine_refuses_are_an_error_and_the_env_goes_on_as_it_was() -> None:
    _, env = _curious(SetResetOptionsResponse(False, "no level 9"))
    env.reset()
    with pytest.raises(SpecError, match="engine 'toy' refused set_reset_options: no level 9"):
        env.reset(seed=3, options={"level": 9})
    env.step(np.zeros((3, 2)))


# randomisation


@pytest.mark.parametrize(
    "randomization",
    [
        {"friction_range": [0.5, 1.5], "joint_position_noise": 0.1, "terrain_type": "rough"},
        {"friction_range": np.array([0.5, 1.5]), "joint_position_noise": np.float64(0.1), "terrain_type": "rough"},
        SimulationContract(friction_range=[0.5, 1.5], joint_position_noise=0.1, terrain_type="rough"),
        SimulationContract(friction_range=(0.5, 1.5), joint_position_noise=0.1, terrain_type="rough"),  # pyright: ignore[reportArgumentType]
    ],
)
def test_randomization_is_a_contract_or_a_dict_of_its_fields(randomization: Any) -> None:
    asked, env = _curious()
    env.reset(options={"randomization": randomization})
    expected = SimulationContract(friction_range=[0.5, 1.5], joint_position_noise=0.1, terrain_type="rough")
    assert asked == [SetResetOptionsRequest(expected, "")]


#: Of which no reset is made: its seed, its options, and what is raised.
REFUSALS: list[tuple[Any, Any, type[Exception], str]] = [
    (-1, None, SpecError, "seed -1 of env 0: expected 0 <= seed"),
    (1 << 64, None, SpecError, r"seed 18446744073709551616 of env 0"),
    ((1 << 64) - 1, None, SpecError, r"of env 1: expected 0 <= seed < 2\*\*64"),
    ([1, 2], None, SpecError, "2 seeds for 3 envs: pass one per env, or a single integer"),
    ([1, 2, -3], None, SpecError, "seed -3 of env 2"),
    (1.5, None, SpecTypeError, "seed 1.5: expected an integer"),
    ("5", None, SpecTypeError, "seed '5': expected an integer"),
    ([1, 2, 3.0], None, SpecTypeError, "seed 3.0: expected an integer"),
    (np.array([1.0, 2.0, 3.0]), None, SpecTypeError, "expected an integer"),
    (None, ["a"], SpecTypeError, r"options must be a dict, got list: \['a'\]"),
    (None, {3: 4}, SpecTypeError, r"options\[3\]: keys must be strings, got int"),
    *(
        (
            None,
            {"fine": 1, **option},
            SpecTypeError,
            rf"options\['{next(iter(option))}'\] = .* cannot go to the engine as",
        )
        for option in ({"when": object()}, {"rate": float("nan")}, {"ids": {1, 2}}, {"x": 1j})
    ),
    *(
        (None, {"randomization": given}, kind, text)
        for given, kind, text in (
            ({"fricton_range": [1, 2]}, SpecError, "no field 'fricton_range'; did you mean 'friction_range'. known: "),
            ({"gravity": 1}, SpecError, "no field 'gravity'; known: pose_position_noise, "),
            (
                {"friction_range": 3},
                SpecTypeError,
                r"options\['randomization'\]\.friction_range: expected a sequence, got 3",
            ),
            ({"friction_range": "ab"}, SpecTypeError, r"\.friction_range: expected a sequence, got 'ab'"),
            ({"friction_range": ["a", "b"]}, SpecTypeError, r"\.friction_range\[0\]: expected a number, got 'a'"),
            ({"joint_position_noise": [1]}, SpecTypeError, r"\.joint_position_noise: expected a number, got \[1\]"),
            ({"terrain_type": 3}, SpecTypeError, r"\.terrain_type: expected text, got 3"),
            (
                [("friction_range", [1])],
                SpecTypeError,
                "must be a SimulationContract or a dict of its fields, got list",
            ),
        )
    ),
]


@pytest.mark.parametrize(("seed", "options", "kind", "text"), REFUSALS, ids=[row[3][:40] for row in REFUSALS])
def test_a_wrong_reset_is_refused_before_any_is_sent(seed: Any, options: Any, kind: type[Exception], text: str) -> None:
    asked, env = _curious()
    with pytest.raises(kind, match=text):
        env.reset(seed=seed, options=options)
    assert asked == []


# the exchange itself


@pytest.mark.parametrize(
    ("action", "value"),
    [
        (ArraySpec("float32", (2,), -1.0, 1.0), 0.0),
        (ArraySpec("float32", (2,), 0.5, 2.0), 0.5),
        (ArraySpec("float32", (2,), None, -3.0), -3.0),
        (ArraySpec("int64", (), 4, 6, 3), 4),
        (ArraySpec("float32", (2,)), 0.0),
    ],
)
def test_the_ignored_actions_of_a_reset_are_within_bounds(action: ArraySpec, value: float) -> None:
    actions = neutral_actions(BatchSpec("e", 2, ArraySpec(), action))
    assert (actions == value).all()
    assert actions.dtype == action.dtype


def test_resets_never_count_as_out_of_bounds() -> None:
    with made() as env:
        for _ in range(3):
            env.reset()
        assert env.out_of_bounds == 0


# --- autoreset ---


NEXT, SAME, OFF = AutoresetMode.NEXT_STEP, AutoresetMode.SAME_STEP, AutoresetMode.DISABLED


def _zeros(env: VectorEnv) -> Any:
    return np.zeros(env.batch_spec.action_shape)


def _staggered(mode: AutoresetMode) -> VectorEnv:
    """Return an env of episodes of four steps in which env 1 is one step younger than the others."""
    env = made(options={"episode_steps": 4}, autoreset_mode=mode)
    env.reset(seed=0)
    env.step(_zeros(env))
    env.reset(options={"reset_mask": np.array([False, True, False])})
    for _ in range(2):
        env.step(_zeros(env))
    return env


@pytest.mark.parametrize("text", ["NextStep", "NEXT_STEP", "next_step", "nextstep"])
def test_a_mode_may_be_spelled_by_value_or_name(text: str) -> None:
    with api.make("toy", transport="inproc", autoreset_mode=text) as env:
        assert env.metadata["autoreset_mode"] is NEXT


@pytest.mark.parametrize("mode", ["", "same", 3])
def test_an_unknown_mode_is_refused_with_the_three(mode: Any) -> None:
    with pytest.raises(ConfigError, match="expected one of 'NextStep', 'SameStep', 'Disabled' or a gymnasium"):
        api.make("toy", transport="inproc", autoreset_mode=mode)


def test_same_steps_final_info_holds_the_last_terms_of_the_ended_envs() -> None:
    with _staggered(SAME) as env:
        info = env.step(_zeros(env))[4]
        assert info["_final_info"].tolist() == [True, False, True]
        final = info["final_info"]
        assert final["termination_terms"]["time_out"].tolist() == [True, False, True]
        assert final["reward_terms"]["_alive"].tolist() == [True, False, True]
        assert final["_reward_terms"].tolist() == [True, False, True]
        following = env.step(_zeros(env))[4]
        assert following["_final_obs"].tolist() == [False, True, False]


@pytest.mark.parametrize("copy", [True, False])
def test_same_steps_final_observation_survives_the_following_steps(copy: bool) -> None:
    with api.make("toy", 2, transport="inproc", autoreset_mode=SAME, copy=copy, options={"episode_steps": 2}) as env:
        env.reset(seed=0)
        env.step(_zeros(env))
        final = env.step(_zeros(env))[4]["final_obs"]
        kept = final.copy()
        for _ in range(3):
            env.step(np.ones((2, 2)))
        assert final.tobytes() == kept.tobytes()


def test_same_step_is_refused_where_the_engine_cannot_hold() -> None:
    with pytest.raises(SpecError, match="SAME_STEP resets some of 3 envs while the others hold still"):
        made(options={"hold": False}, autoreset_mode=SAME)
    with made(1, options={"hold": False, "episode_steps": 2}, autoreset_mode=SAME) as env:
        env.reset()
        env.step(_zeros(env))
        assert env.step(_zeros(env))[4]["_final_obs"].tolist() == [True]


def test_disabled_refuses_to_step_an_ended_env_by_its_number() -> None:
    with _staggered(OFF) as env:
        ended = env.step(_zeros(env))[3]
        for _ in range(2):
            with pytest.raises(
                gymnasium.error.ResetNeeded, match=r"some envs have ended .*\(envs \[0, 2\]\); pass their mask"
            ):
                env.step(_zeros(env))
        env.reset(options={"reset_mask": np.array([True, False, False])})
        with pytest.raises(gymnasium.error.ResetNeeded, match=r"\(envs \[2\]\)"):
            env.step(_zeros(env))
        env.reset(options={"reset_mask": ended})
        env.step(_zeros(env))


def test_after_a_failed_reset_of_ended_envs_all_envs_have_to_be_reset(monkeypatch: pytest.MonkeyPatch) -> None:
    with _staggered(OFF) as env:
        ended = env.step(_zeros(env))[3]
        with monkeypatch.context() as failing:
            failing.setattr(env.transport, "step", Mock(side_effect=EngineFailed("out of worlds")))
            with pytest.raises(EngineFailed, match="out of worlds"):
                env.reset(options={"reset_mask": ended})
        with pytest.raises(gymnasium.error.ResetNeeded, match=r"state is unknown; call reset\(\)"):
            env.step(_zeros(env))


def test_a_partial_reset_in_next_step_mode_takes_the_place_of_the_autoreset() -> None:
    with _staggered(NEXT) as env:
        env.step(_zeros(env))
        observations, _ = env.reset(options={"reset_mask": np.array([True, False, False])})
        following, rewards, _, truncated, info = env.step(_zeros(env))
        assert rewards[0] != 0
        assert rewards[2] == 0
        assert truncated.tolist() == [False, True, False]
        assert info["_reward_terms"].tolist() == [True, True, False]
        assert (following[0] != observations[0]).any()


def test_a_full_reset_in_next_step_mode_forgets_the_pending_ones() -> None:
    with made(options={"episode_steps": 1}) as env:
        env.reset()
        env.step(_zeros(env))
        env.reset()
        assert env.step(_zeros(env))[1].all()

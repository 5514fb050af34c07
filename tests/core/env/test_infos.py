"""What comes with observations: the columns of an info, what an env tells about itself, and results made in C."""

import copy
import gc
import pickle
import sys
import weakref
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from lucky_transport import api
from lucky_transport.env.infos import Info, attributes_of
from lucky_transport.env.results import StepResults, plain_results
from lucky_transport.spec.batch_spec import ArraySpec, BatchSpec
from lucky_transport.testing.trajectories import random_actions
from lucky_transport.transport import Frame


def _info() -> Info:
    return Info({"a/x": 1, "_a/x": 2, "_a": 3, "a/b/y": 4, "_a/b": 5, "_a/b/y": 6, "ab": 7, "_ab": 8})


def test_a_group_is_a_dict_of_its_columns_and_their_masks() -> None:
    info = _info()
    assert info["a"] == {"x": 1, "_x": 2, "b/y": 4, "_b": 5, "_b/y": 6}
    assert info["a"]["b"] == {"y": 4, "_y": 6}
    assert (info["ab"], info["_a"], info["a"]["_b"]) == (7, 3, 5)


def test_a_group_is_found_or_missed_in_every_way_that_reads_a_dict_by_name() -> None:
    info = _info()
    assert ["a" in info, "b" in info["a"], "x" in info, 3 in info] == [True, True, False, False]
    assert (info.get("a"), info.get("ab", 0), info.get("x"), info.get("x", 5)) == (info["a"], 7, None, 5)
    with pytest.raises(KeyError, match="'x'"):
        info["x"]


@pytest.mark.parametrize("copied", [Info.copy, copy.copy, copy.deepcopy, lambda info: pickle.loads(pickle.dumps(info))])
def test_a_copy_has_its_groups(copied: object) -> None:
    assert callable(copied)
    again = copied(_info())
    assert type(again) is Info
    assert again == _info()
    assert again["a"]["b"]["y"] == 4


@pytest.mark.parametrize("engine", ["toy", "toy:composite"])
@pytest.mark.parametrize("mode", ["NextStep", "SameStep", "Disabled"])
def test_every_info_of_an_env_is_flat(engine: str, mode: str) -> None:
    """TorchRL takes an array for every name of an info; only of `final_info` it takes a dict of arrays."""
    generator = np.random.default_rng(0)
    finals = 0
    with api.make(engine, 3, transport="inproc", autoreset_mode=mode, options={"episode_steps": 2}) as env:
        infos = [env.reset(seed=0)[1]]
        for _ in range(4):
            actions = random_actions(env.batch_spec, generator)
            given = env.action_space.sample() if env.batch_spec.action_parts else actions
            _, _, terminated, truncated, info = env.step(given)
            infos.append(info)
            if "final_info" in info:
                infos.append(info.pop("final_info"))
                info.pop("final_obs")
                finals += 1
            if mode == "Disabled" and (ended := terminated | truncated).any():
                infos.append(env.reset(options={"reset_mask": ended})[1])
    assert finals == (2 if mode == "SameStep" else 0)
    for info in infos:
        assert all(isinstance(column, np.ndarray) and len(column) == 3 for column in info.values()), info


def test_its_repr_names_engine_size_transport_and_mode() -> None:
    with api.make("toy", 4, transport="inproc") as env:
        assert repr(env) == "VectorEnv(toy, num_envs=4, transport=inproc, autoreset_mode=NEXT_STEP)"


def test_attributes_are_answered_once_per_env() -> None:
    expected = {"task": "toy", "task_description": "stay in the middle", "render_fps": 50}
    expected |= dict.fromkeys(("max_episode_steps", "_max_episode_steps"), 100)
    with api.make("toy", 2, transport="inproc") as env:
        for name, value in expected.items():
            assert env.get_attr(name) == env.call(name) == (value, value)


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
def test_the_frame_rate_follows_a_steps_time(step_s: float, attributes: dict[str, Any], rate: float | None) -> None:
    spec = BatchSpec("e", 1, ArraySpec(), ArraySpec(), step_s=step_s, attributes=attributes)
    found = attributes_of(spec).get("render_fps")
    assert (found, type(found)) == (rate, type(rate))


def test_an_engine_that_tells_nothing_has_no_attributes() -> None:
    assert dict(attributes_of(BatchSpec("e", 1, ArraySpec(), ArraySpec()))) == {}


DTYPES = ("float32", "float64", "int8", "int64", "uint16", "bool")


def _spec(num_envs: int, shape: tuple[int, ...], dtype: str, reward_terms: int, termination_terms: int) -> BatchSpec:
    return BatchSpec(
        engine="test",
        num_envs=num_envs,
        observation=ArraySpec(dtype, shape),
        action=ArraySpec("float32", (1,)),
        reward_terms=tuple(f"r{i}" for i in range(reward_terms)),
        termination_terms=tuple(f"t{i}" for i in range(termination_terms)),
    )


def _frame(spec: BatchSpec, seed: int) -> Frame:
    random = np.random.default_rng(seed)
    signals = random.normal(size=(len(spec.reward_terms) + len(spec.termination_terms), spec.num_envs))
    signals[len(spec.reward_terms) :] = 0
    none = np.zeros(spec.num_envs, np.uint8)
    observations = random.integers(0, 2, (spec.num_envs, *spec.observation.shape)).astype(spec.observation.dtype)
    rewards = random.normal(size=spec.num_envs).astype(np.float32)
    frame = Frame(observations, rewards, none, none, signals.astype(np.float32))
    for array in (frame.observations, frame.rewards, frame.signals):
        array.flags.writeable = False
    return frame


def _assert_same(ours: Any, reference: Any) -> None:
    *arrays, info = ours
    *expected, expected_info = reference
    pairs = [*zip(arrays, expected, strict=True), *((info[name], expected_info[name]) for name in expected_info)]
    assert list(info) == list(expected_info)
    assert type(info) is type(expected_info) is Info
    for one, other in pairs:
        assert (one.dtype, one.shape, one.flags.writeable) == (other.dtype, other.shape, other.flags.writeable)
        np.testing.assert_array_equal(one, other)


def test_a_reward_column_keeps_no_memory_but_its_own() -> None:
    spec = _spec(3, (2,), "float32", 2, 1)
    info = plain_results(StepResults(spec, copy=True, reward_fn=None))(_frame(spec, 0))[-1]
    assert all(info[name].base is None for name in ("reward_terms/r0", "reward_terms/r1"))


@given(
    num_envs=st.integers(1, 5),
    shape=st.lists(st.integers(1, 4), min_size=1, max_size=3).map(tuple),
    dtype=st.sampled_from(DTYPES),
    terms=st.tuples(st.integers(1, 4), st.integers(0, 3)),
    copies=st.booleans(),
    seed=st.integers(0, 2**32 - 1),
)
def test_the_native_result_is_the_reference(
    num_envs: int, shape: tuple[int, ...], dtype: str, terms: tuple[int, int], copies: bool, seed: int
) -> None:
    spec = _spec(num_envs, shape, dtype, *terms)
    reference = StepResults(spec, copy=copies, reward_fn=None)
    make = plain_results(reference)
    assert make != reference.plain, "this compares the reference with itself"
    frame = _frame(spec, seed)
    ours = make(frame)
    _assert_same(ours, reference.plain(frame))
    assert np.shares_memory(ours[0], frame.observations) is not copies
    assert not any(np.shares_memory(array, frame.signals) for array in ours[4].values())


@pytest.mark.parametrize("strange", ["strided", "transposed", "a term set", "a subclass"])
def test_a_frame_that_is_not_plain_goes_to_the_reference(strange: str) -> None:
    spec = _spec(3, (4, 4), "float32", 2, 1)
    reference = StepResults(spec, copy=True, reward_fn=None)
    frame = _frame(spec, 0)
    observations: dict[str, NDArray[Any]] = {
        "strided": np.zeros((3, 4, 8), np.float32)[:, :, ::2],
        "transposed": np.arange(48, dtype=np.float32).reshape(3, 4, 4).transpose(0, 2, 1),
        "a subclass": np.ma.masked_array(frame.observations),
    }
    frame.observations = observations.get(strange, frame.observations)
    if strange == "a term set":
        frame.signals = frame.signals.copy()
        frame.signals[2, 1] = 1
    ours = plain_results(reference)(frame)
    _assert_same(ours, reference.plain(frame))
    assert ours[4]["termination_terms/t0"].any() == (strange == "a term set")


def test_results_keep_nothing_alive_and_lose_nothing() -> None:
    spec = _spec(2, (3,), "float32", 2, 1)
    reference = StepResults(spec, copy=False, reward_fn=None)
    make, frame = plain_results(reference), _frame(spec, 0)
    counted = (frame.observations, frame.signals, *reference.columns.shared.values(), Info)
    before = [sys.getrefcount(each) for each in counted]
    for _ in range(100):
        make(frame)
    assert [sys.getrefcount(each) for each in counted] == before
    column = make(frame)[4]["reward_terms/r1"]  # a view: what it shows must live on
    np.testing.assert_array_equal(column, frame.signals[1])
    alive = weakref.ref(reference)
    del reference, make
    gc.collect()
    assert alive() is None


def test_wrong_use_of_the_native_results_is_a_type_error() -> None:
    spec = _spec(1, (1,), "float32", 1, 0)
    make: Any = plain_results(StepResults(spec, copy=True, reward_fn=None))
    kind: Any = type(make)
    for wrong in (
        lambda: kind(),
        lambda: kind(Info, [], (), True, print),
        lambda: kind.__new__(kind)(_frame(spec, 0)),
        lambda: make.__init__(Info, {}, (), True, print),
        lambda: make(),
        lambda: make(_frame(spec, 0), None),
    ):
        with pytest.raises(TypeError):
            wrong()
    with pytest.raises(AttributeError, match="observations"):
        make(object())


def test_nested_results_and_functions_are_left_to_the_reference() -> None:
    spec = _spec(1, (1,), "float32", 1, 0)
    reference = StepResults(spec, copy=True, reward_fn=lambda terms: terms["r0"])
    assert plain_results(reference) == reference.plain

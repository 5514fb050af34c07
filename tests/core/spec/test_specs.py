"""A batch spec says everything once, survives its journey as JSON, and refuses what cannot travel."""

import inspect
import json
import math
from importlib.metadata import version
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.spaces import Box, Discrete, MultiBinary, MultiDiscrete
from hypothesis import given
from hypothesis import strategies as st

from lucky_transport.errors import SpecError
from lucky_transport.spec.batch_spec import DTYPES, ArraySpec, BatchSpec, Part, total_reward

VERSION = version("lucky-transport")
NAMES = st.text(min_size=1, max_size=8)
SHAPES = st.lists(st.integers(1, 4), max_size=3).map(tuple)
NUMBERS = st.floats(allow_nan=False, allow_infinity=False, width=32)


@st.composite
def array_specs(draw: st.DrawFn) -> ArraySpec:
    if draw(st.booleans()):
        n, start = draw(st.integers(1, 9)), draw(st.integers(-3, 3))
        return ArraySpec("int64", (), start, start + n - 1, n)
    low, high = draw(st.none() | NUMBERS), draw(st.none() | NUMBERS)
    if low is not None and high is not None:
        low, high = sorted((low, high))
    return ArraySpec(draw(st.sampled_from(DTYPES)), draw(SHAPES), low, high)


@st.composite
def batch_specs(draw: st.DrawFn) -> BatchSpec:
    observation, action = draw(array_specs()), draw(array_specs())
    terms = tuple(draw(st.lists(NAMES, max_size=3, unique=True)))
    return BatchSpec(
        engine=draw(NAMES),
        num_envs=draw(st.integers(1, 10_000)),
        observation=observation,
        action=action,
        reward_terms=tuple(draw(st.lists(NAMES, min_size=1, max_size=4, unique=True))),
        termination_terms=terms,
        timeout_terms=terms[:1],
        observation_names=tuple(f"x{i}" for i in range(observation.size)) if draw(st.booleans()) else (),
        observation_terms=tuple(draw(st.lists(st.tuples(NAMES, st.integers(1, 5)), max_size=3))),
        action_groups=tuple(draw(st.lists(st.tuples(NAMES, st.lists(st.integers(0, 5)).map(tuple)), max_size=2))),
        reset_ticks=draw(st.integers(0, 1)),
        hold=draw(st.booleans()),
        step_s=draw(st.floats(0, 1)),
        attributes=draw(st.dictionaries(NAMES, st.integers() | NAMES | st.booleans(), max_size=3)),
    )


def _spec(**changes: Any) -> BatchSpec:
    return BatchSpec(**{"engine": "e", "num_envs": 2, "observation": ArraySpec(), "action": ArraySpec()} | changes)


@given(batch_specs())
def test_a_spec_survives_its_journey_as_json(spec: BatchSpec) -> None:
    back = BatchSpec.from_json(spec.to_json())
    assert back == spec
    assert back.to_json() == spec.to_json()


@given(batch_specs())
def test_unknown_keys_of_a_newer_peer_are_ignored(spec: BatchSpec) -> None:
    plain = json.loads(spec.to_json()) | {"from_the_future": [1, 2]}
    plain["observation"]["also_new"] = True
    assert BatchSpec.from_json(json.dumps(plain)) == spec


def test_the_version_of_another_writer_is_said_once(caplog: pytest.LogCaptureFixture) -> None:
    plain = json.loads(_spec().to_json())
    plain |= {"engine": "other", "lucky_transport": "9.9"}
    for _ in range(2):
        assert BatchSpec.from_json(json.dumps(plain)) == _spec(engine="other")
    assert caplog.messages == [
        f"engine 'other' runs lucky_transport '9.9', this process {VERSION}; what only one of them has is not there"
    ]


@pytest.mark.parametrize("said", [VERSION, None, 3, ["9.9"]])
def test_the_same_version_and_none_are_not_worth_a_word(said: object, caplog: pytest.LogCaptureFixture) -> None:
    plain = json.loads(_spec().to_json()) | {"lucky_transport": said}
    assert BatchSpec.from_json(json.dumps(plain)) == _spec()
    assert not caplog.messages


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)


@given(JSON.map(json.dumps) | st.text() | st.binary())
def test_hostile_text_is_a_spec_error_and_nothing_else(text: str | bytes) -> None:
    with pytest.raises(SpecError):
        BatchSpec.from_json(text)


@given(key=st.sampled_from(sorted(json.loads(_spec().to_json()))), value=JSON)
def test_a_spec_with_one_hostile_value_is_a_spec_or_a_spec_error(key: str, value: Any) -> None:
    text = json.dumps(json.loads(_spec(termination_terms=("t",)).to_json()) | {key: value})
    try:
        spec = BatchSpec.from_json(text)
    except SpecError:
        return
    assert type(spec.num_envs) is int
    assert type(spec.hold) is bool
    assert isinstance(spec.attributes, dict)
    assert all(type(name) is str for name in (spec.engine, *spec.reward_terms, *spec.termination_terms))
    assert BatchSpec.from_json(spec.to_json()) == spec


@given(key=st.sampled_from(["dtype", "shape", "low", "high", "n", "kind"]), value=JSON)
def test_an_array_spec_with_one_hostile_value_is_a_spec_or_a_spec_error(key: str, value: Any) -> None:
    plain = json.loads(_spec().to_json())
    plain["observation"][key] = value
    try:
        spec = BatchSpec.from_json(json.dumps(plain))
    except SpecError:
        return
    assert all(type(extent) is int for extent in spec.observation.shape)
    assert BatchSpec.from_json(spec.to_json()) == spec


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"num_envs": 0}, "num_envs 0: expected at least 1"),
        ({"reward_terms": ()}, "at least one reward term"),
        ({"reward_terms": ("a", "b", "a")}, "reward_terms has 'a' twice; give each term a name of its own"),
        ({"termination_terms": ("t", "t")}, "termination_terms has 't' twice"),
        ({"termination_terms": ("fell", "late"), "timeout_terms": ("nope",)}, "'nope' is no .* which has: fell, late"),
        ({"timeout_terms": ("nope",)}, "timeout term 'nope' is no termination term; add it to .* which has: none"),
        ({"reset_ticks": 2}, "reset_ticks 2: expected 0 or 1"),
        ({"observation": ArraySpec(shape=(3,)), "observation_names": ("a",)}, "observation_names has 1 names for 3"),
        ({"info_parts": (Part(("a",), ArraySpec()),)}, "observation: with parts .* travels, expected uint8"),
        ({"action": ArraySpec(shape=(2,)), "action_names": ("a",)}, "action_names has 1 names for 2 elements"),
    ],
)
def test_a_spec_that_contradicts_itself_is_refused(changes: dict[str, Any], text: str) -> None:
    with pytest.raises(SpecError, match=text):
        _spec(**changes)


@pytest.mark.parametrize(
    ("low", "high", "text"),
    [
        (1.0, -1.0, "low 1.0 is above high -1.0 at element 0; swap them"),
        ([0.0, None, 2.0], 1.0, "low 2.0 is above high 1.0 at element 2"),
        ([0.0, 0.0, 0.0], [1.0, None, -1.0], "low 0.0 is above high -1.0 at element 2"),
    ],
)
def test_bounds_of_a_peer_that_cross_are_refused_with_their_element(low: Any, high: Any, text: str) -> None:
    plain = json.loads(_spec().to_json())
    plain["action"] |= {"shape": [3], "low": low, "high": high}
    with pytest.raises(SpecError, match=text):
        BatchSpec.from_json(json.dumps(plain))


@pytest.mark.parametrize("dtype", ["float16", "complex64", "object", "U5", "", "int"])
def test_a_dtype_that_cannot_travel_is_refused_by_name(dtype: str) -> None:
    with pytest.raises(SpecError, match=rf"dtype '{dtype}' cannot travel; expected one of float32"):
        ArraySpec(dtype)


@pytest.mark.parametrize("shape", [(0,), (3, 0), (-1,)])
def test_an_empty_axis_is_refused(shape: tuple[int, ...]) -> None:
    with pytest.raises(SpecError, match="empty axis"):
        ArraySpec("float32", shape)


@pytest.mark.parametrize(
    "space",
    [
        Discrete(5),
        Discrete(3, start=-1),
        Box(-1, 1, (3,), np.float32),
        Box(-np.inf, np.inf, (2, 2), np.float64),
        Box(0, np.inf, (2,), np.float32),
        Box(0, 255, (4, 4, 3), np.uint8),
        Box(-5, 5, (2,), np.int32),
        Box(np.array([-1, -2], np.float32), np.array([1, np.inf], np.float32), dtype=np.float32),
        MultiDiscrete([2, 3]),
        MultiDiscrete(np.array([[2, 3], [4, 4]]), np.int32, start=np.array([[-1, 0], [5, 2]])),
        MultiBinary(3),
        MultiBinary([2, 2]),
        Box(0, 1, (2,), np.bool_),  # pyright: ignore[reportArgumentType, reportCallIssue]
    ],
    ids=str,
)
def test_a_space_survives_becoming_a_spec_and_json(space: gymnasium.Space[Any]) -> None:
    spec = _spec(observation=ArraySpec.of_space(space))
    back = BatchSpec.from_json(spec.to_json()).observation.space()
    assert back == space
    assert back.dtype == space.dtype


def test_a_discrete_space_has_the_specs_dtype_where_gymnasium_gives_it_one() -> None:
    space = ArraySpec("uint8", (), 1, 4, 4).space()
    has_dtype = "dtype" in inspect.signature(Discrete).parameters
    assert space.dtype == np.dtype("uint8" if has_dtype else "int64")
    assert [space.contains(value) for value in (0, 1, 4, 5)] == [False, True, True, False]
    assert ArraySpec.of_space(space).n == 4


def test_the_total_reward_is_added_in_manifest_order() -> None:
    """Float addition is not associative: the order is part of the definition."""
    signals = np.array([[1e8], [1.0], [-1e8], [5.0]], np.float32)
    assert total_reward(signals, 3).tolist() == [0.0]
    assert math.fsum([1e8, 1.0, -1e8]) == 1.0
    reordered = np.array([[1e8], [-1e8], [1.0], [5.0]], np.float32)
    assert total_reward(reordered, 3).tolist() == [1.0]

"""A batch spec says everything once, survives its journey as JSON, refuses what cannot travel; and valid actions."""

from __future__ import annotations

import base64
import copy
import inspect
import json
import math
import pathlib
import re
from collections.abc import Callable
from dataclasses import replace
from decimal import Decimal
from functools import partial
from importlib.metadata import version
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.spaces import Box, Dict, Discrete, Graph, MultiBinary, MultiDiscrete, Sequence, Text, Tuple
from hypothesis import example, given
from hypothesis import strategies as st

from lucky_transport import api
from lucky_transport.errors import LocalProtocolError, SpecError, SpecTypeError
from lucky_transport.spec.actions import Bounds, check_actions, check_control
from lucky_transport.spec.array_spec import fitting
from lucky_transport.spec.batch_spec import DTYPES, ArraySpec, BatchSpec, total_reward
from lucky_transport.spec.composite import Part, Path, flat, pack, place, unpack, views
from lucky_transport.spec.spaces import array_of, space_of

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


ARRAYS = st.builds(
    ArraySpec, st.sampled_from(DTYPES), st.lists(st.integers(1, 5), max_size=3).map(tuple), st.none(), st.none()
)
KEYS = st.text(max_size=4)


def trees(names: st.SearchStrategy[str]) -> st.SearchStrategy[Any]:
    """Return array specs, nested in dicts with these names and in tuples."""
    return st.recursive(
        ARRAYS,
        lambda inner: (
            st.dictionaries(names, inner, min_size=1, max_size=4) | st.lists(inner, min_size=1, max_size=3).map(tuple)
        ),
        max_leaves=8,
    )


TREES = trees(KEYS)
INFOS = trees(KEYS.filter(lambda name: not name.startswith("_")))  # of an info these are masks


def parts_of(tree: Any, at: Path = ()) -> list[Part]:
    """Return the parts that are nested like `tree`, whose ends are array specs."""
    if isinstance(tree, ArraySpec):
        return [Part(at, tree)]
    branches = tree.items() if isinstance(tree, dict) else enumerate(tree)
    return [part for key, branch in branches for part in parts_of(branch, (*at, key))]


def spec_of(parts: list[Part], infos: list[Part] | None = None, num_envs: int = 2) -> BatchSpec:
    observation, observation_parts, info_parts = pack(parts, infos or [])
    return BatchSpec(
        "e", num_envs, observation, ArraySpec(), observation_parts=observation_parts, info_parts=info_parts
    )


A, B = Part(("a",), ArraySpec("float64", (3,))), Part(("b", 0), ArraySpec("uint8", (65,)))


def test_parts_lie_in_order_on_boundaries_of_64_bytes_and_infos_behind() -> None:
    array, parts, infos = pack([A, B], [Part(("level",), ArraySpec("int32"))])
    assert [part.offset for part in (*parts, *infos)] == [0, 64, 192]
    assert array == ArraySpec("uint8", (256,))


@given(TREES, st.integers(1, 4), st.randoms(use_true_random=False))
def test_what_is_written_into_a_view_is_in_the_row_and_nowhere_else(tree: Any, rows: int, random: Any) -> None:
    array, parts, _ = pack(parts_of(tree))
    memory = np.zeros((rows, array.size), np.uint8)
    found = views(memory, parts)
    written: dict[Path, bytes] = {}
    for part in random.sample(parts, len(parts)):
        view = found[part.path]
        assert (view.dtype, view.shape) == (np.dtype(part.array.dtype), (rows, *part.array.shape))
        assert np.shares_memory(view, memory)
        view[...] = (
            np.frombuffer(random.randbytes(view.nbytes), np.uint8).reshape(-1).view(view.dtype).reshape(view.shape)
        )
        written[part.path] = view.tobytes()
    assert {
        part.path: view.tobytes() for part, view in zip(parts, views(memory, parts).values(), strict=True)
    } == written
    used = sum(part.array.size_bytes for part in parts)
    assert np.count_nonzero(memory) <= rows * used


def test_views_of_one_row_have_no_batch_axis_and_addresses_on_boundaries() -> None:
    array, parts, _ = pack([A, B])
    memory = np.zeros((4, array.size), np.uint8)
    for row in memory:
        a, b = views(row, parts).values()
        assert (a.shape, b.shape) == ((3,), (65,))
        assert (a.ctypes.data - memory.ctypes.data) % 64 == (b.ctypes.data - memory.ctypes.data) % 64 == 0


def test_nested_views_have_the_names_in_order_and_tuples_where_paths_count() -> None:
    array, parts, _ = pack([Part(("z",), ArraySpec()), Part(("b", 0), ArraySpec()), Part(("b", 1, "c"), ArraySpec())])
    found = unpack(np.zeros((1, array.size), np.uint8), parts)
    assert list(found) == ["z", "b"]
    assert isinstance(found["b"], tuple)
    assert list(flat("x", found)) == ['x["z"]', 'x["b"][0]', 'x["b"][1]["c"]']


#: Of parts: their paths, and what is wrong with the nest they make.
NO_NESTS: list[tuple[list[Path], str]] = [
    ([], "spec has no parts"),
    ([("a",), ("a",)], 'spec["a"] is named by 2 parts'),
    ([("a",), ("a", "b")], 'spec["a"] is named by 2 parts'),
    ([(), ("a",)], "spec is named by 2 parts"),
    ([("a",), (0,)], "spec has parts ['a', 0]: expected names, or places 0, 1, 2"),
    ([(1,), (0,)], "spec has parts [1, 0]: expected names, or places 0, 1, 2"),
    ([("a", 1)], 'spec["a"] has parts [1]: expected names, or places 0, 1, 2'),
    ([("a",) * 33], "is nested deeper than 32 levels"),
]
#: Spaces that cannot travel, and the words of the refusal.
NO_SPACES: list[tuple[gymnasium.Space[Any], str]] = [
    (Text(4), "action: Text spaces cannot travel yet; wrap the env"),
    (Dict({"a": Tuple([Discrete(2), Graph(Discrete(2), None)])}), 'action["a"][1]: Graph spaces cannot travel'),
    (Dict({"a": Sequence(Discrete(2))}), 'action["a"]: Sequence spaces cannot travel'),
    (Dict({"a": Dict({})}), 'action["a"] is an empty Dict'),
    (Tuple([]), "action is an empty Tuple"),
    (Dict({1: Discrete(2)}), "action has the key 1; the keys of a Dict must be strings"),  # pyright: ignore
]
#: Of an array of two int64: what does not fit its kind.
NO_KINDS: list[tuple[dict[str, Any], str]] = [
    ({"kind": "Sparse"}, "kind 'Sparse': expected one of"),
    ({"kind": "MultiDiscrete", "low": 0}, "a MultiDiscrete of int64 with bounds 0 to None is none"),
    ({"kind": "MultiDiscrete", "low": 2, "high": 1}, "with bounds 2 to 1 is none"),
    ({"kind": "MultiDiscrete", "low": 0, "high": 1 << 63}, "with bounds 0 to 9223372036854775808 is none"),
    ({"kind": "MultiDiscrete", "low": 0, "high": 1.5}, "with bounds 0 to 1.5 is none"),
    ({"kind": "MultiBinary", "low": 0, "high": 1}, "a MultiBinary is int8 from 0 to 1, not int64"),
]
PARTED = spec_of([A, Part(("b", 0), ArraySpec("uint8"))])
#: Of PARTED's first part: what does not lie where it must.
NO_PLACES: list[tuple[dict[str, Any], str]] = [
    ({"offset": 32}, "lies at byte 32"),
    ({"offset": -64}, "lies at byte -64"),
    ({"offset": 128}, 'observation["a"] lies at byte 128 (24 bytes) of a row of 128'),
    ({"array": ArraySpec("float64", (9,))}, "[0] lies at byte 64 (1 bytes) of a row of 128, with 72 taken"),
]
NO_ROWS = [ArraySpec("float32", (32,)), ArraySpec("uint8", (100,)), ArraySpec("uint8", (64, 2))]
MEANT = [("reward_terms",), ("termination_terms",), ("final_obs",), ("final_info", "x"), ("_mine",), ("clock", "_x")]


def moved(**changes: Any) -> BatchSpec:
    first, second = PARTED.observation_parts
    return replace(PARTED, observation_parts=(replace(first, **changes), second))


@pytest.mark.parametrize(
    ("make", "text"),
    [
        *(
            (partial(ArraySpec, dtype), f"dtype '{dtype}' cannot travel; expected one of float32")
            for dtype in ("float16", "complex64", "object", "U5", "", "int")
        ),
        *((partial(ArraySpec, "float32", shape), "empty axis") for shape in ((0,), (3, 0), (-1,))),
        *((partial(pack, [Part(path, ArraySpec()) for path in paths]), text) for paths, text in NO_NESTS),
        *(
            (partial(pack, [A], [Part(path, ArraySpec())]), f"{place('info', path)}: the name is taken")
            for path in MEANT
        ),
        (partial(pack, [A], [Part((0,), ArraySpec())]), "info parts need names"),
        *((partial(array_of, "action", space), text) for space, text in NO_SPACES),
        *((partial(ArraySpec, "int64", (2,), **changes), text) for changes, text in NO_KINDS),
        *((partial(moved, **changes), text) for changes, text in NO_PLACES),
        *((partial(replace, PARTED, observation=row), "travels, expected uint8 (row_bytes,)") for row in NO_ROWS),
    ],
)
def test_what_cannot_be_is_refused_by_its_name_and_place(make: Callable[[], object], text: str) -> None:
    with pytest.raises(SpecError, match=re.escape(text)):
        make()


# --- as JSON ---


def test_a_spec_without_parts_is_spelled_as_it_always_was() -> None:
    plain = json.loads(BatchSpec("e", 1, ArraySpec(), ArraySpec()).to_json())
    assert not [key for key in plain if "part" in key]
    assert sorted(plain["observation"]) == ["dtype", "high", "low", "n", "shape"]


# --- Gymnasium's spaces ---

NESTED = Dict(
    {
        "camera": Dict({"left": Box(0, 255, (2, 3, 3), np.uint8), "right": Box(0, 1, (4,), np.float64)}),
        "arms": Tuple([Box(-1, 1, (2,)), Discrete(3, start=-1), MultiBinary(4)]),
        "gears": MultiDiscrete(np.array([[2, 3], [4, 5]]), start=np.array([[0, 1], [-3, 0]])),
        "lamps": MultiBinary([2, 2]),
    }
)


@pytest.mark.parametrize("space", [NESTED, Tuple([NESTED, Discrete(2)]), Dict({"only": MultiBinary(3)})], ids=str)
def test_a_nested_space_survives_becoming_parts_and_json(space: gymnasium.Space[Any]) -> None:
    array, parts = array_of("action", space)
    spec = BatchSpec("e", 3, ArraySpec(), array, action_parts=parts)
    assert BatchSpec.from_json(spec.to_json()).action_space() == space


@pytest.mark.parametrize("space", [Box(-1, 1, (3,)), Discrete(3), MultiBinary(2), MultiDiscrete([2, 2])], ids=str)
def test_a_space_of_one_array_has_no_parts(space: gymnasium.Space[Any]) -> None:
    array, parts = array_of("action", space)
    assert parts == ()
    assert space_of("action", array, parts) == space


def test_a_kind_of_a_newer_peer_is_seen_as_a_box() -> None:
    plain = ArraySpec("int8", (3,), 0, 1, kind="MultiBinary").to_plain() | {"kind": "MultiQuantum"}
    assert ArraySpec.from_plain(plain) == ArraySpec("int8", (3,), 0, 1)


@given(
    batch_specs()
    | st.builds(
        lambda tree, infos: spec_of(parts_of(tree), parts_of(infos)), TREES, INFOS.map(lambda tree: {"info": tree})
    )
    | TREES.map(lambda tree: spec_of(parts_of(tree)))
)
def test_a_spec_survives_its_journey_as_json(spec: BatchSpec) -> None:
    back = BatchSpec.from_json(spec.to_json())
    assert back == spec
    assert back.to_json() == spec.to_json()


HOSTILE = json.loads(replace(spec_of([A, B]), termination_terms=("t",)).to_json())
#: Where a value may be hostile: a key of the spec, of its observation, or of one of its parts.
PLACES: list[tuple[Any, ...]] = [
    *((key,) for key in HOSTILE),
    *(("observation", key) for key in HOSTILE["observation"]),
    *(("observation_parts", which, key) for which in (0, 1) for key in ("path", "array", "offset", "new")),
]


@pytest.mark.parametrize("place", PLACES, ids=repr)
@given(value=JSON)
@example(value=1.5)
def test_a_spec_with_one_hostile_value_is_a_spec_or_a_spec_error(place: tuple[Any, ...], value: Any) -> None:
    plain = copy.deepcopy(HOSTILE)
    holder = plain
    for key in place[:-1]:
        holder = holder[key]
    holder[place[-1]] = value
    try:
        spec = BatchSpec.from_json(json.dumps(plain))
    except SpecError:
        return
    assert type(spec.num_envs) is int
    assert type(spec.hold) is bool
    assert isinstance(spec.attributes, dict)
    assert all(type(name) is str for name in (spec.engine, *spec.reward_terms, *spec.termination_terms))
    assert all(type(extent) is int for extent in spec.observation.shape)
    assert BatchSpec.from_json(spec.to_json()) == spec
    if spec.observation_parts:
        unpack(np.zeros((1, *spec.observation.shape), np.uint8), spec.observation_parts)  # one env's: it may have many


# --- actions: what is wrong is named by its first place ---


def _taking(**changes: Any) -> BatchSpec:
    plain = {"engine": "e", "num_envs": 2, "observation": ArraySpec(), "action": ArraySpec("float32", (3,), -1, 1)}
    return BatchSpec(**plain | changes)


DISCRETE, FLAGS = ArraySpec("int64", (), 0, 2, 3), ArraySpec("bool", ())


@pytest.mark.parametrize(
    ("dtype", "value"),
    [("int8", 128), ("int8", -129), ("uint8", -1), ("uint8", 256), ("uint32", 1 << 32), ("int64", 1 << 63)],
)
def test_integers_that_the_dtype_cannot_hold_are_refused_and_not_wrapped(dtype: str, value: int) -> None:
    spec = _taking(action=ArraySpec(dtype, (3,)))
    actions = np.zeros((2, 3), np.uint64 if value >= 1 << 63 else np.int64)
    actions[1, 2] = value
    with pytest.raises(SpecError, match=rf"^actions do not fit {dtype}: {value} at \[1, 2\] \(env 1\); nothing was"):
        check_actions(spec, actions)
    actions[1, 2] = 1
    assert check_actions(spec, actions).dtype == dtype


@pytest.mark.parametrize("dtype", ["float64", "float16", "int8", "uint64", "bool"])
def test_real_numbers_are_cast(dtype: str) -> None:
    checked = check_actions(_taking(), np.ones((2, 3), dtype))
    assert checked.dtype == np.float32
    assert (checked == 1).all()


@pytest.mark.parametrize(
    "actions", [np.frombuffer(bytes(25), np.float32, 6, 1).reshape(2, 3), np.ones((3, 4), np.float32).T[::2]]
)
def test_any_memory_layout_becomes_contiguous_and_aligned(actions: Any) -> None:
    assert not actions.flags.carray
    assert check_actions(_taking(), actions).flags.carray


@pytest.mark.parametrize(
    ("actions", "kind", "text"),
    [
        ([[1], [1, 2]], SpecError, "actions are no array"),
        (np.zeros((3, 3)), SpecError, r"shape \(3, 3\), expected \(2, 3\): axis 0 has 3 instead of 2"),
        (np.zeros((2, 4)), SpecError, r"shape \(2, 4\), expected \(2, 3\): axis 1 has 4 instead of 3"),
        (np.zeros(6), SpecError, r"shape \(6,\), expected \(2, 3\): 1 axes instead of 2"),
        (np.full((2, 3), "left"), SpecTypeError, r"dtype <U4, expected real numbers that cast to float32"),
        (np.zeros((2, 3), complex), SpecTypeError, r"dtype complex128, expected real numbers"),
        (np.full((2, 3), None), SpecTypeError, r"dtype object, expected real numbers"),
        (None, SpecTypeError, r"dtype object, expected real numbers"),
    ],
)
def test_a_wrong_batch_is_refused_with_its_values(actions: Any, kind: type[Exception], text: str) -> None:
    with pytest.raises(kind, match=text):
        check_actions(_taking(), actions)


@given(
    at=st.tuples(st.integers(0, 1), st.integers(0, 2)),
    value=st.sampled_from([np.nan, np.inf, -np.inf, 1e300]),
)
def test_the_first_value_that_is_not_finite_is_named(at: tuple[int, int], value: float) -> None:
    actions = np.zeros((2, 3))
    actions[at] = value
    actions[1, 2] = np.nan
    with pytest.raises(SpecError, match=rf"at \[{at[0]}, {at[1]}\] \(env {at[0]}\); nothing was sent"):
        check_actions(_taking(), actions)


@pytest.mark.parametrize(
    ("action", "actions", "kind", "text"),
    [
        (DISCRETE, [0.0, 0.0], TypeError, r"dtype float64, expected integers \(int64\): the action space is discrete"),
        (FLAGS, [0.0, 0.7], TypeError, r"dtype float64, expected integers \(bool\)"),
        (FLAGS, [0, 2], ValueError, r"do not fit bool: 2 at \[1\]"),
        (FLAGS, [-1, 0], ValueError, r"do not fit bool: -1 at \[0\]"),
    ],
)
def test_actions_that_are_no_choice_are_refused_and_not_made_one(
    action: ArraySpec, actions: list[float], kind: type[Exception], text: str
) -> None:
    with pytest.raises(kind, match=text):
        check_actions(_taking(action=action), np.array(actions))
    assert check_actions(_taking(action=action), np.array([0, 1])).tolist() == [0, 1]


@pytest.mark.parametrize("control", [np.zeros(3, np.uint8), np.zeros((2, 1), np.uint8), np.zeros(2, np.int32), [0, 0]])
def test_wrong_control_bytes_are_refused_with_their_form(control: Any) -> None:
    with pytest.raises(ValueError, match=r"expected uint8 \(2,\): one byte per env"):
        check_control(_taking(), control)


def test_hold_needs_an_engine_that_can() -> None:
    with pytest.raises(LocalProtocolError, match=r"engine 'e' cannot hold envs .*; use autoreset_mode=NEXT_STEP"):
        check_control(_taking(hold=False), np.array([0, 2], np.uint8))
    assert check_control(_taking(hold=False), np.array([0, 1], np.uint8)).tolist() == [0, 1]


def test_values_outside_the_bounds_are_counted_on_both_sides() -> None:
    actions = np.array([[-1.5, -1, 0], [1, 1.5, 99]], np.float32)
    assert Bounds(ArraySpec("float32", (3,), -1, 1)).count_outside(actions) == 3
    assert Bounds(ArraySpec("float32", (3,), -1, None)).count_outside(actions) == 1
    assert Bounds(ArraySpec("float32", (3,), None, [1, 2, 3])).count_outside(actions) == 1
    assert Bounds(ArraySpec("float32", (3,))).count_outside(actions) == 0


@pytest.mark.parametrize(
    ("low", "high", "text"),
    [
        (-1, 1, r"-1\.5 at \[0, 0\] \(env 0\), expected -1\.0 to 1\.0; nothing was sent"),
        (None, [1, 2, 3], r"99\.0 at \[1, 2\] \(env 1\), expected -inf to 3\.0"),
        (-1, None, r"-1\.5 at \[0, 0\] \(env 0\), expected -1\.0 to inf"),
    ],
)
def test_the_strict_check_names_the_first_value_outside(low: Any, high: Any, text: str) -> None:
    with pytest.raises(ValueError, match=text):
        Bounds(ArraySpec("float32", (3,), low, high)).check(np.array([[-1.5, -1, 0], [1, 1.5, 99]], np.float32))


@pytest.mark.parametrize(
    ("array", "least", "most"),
    [
        (ArraySpec("int64", (), n=3), 0, 2),
        (ArraySpec("int8", (), 5, n=3), 5, 7),
        (ArraySpec.from_plain({"dtype": "int32", "shape": [], "n": 3}), 0, 2),  # as C, C++ and C# write it
        (ArraySpec.of_space(Discrete(3, start=-1)), -1, 1),
        (ArraySpec.of_space(MultiDiscrete([3, 3])), 0, 2),
        (ArraySpec.of_space(MultiBinary(2)), 0, 1),
    ],
)
def test_choices_have_bounds_whether_their_spec_says_them_or_not(array: ArraySpec, least: int, most: int) -> None:
    bounds, actions = Bounds(array), np.full((2, *array.shape), least, array.dtype)
    for value, outside in ((least, 0), (most, 0), (least - 1, actions.size), (most + 1, actions.size)):
        assert bounds.count_outside(np.full_like(actions, value)) == outside
    with pytest.raises(SpecError, match=f"out of bounds: {most + 1} at .*expected {least} to {most}"):
        bounds.check(np.full_like(actions, most + 1))
    assert array.space().contains(np.full_like(actions, most)[0])


class _OnGpu:
    """Values that NumPy cannot read, as those of PyTorch and CuPy are; PyTorch's has a gradient's history as well."""

    __cuda_array_interface__: Any = None

    def __init__(self, values: Any) -> None:
        self._values = np.asarray(values)

    def __array__(self, *_: Any, **__: Any) -> Any:
        raise TypeError("can't convert cuda:0 device type tensor to numpy")


class _OfTorch(_OnGpu):
    def detach(self) -> _OfTorch:
        self.detached = True
        return self

    def cpu(self) -> Any:
        assert self.detached
        return self

    def numpy(self) -> Any:
        return self._values


class _OfCupy(_OnGpu):
    def get(self) -> Any:
        return self._values


class _OfJax(_OnGpu):
    def __array__(self, *_: Any, **__: Any) -> Any:
        return self._values


@pytest.mark.exhaustive
@pytest.mark.usefixtures("forked_engines")
@pytest.mark.parametrize("on_gpu", [_OfTorch, _OfCupy, _OfJax])
@pytest.mark.parametrize("transport", ["shm", "inproc", "grpc"])
def test_actions_on_a_gpu_are_copied_to_the_host_over_every_transport(on_gpu: type[_OnGpu], transport: str) -> None:
    rows = np.full((2, 2), 0.3, np.float32)
    with api.make("toy", 2, transport=transport) as env, api.make("toy", 2, transport=transport) as other:
        env.reset(seed=1)
        other.reset(seed=1)
        np.testing.assert_array_equal(env.step(on_gpu(rows))[0], other.step(rows)[0])
        with pytest.raises(ValueError, match=r"have shape \(3, 2\), expected \(2, 2\)"):
            env.step(on_gpu(np.zeros((3, 2), np.float32)))


@pytest.mark.parametrize(
    ("value", "dtype", "said"),
    [
        (np.array([0.0, 254.7, 300.0]), "uint8", "254.7 (float64) at [1]"),
        (np.array([0.0, -3.0]), "uint8", "-3.0 (float64) at [1]"),
        (np.array([[1.0], [np.nan]]), "int64", "nan (float64) at [1, 0]"),
        (np.array([1.0, 2.0]), "uint8", "1.0 (float64) at [0]"),
        (254.7, "int64", "254.7 (float64)"),
        ([1, 2.5], "int64", "2.5 (float64) at [1]"),
        ([1, 300], "uint8", "300 (int64) at [1]"),
        (-3, "uint8", "-3 (int64)"),
        (2**70, "int64", f"{2**70} (object)"),
        (np.array([1, 2]), "uint8", "1 (int64) at [0]"),
        (np.array([1, 300]), "int8", "300 (int64) at [1]"),
        (np.int64(300), "int8", "300 (int64)"),
        (np.array([1, 2**63], np.uint64), "int64", "9223372036854775808 (uint64) at [1]"),
        (np.array([0, 2]), "bool", "2 (int64) at [1]"),
        (0.5, "bool", "0.5 (float64)"),
        (np.array([1j]), "float32", "1j (complex128) at [0]"),
        ("1.5", "float32", "1.5 (<U3)"),
        (None, "float32", "None (object)"),
        (Decimal("1.5"), "float32", "1.5 (object)"),
        (1e39, "float32", "1e+39 (float64)"),
        (np.array([np.inf, -1e39]), "float32", "-1e+39 (float64) at [1]"),
        ([1, 70000], "float16", "70000 (int64) at [1]"),
    ],
)
def test_what_would_become_another_value_is_refused_by_value_dtype_and_place(value: Any, dtype: str, said: str) -> None:
    with pytest.raises(ValueError) as refused:
        fitting(value, dtype)
    assert str(refused.value) == said


@pytest.mark.parametrize(
    ("value", "dtype"),
    [
        (np.array([0.1, 1e30]), "float32"),
        (np.array([np.nan, -np.inf]), "float32"),
        ([1, 255], "uint8"),
        (7, "int64"),
        (np.array([1, 127]), "int8"),
        (np.array([], np.float64), "float32"),
        (np.arange(3), "float32"),
        (True, "int64"),
        ([True, False], "bool"),
        (2**63, "uint64"),
        ([], "uint8"),
    ],
)
def test_what_stays_the_value_it_is_or_loses_precision_only_is_taken(value: Any, dtype: str) -> None:
    written = np.zeros(np.shape(value), dtype)
    written[...] = fitting(value, dtype)
    assert np.array_equal(written, np.asarray(value).astype(dtype), equal_nan=dtype[0] == "f")


@given(st.integers(-(2**65), 2**65), st.sampled_from([name for name in DTYPES if "int" in name]))
def test_an_integer_of_pythons_is_taken_exactly_where_the_dtype_has_it(value: int, dtype: str) -> None:
    limits = np.iinfo(dtype)
    if limits.min <= value <= limits.max:
        assert int(fitting(value, dtype)) == value
    else:
        with pytest.raises(ValueError, match=str(value)):
            fitting(value, dtype)


def test_actions_on_a_gpu_are_recorded(tmp_path: pathlib.Path) -> None:
    rows = np.full((2, 2), 0.3, np.float32)
    with api.make("toy", 2, transport="shm", record=str(tmp_path / "run.jsonl")) as env:
        env.reset(seed=1)
        env.step(_OfTorch(rows))
    assert base64.b64encode(rows.tobytes()) in (tmp_path / "run.jsonl").read_bytes()

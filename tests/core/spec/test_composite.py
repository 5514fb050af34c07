"""Parts of composite spaces: where they lie in a row, how they are read and written, and what is refused."""

import json
import re
from dataclasses import replace
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.spaces import Box, Dict, Discrete, Graph, MultiBinary, MultiDiscrete, Sequence, Text, Tuple
from hypothesis import given
from hypothesis import strategies as st

from lucky_transport.errors import SpecError
from lucky_transport.spec.batch_spec import DTYPES, ArraySpec, BatchSpec
from lucky_transport.spec.composite import Part, Path, flat, pack, place, unpack, views
from lucky_transport.spec.spaces import array_of, space_of

ARRAYS = st.builds(
    ArraySpec, st.sampled_from(DTYPES), st.lists(st.integers(1, 5), max_size=3).map(tuple), st.none(), st.none()
)
NAMES = st.text(max_size=4)


def trees(names: st.SearchStrategy[str]) -> st.SearchStrategy[Any]:
    """Return array specs, nested in dicts with these names and in tuples."""
    return st.recursive(
        ARRAYS,
        lambda inner: (
            st.dictionaries(names, inner, min_size=1, max_size=4) | st.lists(inner, min_size=1, max_size=3).map(tuple)
        ),
        max_leaves=8,
    )


TREES = trees(NAMES)
INFOS = trees(NAMES.filter(lambda name: not name.startswith("_")))  # of an info these are masks


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


@pytest.mark.parametrize(
    ("paths", "text"),
    [
        ([], "row has no parts"),
        ([("a",), ("a",)], 'row["a"] is named by 2 parts'),
        ([("a",), ("a", "b")], 'row["a"] is named by 2 parts'),
        ([(), ("a",)], "row is named by 2 parts"),
        ([("a",), (0,)], "row has parts ['a', 0]: expected names, or places 0, 1, 2"),
        ([(1,), (0,)], "row has parts [1, 0]: expected names, or places 0, 1, 2"),
        ([("a", 1)], 'row["a"] has parts [1]: expected names, or places 0, 1, 2'),
        ([("a",) * 33], "is nested deeper than 32 levels"),
    ],
)
def test_paths_that_make_no_nest_are_refused_by_their_place(paths: list[Path], text: str) -> None:
    with pytest.raises(SpecError, match=re.escape(text.replace("row", "spec"))):
        pack([Part(path, ArraySpec()) for path in paths])


@pytest.mark.parametrize(
    "path",
    [("reward_terms",), ("termination_terms",), ("final_obs",), ("final_info", "x"), ("_mine",), ("clock", "_x")],
)
def test_an_info_part_may_not_take_a_name_that_means_something_else(path: Path) -> None:
    with pytest.raises(SpecError, match=re.escape(f"{place('info', path)}: the name is taken")):
        pack([A], [Part(path, ArraySpec())])


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"offset": 32}, "lies at byte 32"),
        ({"offset": -64}, "lies at byte -64"),
        ({"offset": 128}, "lies at byte 128 .* of a row of 128"),
        ({"array": ArraySpec("float64", (9,))}, r'observation\["b"\]\[0\] lies at byte 64 .* with 72 taken'),
    ],
)
def test_a_part_that_does_not_lie_where_it_must_is_refused(changes: dict[str, Any], text: str) -> None:
    spec = spec_of([A, Part(("b", 0), ArraySpec("uint8"))])
    with pytest.raises(SpecError, match=text):
        replace(spec, observation_parts=(replace(spec.observation_parts[0], **changes), spec.observation_parts[1]))


@pytest.mark.parametrize(
    "array", [ArraySpec("float32", (32,)), ArraySpec("uint8", (100,)), ArraySpec("uint8", (64, 2))]
)
def test_only_a_row_of_bytes_can_have_parts(array: ArraySpec) -> None:
    spec = spec_of([A])
    with pytest.raises(SpecError, match=r"observation: with parts .* travels, expected uint8 \(row_bytes,\)"):
        replace(spec, observation=array)


# --- as JSON ---


@given(TREES, st.none() | INFOS)
def test_a_spec_with_parts_survives_its_journey_as_json(tree: Any, infos: Any) -> None:
    spec = spec_of(parts_of(tree), [] if infos is None else parts_of({"info": infos}))
    back = BatchSpec.from_json(spec.to_json())
    assert back == spec
    assert back.to_json() == spec.to_json()


def test_a_spec_without_parts_is_spelled_as_it_always_was() -> None:
    plain = json.loads(BatchSpec("e", 1, ArraySpec(), ArraySpec()).to_json())
    assert not [key for key in plain if "part" in key]
    assert sorted(plain["observation"]) == ["dtype", "high", "low", "n", "shape"]


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)


@given(key=st.sampled_from(["path", "array", "offset", "new"]), value=JSON, which=st.integers(0, 1))
def test_a_hostile_part_is_a_spec_or_a_spec_error(key: str, value: Any, which: int) -> None:
    plain = json.loads(spec_of([A, B]).to_json())
    plain["observation_parts"][which][key] = value
    try:
        spec = BatchSpec.from_json(json.dumps(plain))
    except SpecError:
        return
    assert BatchSpec.from_json(spec.to_json()) == spec
    unpack(np.zeros(spec.observation_shape, np.uint8), spec.observation_parts)


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


@pytest.mark.parametrize(
    ("space", "text"),
    [
        (Text(4), "action: Text spaces cannot travel yet; wrap the env"),
        (Dict({"a": Tuple([Discrete(2), Graph(Discrete(2), None)])}), 'action["a"][1]: Graph spaces cannot travel'),
        (Dict({"a": Sequence(Discrete(2))}), 'action["a"]: Sequence spaces cannot travel'),
        (Dict({"a": Dict({})}), 'action["a"] is an empty Dict'),
        (Tuple([]), "action is an empty Tuple"),
        (Dict({1: Discrete(2)}), "action has the key 1; the keys of a Dict must be strings"),  # pyright: ignore
    ],
    ids=lambda value: str(value)[:30],
)
def test_what_cannot_travel_is_refused_by_name_and_place(space: gymnasium.Space[Any], text: str) -> None:
    with pytest.raises(SpecError, match=re.escape(text)):
        array_of("action", space)


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"kind": "Sparse"}, "kind 'Sparse': expected one of"),
        ({"kind": "MultiDiscrete", "low": 0}, "a MultiDiscrete of int64 with bounds 0 to None is none"),
        ({"kind": "MultiDiscrete", "low": 2, "high": 1}, "with bounds 2 to 1 is none"),
        ({"kind": "MultiDiscrete", "low": 0, "high": 1 << 63}, "with bounds 0 to 9223372036854775808 is none"),
        ({"kind": "MultiDiscrete", "low": 0, "high": 1.5}, "with bounds 0 to 1.5 is none"),
        ({"kind": "MultiBinary", "low": 0, "high": 1}, "a MultiBinary is int8 from 0 to 1, not int64"),
    ],
)
def test_a_kind_that_does_not_fit_its_numbers_is_refused(changes: dict[str, Any], text: str) -> None:
    with pytest.raises(SpecError, match=text):
        ArraySpec("int64", (2,), **changes)


def test_a_kind_of_a_newer_peer_is_seen_as_a_box() -> None:
    plain = ArraySpec("int8", (3,), 0, 1, kind="MultiBinary").to_plain() | {"kind": "MultiQuantum"}
    assert ArraySpec.from_plain(plain) == ArraySpec("int8", (3,), 0, 1)


def test_info_parts_need_names() -> None:
    with pytest.raises(SpecError, match="info parts need names"):
        pack([A], [Part((0,), ArraySpec())])


@given(JSON)
def test_hostile_lists_of_parts_are_a_spec_error(value: Any) -> None:
    plain = json.loads(spec_of([A]).to_json()) | {"observation_parts": value}
    try:
        spec = BatchSpec.from_json(json.dumps(plain))
    except SpecError:
        return
    assert spec.observation_parts == ()  # an empty list is all that there can be

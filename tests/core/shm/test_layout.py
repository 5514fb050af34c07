"""The layout adds up as schema/README.md says; actions outside their bounds are counted exactly, for every dtype."""

import itertools
import math
import re
import struct
from fractions import Fraction
from mmap import ACCESS_READ, mmap
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from numpy.typing import NDArray

from lucky_transport import api, native
from lucky_transport.engine import Buffers, Engine
from lucky_transport.errors import SpecError
from lucky_transport.process import unique_name
from lucky_transport.shm.segment import header, layout
from lucky_transport.shm.segment.channel import Result
from lucky_transport.shm.segment.layout import EXTENSION_FIELDS, FIELDS, HEADER_BYTES, SEED_FIELDS, FieldPlace, plan
from lucky_transport.shm.slot_files.image_file import ImageFile
from lucky_transport.spec.actions import Bounds
from lucky_transport.spec.batch_spec import DTYPES, ArraySpec, BatchSpec
from tests.core.shm.test_channels import a_client
from tests.core.spec.test_specs import batch_specs

SEED_ORDER = [
    *("magic", "version", "server_pid", "client_pid", "mode", "num_envs", "obs_size", "act_size"),
    *("frame_seq", "action_seq", "obs_offset", "act_offset", "rewards_offset", "dones_offset", "resets_offset"),
    *("cmd_s2c_offset", "cmd_c2s_offset", "cmd_ring_size", "image_offset", "image_width", "image_height"),
    *("image_channels", "gpu_available", "gpu_obs_mode", "gpu_obs_handle", "gpu_device_id"),
]

COUNTERS_ON_THEIR_OWN_LINE = ("frame_seq", "action_seq", "heartbeat", "park_engine", "park_frame", "park_command")


def _size(place: FieldPlace) -> int:
    return struct.calcsize("<" + place.code)


def test_the_seeds_fields_keep_the_seeds_order() -> None:
    assert [place.name for place in SEED_FIELDS] == SEED_ORDER
    offsets = [place.offset for place in SEED_FIELDS]
    assert offsets == sorted(offsets)


def test_no_two_header_fields_overlap_and_all_are_aligned() -> None:
    ordered = sorted(FIELDS.values(), key=lambda place: place.offset)
    for before, after in itertools.pairwise(ordered):
        assert before.offset + _size(before) <= after.offset, (before, after)
    for place in ordered:
        if not place.code.endswith("s"):
            assert place.offset % _size(place) == 0, place
    assert ordered[-1].offset + _size(ordered[-1]) <= HEADER_BYTES


@pytest.mark.parametrize("name", COUNTERS_ON_THEIR_OWN_LINE)
def test_a_word_that_one_side_writes_and_the_other_polls_shares_its_cache_line_with_nothing_else(name: str) -> None:
    line = FIELDS[name].offset // 128
    neighbours = {place.name for place in FIELDS.values() if place.offset // 128 == line} - {name}
    # written by the same side right before frame_seq; a CPU, by the side that looks at the park word, and seldom
    assert neighbours <= {"frame_status", name.replace("park", "peer_cpu")}


def test_the_extension_block_is_size_prefixed_and_lies_behind_the_seeds_fields() -> None:
    assert EXTENSION_FIELDS[0].name == "ext_size"
    assert EXTENSION_FIELDS[0].offset == layout.EXTENSION_OFFSET > SEED_FIELDS[-1].offset


@given(batch_specs(), st.sampled_from([4096, 65536]), st.integers(0, 10_000))
def test_regions_are_aligned_do_not_overlap_and_fit(spec: BatchSpec, ring_bytes: int, image_bytes: int) -> None:
    planned = plan(spec, ring_bytes=ring_bytes, image_bytes=image_bytes)
    regions = list(planned.regions.values())
    assert regions[0].offset == HEADER_BYTES
    for region in regions:
        assert region.offset % 64 == 0
    for before, after in itertools.pairwise(regions):
        assert before.offset + before.size <= after.offset
    assert regions[-1].offset + regions[-1].size <= planned.total_size


@pytest.mark.parametrize("ring_bytes", [0, 100, 4095, 5000, -4096])
def test_a_ring_that_is_no_power_of_two_is_refused_with_its_size(ring_bytes: int) -> None:
    spec = BatchSpec("any", 1, ArraySpec("float32", (1,)), ArraySpec("float32", (1,)))
    with pytest.raises(SpecError, match=str(ring_bytes)):
        plan(spec, ring_bytes=ring_bytes)


WORDS = [name for name, place in FIELDS.items() if place.code in ("I", "Q")]


@pytest.fixture
def memory(tmp_path: Path) -> mmap:
    path = tmp_path / "memory"
    path.write_bytes(bytes(HEADER_BYTES))
    with path.open("r+b") as file:
        return mmap(file.fileno(), HEADER_BYTES)


@pytest.mark.parametrize("name", WORDS)
def test_a_word_is_accessed_in_order_by_its_size(name: str, memory: mmap, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[tuple[str, int]] = []

    def noting(access: str) -> Any:
        real = getattr(native, access)

        def note(mapping: mmap, offset: int, *value: int) -> Any:
            seen.append((access, offset))
            return real(mapping, offset, *value)

        return note

    for access in ("load32", "load64", "store32", "store64"):
        monkeypatch.setattr(native, access, noting(access))
    place = FIELDS[name]
    bits = 32 if place.code == "I" else 64
    largest = 2**bits - 1
    header.put(memory, name, largest)
    assert header.get(memory, name) == largest
    assert seen == [(f"store{bits}", place.offset), (f"load{bits}", place.offset)]


def test_words_are_loaded_as_they_were_stored_and_refused_outside(memory: mmap) -> None:
    native.store64(memory, 8, 2**64 - 2)
    assert native.load64(memory, 8) == 2**64 - 2
    assert (native.load32(memory, 8), native.load32(memory, 12)) == (2**32 - 2, 2**32 - 1)
    for offset in (6, HEADER_BYTES - 2, HEADER_BYTES, 2**63):
        for load, store in ((native.load32, native.store32), (native.load64, native.store64)):
            with pytest.raises(ValueError, match="does not lie in"):
                load(memory, offset)
            with pytest.raises(ValueError, match="does not lie in"):
                store(memory, offset, 1)


def test_a_mapping_that_may_only_be_read_can_be_read(tmp_path: Path, memory: mmap) -> None:
    memory[:] = bytes(range(256)) * (HEADER_BYTES // 256)
    with (tmp_path / "memory").open("rb") as file:
        shown = mmap(file.fileno(), 0, access=ACCESS_READ)
    for name in FIELDS:
        assert header.get(shown, name) == header.get(memory, name)


README = Path(__file__).parents[3] / "schema" / "README.md"


def _table(section: str) -> dict[str, str]:
    """Return the rows of the table of a section: first cell -> second."""
    text = README.read_text(encoding="utf-8").partition(f"## {section}\n")[2].partition("\n## ")[0]
    return dict(re.findall(r"^\| (\d.*?) \| (.*) \|$", text, re.MULTILINE))


def _place(table: dict[str, str], what: str, slot: int = 0) -> int:
    """Return the byte of the row that describes `what`; cells are `N` or `N + 128 i`."""
    (cell,) = (cell for cell, text in table.items() if text.startswith(what))
    first, _, each = cell.removesuffix(" i").partition(" + ")
    return int(first) + slot * int(each or 0)


def test_an_image_file_is_as_documented(tmp_path: Path) -> None:
    file = ImageFile.create(tmp_path / "one", 1, 3, 10)
    file.words[1].take(8)
    file.words[1].hand_over(8)
    raw, table = file.path.read_bytes(), _table("Images")
    head = re.match(r"u32 magic `(0x[0-9A-F]+)` .*?, u32 version (\d+)", table["0"])
    assert head is not None
    assert struct.unpack_from("<II", raw) == (int(head[1], 16), int(head[2]))
    assert struct.unpack_from("<I", raw, _place(table, "u32 number of slot", 1)) == (8,)
    assert struct.unpack_from("<I", raw, _place(table, "u32 owner of slot", 1)) == (8,)
    assert struct.unpack_from("<I", raw, _place(table, "u32 owner of slot", 0)) == (0,)


#: Channels count these themselves; the transport counts the others by `Bounds`.
_NATIVE = ("float32", "float64", "int64")
#: Of a few words and _LONG copies of a case's values: from a kilobyte on, other instructions look at a batch.
_MEMORY, _LONG = 1 << 17, 201


def _limits(dtype: str) -> tuple[Any, Any]:
    if dtype == "bool":
        return 0, 1
    limits: Any = np.finfo(dtype) if np.dtype(dtype).kind == "f" else np.iinfo(dtype)
    return np.array(limits.min).item(), np.array(limits.max).item()


def _exact(value: Any) -> Any:
    return value if isinstance(value, float) and not math.isfinite(value) else Fraction(value)


def _bound_in(dtype: str, bound: Any) -> Any:
    """The bound as an exact number of the dtype, written without the code under test."""
    if np.dtype(dtype).kind == "f":
        with np.errstate(over="ignore"):
            return _exact(np.dtype(dtype).type(bound).item())
    return _exact(bound)


def _count(dtype: str, low: Any, high: Any, values: list[Any]) -> int:
    low = -math.inf if low is None else _bound_in(dtype, low)
    high = math.inf if high is None else _bound_in(dtype, high)
    return sum(_exact(value) < low or _exact(value) > high for value in values)


def _near(dtype: str, bound: Any) -> list[Any]:
    """The bound itself and its neighbours on both sides, where the dtype holds them."""
    if np.dtype(dtype).kind == "f":
        with np.errstate(over="ignore"):
            at = np.dtype(dtype).type(bound)
            near = [at, np.nextafter(at, np.dtype(dtype).type(-np.inf)), np.nextafter(at, np.dtype(dtype).type(np.inf))]
        return [value.item() for value in near if np.isfinite(value)]
    if not math.isfinite(bound):
        return []
    least, most = _limits(dtype)
    around = (math.floor(bound) - 1, math.floor(bound), math.ceil(bound), math.ceil(bound) + 1)
    return [value for value in around if least <= value <= most]


def _bounds_of(dtype: str, unbounded: float) -> st.SearchStrategy[Any]:
    """Bounds of a dtype: its extremes, -0.0, infinity, NaN, and what only a wider type holds."""
    least, most = _limits(dtype)
    odd = st.sampled_from([-0.0, 0, 0.1, unbounded, math.nan, 2**53 + 1, 1e300])
    inside = (
        st.floats(least, most, width=64)
        if np.dtype(dtype).kind == "f"
        else st.one_of(st.sampled_from([least, most, least + 1, most - 1]), st.integers(least, most), st.just(0.5))
    )
    if np.dtype(dtype).kind != "f":
        odd = odd.filter(lambda bound: not math.isfinite(bound) or least <= bound <= most)
    return st.one_of(inside, odd)


@st.composite
def _cases(draw: st.DrawFn) -> tuple[str, Any, Any, list[Any]]:
    dtype = draw(st.sampled_from(DTYPES))
    low, high = draw(_bounds_of(dtype, -math.inf)), draw(_bounds_of(dtype, math.inf))
    if low > high:
        low, high = high, low
    least, most = _limits(dtype)
    values = [least, most, *_near(dtype, low), *_near(dtype, high), 0]
    return dtype, low, high, values


def _batch(dtype: str, values: list[Any]) -> NDArray[Any]:
    return np.array(values, dtype).reshape(1, -1)


def _sent(bounds: Bounds, actions: NDArray[Any]) -> int:
    channel = _channel(bounds, actions)
    assert channel.send(actions, None) == 0
    return channel.out_of_bounds


def _exchanged(bounds: Bounds, actions: NDArray[Any]) -> int:
    """The count of the second exchange, which is the first that goes the quick way; its frames are there before."""
    memory = mmap(-1, _MEMORY)
    frame_seq = np.frombuffer(memory, np.uint64, 1)
    channel, frame = _channel(bounds, actions, memory), SimpleNamespace(seq=0, any_ended=False)
    channel.fuse((frame,), lambda code, *_: pytest.fail(f"not quick: {code}"), 1_000_000_000)
    frame_seq[0] = 1
    assert channel.exchange(np.zeros_like(actions)) is frame
    before = channel.out_of_bounds
    frame_seq[0] = 2
    assert channel.exchange(actions) is frame
    return channel.out_of_bounds - before


def _channel(bounds: Bounds, actions: NDArray[Any], memory: mmap | None = None) -> Any:
    assert bounds.low is not None
    assert bounds.high is not None
    low, high = bounds.low.item(), bounds.high.item()
    shape, places = actions.shape, {"actions": 4096, "num_envs": 1}
    return a_client(memory or mmap(-1, _MEMORY), shape=shape, code=actions.dtype.char, low=low, high=high, **places)


@given(_cases())
@example(("int64", -(2**63), 2**63 - 1, [-(2**63), 0, 2**63 - 1]))
@example(("int64", -(2**53) - 1, 2**53 + 1, [-(2**53) - 2, -(2**53) - 1, 2**53 + 1, 2**53 + 2]))
@example(("uint64", 0, 2**64 - 2, [0, 2**63, 2**64 - 2, 2**64 - 1]))
@example(("float32", -0.1, 0.1, [np.float32(-0.1).item(), 0.0, np.float32(0.1).item()]))
@example(("float64", math.nan, 0.5, [0.5, 1.0, -9.0]))
def test_values_at_and_beside_each_bound_are_counted_alike(case: tuple[str, Any, Any, list[Any]]) -> None:
    dtype, low, high, values = case
    actions, bounds = _batch(dtype, values), Bounds(ArraySpec(dtype, (len(values),), low, high))
    expected = _count(dtype, low, high, values)
    assert bounds.count_outside(actions) == expected
    if expected:
        with pytest.raises(ValueError, match="out of bounds"):
            bounds.check(actions)
    else:
        bounds.check(actions)
    if dtype in _NATIVE:
        assert _sent(bounds, actions) == _exchanged(bounds, actions) == expected
        many = np.tile(actions, _LONG)
        assert _sent(bounds, many) == _exchanged(bounds, many) == _LONG * expected


@given(
    st.sampled_from(("float32", "float64")),
    st.sampled_from((math.nan, math.inf, -math.inf)),
    st.sampled_from((1, 7, 127, 128, 255, 256, 257, 4099)),
    st.booleans(),
    st.data(),
)
def test_one_value_that_is_not_finite_is_found_wherever_it_lies(
    dtype: str, value: float, count: int, bounded: bool, data: st.DataObject
) -> None:
    actions = np.full((1, count), 3, dtype)
    limit = 2.0 if bounded else math.inf
    channel = _channel(Bounds(ArraySpec(dtype, (count,), -limit, limit)), actions)
    assert channel.send(actions, None) == 0
    assert channel.out_of_bounds == bounded * count
    actions[0, data.draw(st.integers(0, count - 1), label="place")] = value
    assert channel.send(actions, None) == Result.NOT_FINITE
    assert channel.out_of_bounds == bounded * count


class _Still(Engine):
    """Takes actions of one spec and does nothing."""

    def __init__(self, action: ArraySpec) -> None:
        self.spec = BatchSpec("still", 1, ArraySpec("float32", (1,)), action)

    def bind(self, buffers: Buffers) -> None:
        pass

    def step(self, control: NDArray[np.uint8] | None) -> None:
        pass


_CASES = [
    ("int64", -(2**63), 2**63 - 1),
    ("int64", -(2**53) - 1, 2**53 + 1),
    ("uint64", 1, 2**64 - 2),
    ("uint8", 1, 254),
    ("int32", -5, 5),
    ("float32", -0.1, 0.1),
    ("float64", -0.1, 0.1),
    ("float32", -0.0, math.inf),
    ("float64", None, 0.3),
]


@pytest.mark.parametrize("transport", ["inproc", "shm", "grpc"])
@pytest.mark.parametrize(("dtype", "low", "high"), _CASES)
def test_each_transport_counts_alike(dtype: str, low: Any, high: Any, transport: str) -> None:
    if transport == "grpc":
        pytest.importorskip("grpc")
    values = [*_near(dtype, low if low is not None else -1), *_near(dtype, high), *_limits(dtype)]
    actions, action = _batch(dtype, values), ArraySpec(dtype, (len(values),), low, high)
    address = "127.0.0.1:0" if transport == "grpc" else unique_name()
    with (
        api.serve(_Still(action), f"{transport}://{address}") as serving,
        api.make(endpoint=str(serving.endpoints[0])) as env,
    ):
        env.reset()
        env.step(actions)
        env.step(actions)
        assert env.out_of_bounds == 2 * _count(dtype, low, high, values)


@pytest.mark.parametrize(("dtype", "low", "high"), _CASES)
def test_the_edges_of_a_space_lie_within_its_bounds(dtype: str, low: Any, high: Any) -> None:
    array = ArraySpec(dtype, (2,), low, high)
    space: Any = array.space()
    for edge in (space.low, space.high):
        if np.isfinite(edge).all():
            Bounds(array).check(edge[None])

"""The layout table adds up, the header's words are ordered accesses, and the files are what schema/README.md says."""

from __future__ import annotations

import itertools
import re
import struct
from mmap import ACCESS_READ, mmap
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lucky_transport import native
from lucky_transport.errors import SpecError
from lucky_transport.shm.segment import header, layout
from lucky_transport.shm.segment.layout import EXTENSION_FIELDS, FIELDS, HEADER_BYTES, SEED_FIELDS, FieldPlace, plan
from lucky_transport.shm.slot_files.image_file import ImageFile
from lucky_transport.spec.batch_spec import ArraySpec, BatchSpec

SEED_ORDER = [
    *("magic", "version", "server_pid", "client_pid", "mode", "num_envs", "obs_size", "act_size"),
    *("frame_seq", "action_seq", "obs_offset", "act_offset", "rewards_offset", "dones_offset", "resets_offset"),
    *("cmd_s2c_offset", "cmd_c2s_offset", "cmd_ring_size", "image_offset", "image_width", "image_height"),
    *("image_channels", "gpu_available", "gpu_obs_mode", "gpu_obs_handle", "gpu_device_id"),
]

COUNTERS_ON_THEIR_OWN_LINE = ("frame_seq", "action_seq", "heartbeat", "park_engine", "park_frame", "park_command")


def _size(place: FieldPlace) -> int:
    return struct.calcsize("<" + place.code)


def specs() -> st.SearchStrategy[BatchSpec]:
    sizes = st.integers(1, 40)
    return st.builds(
        lambda n, obs, act, terms, dtype: BatchSpec(
            engine="any",
            num_envs=n,
            observation=ArraySpec(dtype, (obs,)),
            action=ArraySpec("float32", (act,)),
            reward_terms=tuple(f"r{i}" for i in range(terms)),
        ),
        st.integers(1, 5000),
        sizes,
        sizes,
        st.integers(1, 9),
        st.sampled_from(["float32", "float64", "uint8", "int64"]),
    )


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


@given(specs(), st.sampled_from([4096, 65536]), st.integers(0, 10_000))
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
def test_a_word_is_loaded_and_stored_by_the_ordered_accesses_of_its_size(
    name: str, memory: mmap, monkeypatch: pytest.MonkeyPatch
) -> None:
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


def _head(table: dict[str, str]) -> tuple[int, int]:
    found = re.match(r"u32 magic `(0x[0-9A-F]+)` .*?, u32 version (\d+)", table["0"])
    assert found is not None
    return int(found[1], 16), int(found[2])


def test_an_image_file_is_as_documented(tmp_path: Path) -> None:
    file = ImageFile.create(tmp_path / "one", 1, 3, 10)
    file.words[1].take(8)
    file.words[1].hand_over(8)
    raw, table = file.path.read_bytes(), _table("Images")
    assert struct.unpack_from("<II", raw) == _head(table)
    assert struct.unpack_from("<I", raw, _place(table, "u32 number of slot", 1)) == (8,)
    assert struct.unpack_from("<I", raw, _place(table, "u32 owner of slot", 1)) == (8,)
    assert struct.unpack_from("<I", raw, _place(table, "u32 owner of slot", 0)) == (0,)

"""The layout table: offsets add up, nothing overlaps, the seed's fields keep their order."""

from __future__ import annotations

import itertools
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lucky_transport.errors import SpecError
from lucky_transport.shm.segment import layout
from lucky_transport.shm.segment.layout import EXTENSION_FIELDS, FIELDS, HEADER_BYTES, SEED_FIELDS, FieldPlace, plan
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


def test_the_seeds_size_example_holds() -> None:
    """4096 envs of 100 observations and 12 actions: about 1.9 MB of hot data, about 3 MB with the rings."""
    spec = BatchSpec("any", 4096, ArraySpec("float32", (100,)), ArraySpec("float32", (12,)))
    planned = plan(spec)
    hot = planned["signals"].offset - HEADER_BYTES
    assert 1.8e6 < hot < 2.0e6
    assert 2.8e6 < planned.total_size < 3.2e6


@pytest.mark.parametrize("ring_bytes", [0, 100, 4095, 5000, -4096])
def test_a_ring_that_is_no_power_of_two_is_refused_with_its_size(ring_bytes: int) -> None:
    spec = BatchSpec("any", 1, ArraySpec("float32", (1,)), ArraySpec("float32", (1,)))
    with pytest.raises(SpecError, match=str(ring_bytes)):
        plan(spec, ring_bytes=ring_bytes)

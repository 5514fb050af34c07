"""What a library and an engine of ours say to each other: calls, layouts, typed options, requests, tensors."""

import ctypes
import io
import json
import re
import struct
from ctypes import CFUNCTYPE, POINTER, c_float, c_int, c_int32, c_uint8, c_void_p, cast
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import lucky_transport_libenv
from lucky_transport.engine import RESET, Buffers
from lucky_transport.errors import RemoteProtocolError, SpecError, TransportError
from lucky_transport.spec.batch_spec import DTYPES, ArraySpec, BatchSpec
from lucky_transport.spec.composite import Part, pack
from lucky_transport_libenv import interface
from lucky_transport_libenv.engine import LibenvEngine
from lucky_transport_libenv.export.process import read_request
from lucky_transport_libenv.export.tensors import tensors_of
from lucky_transport_libenv.interface import FUNCTIONS, Dtype, LibenvBuffers, ScalarType, Space, TensorType
from lucky_transport_libenv.options import LibenvSettings, OptionBlock

INT32 = np.iinfo(np.int32)


def in_c(options: dict[str, Any]) -> dict[str, tuple[Dtype, int, bytes]]:
    """Return what a library reads: name -> type, count, bytes."""
    block = OptionBlock(options)
    items = block.value.items
    return {
        items[i].name.decode(): (
            Dtype(items[i].dtype),
            items[i].count,
            ctypes.string_at(items[i].data, items[i].count * (1 if items[i].dtype == Dtype.UINT8 else 4)),
        )
        for i in range(block.value.count)
    }


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (True, (Dtype.UINT8, 1, b"\1")),
        (False, (Dtype.UINT8, 1, b"\0")),
        (1, (Dtype.INT32, 1, b"\1\0\0\0")),
        (INT32.min, (Dtype.INT32, 1, b"\0\0\0\x80")),
        (1.0, (Dtype.FLOAT32, 1, b"\0\0\x80\x3f")),
        ("hard", (Dtype.UINT8, 4, b"hard")),
        ("größe", (Dtype.UINT8, 7, "größe".encode())),
        (b"\0\1", (Dtype.UINT8, 2, b"\0\1")),
        (np.array([1, 2], np.int32), (Dtype.INT32, 2, b"\1\0\0\0\2\0\0\0")),
        (np.zeros((2, 2), np.uint8), (Dtype.UINT8, 4, bytes(4))),
        ({"dtype": "float32", "values": [1, 0.5]}, (Dtype.FLOAT32, 2, b"\0\0\x80\x3f\0\0\0\x3f")),
    ],
)
def test_a_value_has_its_own_type_and_no_other(value: Any, expected: tuple[Dtype, int, bytes]) -> None:
    assert in_c({"x": value}) == {"x": expected}


def test_options_keep_their_order_and_a_text_ends_with_a_nul_that_is_not_counted() -> None:
    assert list(in_c({"b": 1, "a": 2, "x" * 126: 3})) == ["b", "a", "x" * 126]  # the longest name that fits
    block = OptionBlock({"name": "abc"})
    assert ctypes.string_at(block.value.items[0].data, 4) == b"abc\0"


@pytest.mark.parametrize(
    "value",
    [
        None,
        [1, 2],
        (1,),
        {"a": 1},
        INT32.max + 1,
        INT32.min - 1,
        1j,
        np.zeros(2),
        np.zeros(2, np.int64),
        {"dtype": "int64", "values": [1]},
        {"dtype": "uint8", "values": [256]},
        1e39,
        {"dtype": "float32", "values": [0.5, -1e39]},
        {"dtype": "int32", "values": ["one"]},
    ],
    ids=repr,
)
def test_what_has_no_exact_type_is_refused_by_name(value: Any) -> None:
    with pytest.raises(SpecError, match="libenv option level = "):
        OptionBlock({"level": value})


@pytest.mark.parametrize("name", ["", "x" * 127, "ä" * 64, "nul\0inside"])
def test_a_name_that_does_not_fit_is_refused(name: str) -> None:
    with pytest.raises(SpecError, match="bytes, expected 1 to 126"):
        OptionBlock({name: 1})


def test_the_settings_are_those_of_the_readme() -> None:
    readme = Path(lucky_transport_libenv.__path__[0], "README.md").read_text()
    _, _, table = readme.partition('| `options={"libenv": {...}}` | default |')
    rows = re.findall(r"^\| `(\w+)` \| (\S+) \|", table.partition("\n\n")[0], re.MULTILINE)
    assert [(name, json.loads(default.strip("`"))) for name, default in rows] == [
        (setting.name, setting.default) for setting in fields(LibenvSettings)
    ]


# the options of a host, and what is broken


def request(*options: tuple[str, int, int, bytes], envs: int = 4) -> bytes:
    """Return what the shared object writes."""
    body = b"".join(struct.pack("<128sii", name.encode(), dtype, n) + data for name, dtype, n, data in options)
    return struct.pack("<II", envs, len(options)) + body


def read(data: bytes) -> tuple[int, dict[str, Any]]:
    return read_request(io.BytesIO(data))


@pytest.mark.parametrize(
    ("dtype", "count", "data", "value"),
    [
        (1, 1, b"\1", True),
        (1, 1, b"\0", False),
        (1, 1, b"x", "x"),
        (1, 4, b"hard", "hard"),
        (1, 0, b"", ""),
        (1, 7, "a\tz\u00fc\u00a0".encode(), "a\tz\u00fc\u00a0"),
        (1, 2, b"\xff\xfe", b"\xff\xfe"),
        (1, 3, b"\0\1\2", b"\0\1\2"),
        (1, 1, b"\2", b"\2"),
        (1, 3, b"ab\0", b"ab\0"),
        (2, 1, struct.pack("<i", -5), -5),
        (2, 2, struct.pack("<ii", 1, 2), [1, 2]),
        (3, 1, struct.pack("<f", 0.1), 0.1),
        (3, 2, struct.pack("<ff", 0.5, 2), [0.5, 2.0]),
    ],
)
def test_an_option_has_the_type_that_its_host_gave_it(dtype: int, count: int, data: bytes, value: Any) -> None:
    _, options = read(request(("x", dtype, count, data)))
    assert (options["x"], type(options["x"])) == (value, type(value))


def test_the_number_of_envs_and_all_options_come_over() -> None:
    data = request(("a", 2, 1, struct.pack("<i", 1)), ("b", 1, 1, b"\1"), envs=7)
    assert read(data) == (7, {"a": 1, "b": True})


@pytest.mark.parametrize(("dtype", "count"), [(0, 1), (4, 1), (2, -1), (1, 1 << 30)])
def test_an_impossible_option_is_refused(dtype: int, count: int) -> None:
    with pytest.raises(RemoteProtocolError, match="option 'x' has dtype"):
        read(request(("x", dtype, count, b"")))


def test_a_request_that_ends_early_is_refused() -> None:
    whole = request(("x", 2, 2, struct.pack("<ii", 1, 2)))
    for length in range(len(whole)):
        with pytest.raises(RemoteProtocolError, match="ended after"):
            read(whole[:length])


@given(st.binary(max_size=600))
def test_whatever_bytes_come_a_request_is_read_or_refused(data: bytes) -> None:
    try:
        num_envs, options = read(data)
    except TransportError:
        return
    assert num_envs >= 0
    assert all(isinstance(name, str) for name in options)


# tensors of an engine's spec


def spec_of(observation: ArraySpec, **fields: Any) -> BatchSpec:
    return BatchSpec("x", 2, observation, ArraySpec(), **fields)


def observation_of(array: ArraySpec) -> Any:
    return tensors_of(spec_of(array))[0]


@pytest.mark.parametrize(
    ("array", "expected"),
    [
        (ArraySpec("float32", (3,)), (ScalarType.REAL, Dtype.FLOAT32, 0, -float("inf"), float("inf"))),
        (ArraySpec("float64", (3,), -1, [1, 2, 3]), (ScalarType.REAL, Dtype.FLOAT32, 0, -1, 3)),
        (ArraySpec("uint8", (2, 2)), (ScalarType.DISCRETE, Dtype.UINT8, 0, 0, 255)),
        (ArraySpec("bool"), (ScalarType.DISCRETE, Dtype.UINT8, 0, 0, 1)),
        (ArraySpec("uint16"), (ScalarType.DISCRETE, Dtype.INT32, 0, 0, 65535)),
        (ArraySpec("int32", (), 0, 9), (ScalarType.DISCRETE, Dtype.INT32, 0, 0, 9)),
        (ArraySpec("int64", (), 0, 4, 5), (ScalarType.DISCRETE, Dtype.INT32, 0, 0, 4)),
        (ArraySpec("int64", (), -2, 2, 5), (ScalarType.DISCRETE, Dtype.INT32, -2, 0, 4)),
    ],
)
def test_a_dtype_has_one_place_among_libenvs(array: ArraySpec, expected: tuple[Any, ...]) -> None:
    found = observation_of(array)
    assert (found.scalar_type, found.dtype, found.shift, found.low, found.high) == expected
    assert found.source == array.dtype


@pytest.mark.parametrize("dtype", sorted(set(DTYPES) - {"float32", "float64", "uint8", "uint16", "bool"}))
def test_integers_that_libenv_has_not_are_refused_by_name(dtype: str) -> None:
    with pytest.raises(SpecError, match=f"observation 'observation' has {dtype} from"):
        observation_of(ArraySpec(dtype, (2,)))


def test_flags_go_along_as_infos() -> None:
    names = [(tensor.space.name, tensor.name) for tensor in tensors_of(spec_of(ArraySpec()))]
    assert names == [
        ("OBSERVATION", "observation"),
        ("ACTION", "action"),
        ("INFO", "terminated"),
        ("INFO", "truncated"),
    ]


def test_several_envs_of_an_engine_that_cannot_hold_are_refused() -> None:
    with pytest.raises(SpecError, match="cannot reset one env while the others hold"):
        tensors_of(spec_of(ArraySpec(), hold=False))
    assert tensors_of(BatchSpec("x", 1, ArraySpec(), ArraySpec(), hold=False))


def test_a_name_that_is_too_long_is_refused() -> None:
    row, parts, _ = pack([Part(("x" * 128,), ArraySpec())])
    with pytest.raises(SpecError, match="is too much for libenv"):
        tensors_of(spec_of(row, observation_parts=parts))


#: C's name of each structure -> ours.
STRUCTURES = {
    "libenv_tensortype": interface.TensorType,
    "libenv_option": interface.Option,
    "libenv_options": interface.Options,
    "libenv_buffers": LibenvBuffers,
}


def test_structures_have_the_sizes_and_offsets_that_gym3_has() -> None:
    sizes = {name: ctypes.sizeof(structure) for name, structure in STRUCTURES.items()}
    assert sizes == {"libenv_tensortype": 212, "libenv_option": 144, "libenv_options": 16, "libenv_buffers": 40}
    offsets = [{field: getattr(each, field).offset for field, _ in each._fields_} for each in STRUCTURES.values()]
    assert offsets == [
        {"name": 0, "scalar_type": 128, "dtype": 132, "shape": 136, "ndim": 200, "low": 204, "high": 208},
        {"name": 0, "dtype": 128, "count": 132, "data": 136},
        {"items": 0, "count": 8},
        {"ob": 0, "rew": 8, "first": 16, "info": 24, "ac": 32},
    ]


_STATE = (c_int, (c_void_p, c_int, c_void_p, c_int))


class Counters:
    """Adds each env's actions up, from the option `start` on; an episode ends above 5, and the next one begins at 0."""

    def __init__(self) -> None:
        types = {**FUNCTIONS, "get_state": _STATE, "set_state": _STATE}
        self._functions = {
            name: CFUNCTYPE(result, *arguments)(getattr(self, name.removeprefix("libenv_")))
            for name, (result, arguments) in types.items()
        }
        self.calls: list[str] = []

    def __getitem__(self, name: str) -> Any:
        self.calls.append(name)
        return self._functions[name]

    def version(self) -> int:
        return 1

    def make(self, num_envs: int, options: Any) -> int:
        given = {options.items[i].name: options.items[i].data for i in range(options.count)}
        self.counts = [_numbers(given[b"start"])[0]] * num_envs
        self.handle = 7
        return self.handle

    def get_tensortypes(self, handle: int, space: int, types: Any) -> int:
        if space != Space.INFO and types:
            types[0] = TensorType(b"count", ScalarType.DISCRETE, Dtype.INT32, (c_int * 16)(1), 1)
            types[0].high.int32 = 9
        return int(space != Space.INFO)

    def set_buffers(self, handle: int, buffers: Any) -> None:
        self.buffers: LibenvBuffers = buffers.contents

    def observe(self, handle: int) -> None:
        for env, count in enumerate(self.counts):
            _numbers(self.buffers.ob[env])[0] = count

    def act(self, handle: int) -> None:
        rewards, firsts = cast(self.buffers.rew, POINTER(c_float)), cast(self.buffers.first, POINTER(c_uint8))
        for env in range(len(self.counts)):
            self.counts[env] += _numbers(self.buffers.ac[env])[0]
            rewards[env], firsts[env] = self.counts[env], self.counts[env] > 5
            self.counts[env] *= not firsts[env]

    def get_state(self, handle: int, env: int, data: int, capacity: int) -> int:
        _numbers(data)[0] = self.counts[env]
        return 4

    def set_state(self, handle: int, env: int, data: int, size: int) -> int:
        self.counts[env] = _numbers(data)[0]
        return 0

    def close(self, handle: int) -> None:
        self.handle = 0


def _numbers(address: Any) -> Any:
    return cast(address, POINTER(c_int32))


def test_each_call_of_the_interface_reaches_a_library(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    library, place = Counters(), tmp_path / "libcounters.so"
    place.touch()
    with monkeypatch.context() as loading:
        loading.setattr(ctypes, "CDLL", lambda path, mode: library)
        engine = LibenvEngine(str(place), 2, {"start": 3})
    assert library.calls == list(FUNCTIONS)
    out = Buffers.allocate(engine.spec)
    engine.bind(out)
    counts, actions = (rows.view(np.int32)[:, 0] for rows in (out.observations, out.actions))
    engine.step(np.full(2, RESET, np.uint8))
    assert counts.tolist() == [3, 3]
    actions[:] = [1, 4]
    engine.step(None)
    assert (counts.tolist(), out.rewards.tolist(), out.terminated.tolist()) == ([4, 0], [4, 7], [0, 1])
    engine.set_state(1, engine.get_state(0))
    assert counts.tolist() == [4, 4]
    engine.close()
    assert library.handle == 0

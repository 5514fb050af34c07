"""Options reach a library with exactly the type they have in Python."""

from __future__ import annotations

import ctypes
import json
import re
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import lucky_transport_libenv
from lucky_transport.errors import SpecError
from lucky_transport_libenv.interface import Dtype
from lucky_transport_libenv.options import LibenvSettings, OptionBlock, as_json

INT32 = np.iinfo(np.int32)
FLOATS = st.floats(width=32, allow_nan=False)
VALUES = (
    st.booleans()
    | st.integers(INT32.min, INT32.max)
    | FLOATS
    | st.text(st.characters(codec="utf-8"))
    | st.binary()
    | st.lists(st.integers(INT32.min, INT32.max)).map(lambda values: np.array(values, np.int32))
    | st.lists(FLOATS).map(lambda values: np.array(values, np.float32))
)


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


def test_a_text_ends_with_a_nul_that_is_not_counted() -> None:
    block = OptionBlock({"name": "abc"})
    assert ctypes.string_at(block.value.items[0].data, 4) == b"abc\0"


def test_options_keep_their_order() -> None:
    assert list(in_c({"b": 1, "a": 2, "c": 3})) == ["b", "a", "c"]


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


def test_the_longest_name_fits() -> None:
    assert list(in_c({"x" * 126: 1})) == ["x" * 126]


@given(st.dictionaries(st.text("abc_", min_size=1, max_size=9), VALUES, max_size=4))
def test_options_mean_the_same_after_a_journey_as_json(options: dict[str, Any]) -> None:
    assert in_c(json.loads(json.dumps(as_json(options)))) == in_c(options)


def test_the_settings_are_those_of_the_readme() -> None:
    readme = Path(lucky_transport_libenv.__path__[0], "README.md").read_text()
    _, _, table = readme.partition('| `options={"libenv": {...}}` | default |')
    rows = re.findall(r"^\| `(\w+)` \| (\S+) \|", table.partition("\n\n")[0], re.MULTILINE)
    assert [(name, json.loads(default.strip("`"))) for name, default in rows] == [
        (setting.name, setting.default) for setting in fields(LibenvSettings)
    ]

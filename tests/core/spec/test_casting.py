"""Values of others in the dtype that travels: NumPy's `same_kind` rule, and no integer that wraps."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lucky_transport.spec.array_spec import DTYPES
from lucky_transport.spec.casting import fitting


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

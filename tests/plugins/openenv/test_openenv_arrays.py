"""Actions as JSON values: each becomes the value that it is, or is refused by its place."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from lucky_transport.spec.batch_spec import ArraySpec, BatchSpec
from lucky_transport_openenv.arrays import write_action


def _written(dtype: str, action: Any) -> Any:
    spec = BatchSpec("e", 1, ArraySpec(), ArraySpec(dtype, (2,)))
    row = np.zeros((1, 2), dtype)
    write_action(spec, row, action)
    return row[0].tolist()


@pytest.mark.parametrize(
    ("dtype", "action", "error", "text"),
    [
        ("uint8", [0, 1.5], TypeError, r"action: 1.5 \(float64\) at \[1\], expected uint8"),
        ("uint8", [0, 300], TypeError, r"action: 300 \(int64\) at \[1\], expected uint8"),
        ("uint8", [0, -3], TypeError, r"action: -3 \(int64\) at \[1\], expected uint8"),
        ("bool", [True, 5], TypeError, r"action: 5 \(int64\) at \[1\], expected bool"),
        ("bool", [0.5, 0.0], TypeError, r"action: 0.5 \(float64\) at \[0\], expected bool"),
        ("float32", ["a", "b"], TypeError, r"action: a \(<U1\) at \[0\], expected float32"),
        ("float32", [[1], [1, 2]], TypeError, "action: .*inhomogeneous.*, expected float32"),
        ("float32", [1.0], ValueError, r"action has shape \(1,\), expected \(2,\)"),
        ("float32", [0.0, 1e300], TypeError, r"action: 1e\+300 \(float64\) at \[1\], expected float32"),
        ("float32", [0.0, float("inf")], ValueError, "action is not finite"),
        ("float32", [0.0, float("nan")], ValueError, "action is not finite"),
    ],
)
def test_what_would_become_another_value_is_refused(dtype: str, action: Any, error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text):
        _written(dtype, action)


@pytest.mark.parametrize(("dtype", "action"), [("uint8", [0, 255]), ("float32", [1, 0.5]), ("bool", [True, False])])
def test_what_fits_is_written(dtype: str, action: Any) -> None:
    assert _written(dtype, action) == action

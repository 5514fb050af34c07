"""Where two arrays of numbers first differ, by a rule.

Bits decide first; a tolerance can only pardon. So -0.0 is not 0.0 unless the rule is tolerant. NaN and infinity are
close to nothing; a NaN equals every NaN, or none, as the rule says.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from lucky_transport_migration.compare.rule import EXACT, Rule

_UNSIGNED = {2: np.uint16, 4: np.uint32, 8: np.uint64}
_SIGNED = {2: np.int16, 4: np.int32, 8: np.int64}


def first_unequal_number(left: NDArray[Any], right: NDArray[Any], rule: Rule = EXACT) -> tuple[int, ...] | None:
    """Return the index of the first element that differs, None if none does. Both have one dtype and shape."""
    differ = _unequal_floats(left, right, rule) if left.dtype.kind == "f" else left != right
    if differ.any() and rule.tolerant:
        differ &= ~_close(left, right, rule)
    if not differ.any():
        return None
    return tuple(int(one) for one in np.unravel_index(int(np.argmax(differ)), left.shape))


def _unequal_floats(left: NDArray[Any], right: NDArray[Any], rule: Rule) -> NDArray[np.bool_]:
    unsigned = _UNSIGNED[left.dtype.itemsize]
    bits = np.ascontiguousarray(left).view(unsigned) != np.ascontiguousarray(right).view(unsigned)
    if rule.nan == "different":
        return bits | np.isnan(left) | np.isnan(right)
    return bits & ~(np.isnan(left) & np.isnan(right)) if bits.any() else bits


def _close(left: NDArray[Any], right: NDArray[Any], rule: Rule) -> NDArray[np.bool_]:
    if left.dtype.kind != "f":
        distance = _steps_between(left, right)
        largest = np.maximum(np.abs(left.astype(np.float64)), np.abs(right.astype(np.float64)))
        return (distance <= max(rule.abs, rule.ulp)) | (distance <= rule.rel * largest)
    finite = np.isfinite(left) & np.isfinite(right)
    x, y = np.where(finite, left, 0).astype(np.float64), np.where(finite, right, 0).astype(np.float64)
    with np.errstate(over="ignore"):
        distance, largest = np.abs(x - y), np.maximum(np.abs(x), np.abs(y))
        close = (distance <= rule.abs) | (distance <= rule.rel * largest)
    if rule.ulp:
        close |= _steps_between(_ordered(left), _ordered(right)) <= rule.ulp
    return close & finite


def _ordered(numbers: NDArray[Any]) -> NDArray[Any]:
    """Return integers in the order of the numbers, neighbours one apart, both zeros the same."""
    bits = np.ascontiguousarray(numbers).view(_SIGNED[numbers.dtype.itemsize])
    return np.where(bits < 0, np.iinfo(bits.dtype).min - bits, bits)


def _steps_between(left: NDArray[Any], right: NDArray[Any]) -> NDArray[Any]:
    """Return the distances of integers; they fit unsigned ones of the same width, however far apart these are."""
    distance = np.maximum(left, right) - np.minimum(left, right)
    return distance.view(f"u{distance.dtype.itemsize}") if distance.dtype.kind == "i" else distance

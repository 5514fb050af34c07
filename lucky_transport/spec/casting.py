"""Values of others on their way into an array that travels: none becomes another value in silence."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from lucky_transport.spec.array_spec import value_range


def fitting(value: Any, dtype: DTypeLike) -> NDArray[Any]:
    """Return `value` as an array whose values may be written into one of `dtype`.

    NumPy's `same_kind` rule decides, so float64 may become float32. Beyond it integers have to be in the range of
    `dtype`, and Python's own, which have no dtype, need nothing else; a finite value stays finite. Raises ValueError
    that says the first value that does not fit, its dtype and its place: "254.7 (float64) at [1]".
    """
    array, wanted = np.asarray(value), np.dtype(dtype)
    if not array.size or np.can_cast(array.dtype, wanted, "safe"):
        return array
    is_of_kind = np.can_cast(array.dtype, wanted, "same_kind")
    if array.dtype.kind in "iu" and wanted.kind in "iu":
        is_of_kind |= not isinstance(value, np.ndarray | np.generic)
        least, most = value_range(wanted)
        bad = (array < least) | (array > most)
    elif array.dtype.kind in "fiub":
        with np.errstate(all="ignore"):
            cast = array.astype(wanted)
            bad = np.isfinite(array) & ~np.isfinite(cast) if is_of_kind else cast != array
    else:
        bad = np.zeros(array.shape, np.bool_)
    if is_of_kind and not bad.any():
        return array
    at = [int(i) for i in np.unravel_index(int(np.argmax(bad)), array.shape)]
    raise ValueError(f"{array[tuple(at)]} ({array.dtype}){f' at {at}' if at else ''}")

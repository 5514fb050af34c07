"""Views keep their mapping alive."""

from __future__ import annotations

import gc
from mmap import mmap

import numpy as np

from lucky_transport.shm.segment import view


def test_a_view_outlives_everything_else_that_knew_the_mapping() -> None:
    mapping = mmap(-1, 4096)
    array = view(mapping, 64, "float32", (3, 4))
    array[:] = 7
    del mapping
    gc.collect()
    assert np.all(array == 7)


def test_a_view_lies_at_the_offset_in_the_mapping() -> None:
    mapping = mmap(-1, 4096)
    base = np.frombuffer(mapping, np.uint8)
    assert view(mapping, 128, "uint8", (5,)).ctypes.data == base.ctypes.data + 128

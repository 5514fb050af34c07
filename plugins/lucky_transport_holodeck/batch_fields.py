"""The fields of the segment's header that an exchange reads and writes, each as a word of memory.

The semaphores order these words between the processes: written before `give`, read after `take`.
"""

from __future__ import annotations

from mmap import mmap
from typing import Any

from lucky_transport.shm.layout import FIELDS

__all__ = ["BatchFields"]


class BatchFields:
    """Each attribute is the header's field of that name: read and write its element 0."""

    __slots__ = ("action_seq", "client_pid", "client_start", "engine_state", "frame_seq", "frame_status")

    def __init__(self, mapping: mmap) -> None:
        whole = memoryview(mapping)

        def word(name: str) -> memoryview:
            place = FIELDS[name]
            code: Any = place.code  # one that a memoryview knows
            return whole[place.offset : place.offset + (8 if code == "Q" else 4)].cast(code)

        self.action_seq = word("action_seq")
        self.frame_seq = word("frame_seq")
        self.frame_status = word("frame_status")
        self.client_pid = word("client_pid")
        self.client_start = word("client_start")
        self.engine_state = word("engine_state")

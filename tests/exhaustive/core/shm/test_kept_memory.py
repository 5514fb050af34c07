"""The allocator keeps memory for messages that come again."""

from __future__ import annotations

import os
import platform
import subprocess
import sys
from mmap import PAGESIZE

import pytest

_FAULTS = """
import mmap, resource, sys
from lucky_transport.shm.ring_pipe import open_reader, open_writer
memory = mmap.mmap(-1, (1 << 20) + (8 << 20))
arena = {"arena": 1 << 20, "arena_bytes": 8 << 20}
writer, reader = open_writer(memory, 0, 1 << 19, **arena), open_reader(memory, 0, 1 << 19, **arena)
record = bytes(int(sys.argv[1]))
for number in range(40):
    if number == 20:
        before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    kept = []
    for _ in range(5):  # several at once, all of them gone before the next come
        assert writer.try_push(record)
        kept.append(reader.try_pop())
print((resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before) / 20)
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="other allocators keep memory by other rules")
@pytest.mark.parametrize("length", [40_000, 100_000, 1_000_000])
def test_messages_that_come_again_are_put_where_the_last_ones_were(length: int) -> None:
    """Memory that goes back to the system with each message comes back page by page: that many faults for each."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("MALLOC_")}
    command = [sys.executable, "-c", _FAULTS, str(length)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    assert float(done.stdout) < length // PAGESIZE

"""Where records lie that are too long for a ring: in an arena beside it, which both sides have mapped.

The writer puts such a record into a slab of the arena, and a short reference to it into the ring; the reader copies it
out and gives both back together. `_native/arena.h` says what is where. An arena is address space: it has memory as far
as it was used.

- A writer uses what it has used before as long as that suffices. Where the last long records took less than half of it,
  it gives up the rest as soon as none is out; `ARENA_RESTS_NS` after the last one, `ARENA_STEP` of it with each short
  record: that takes 0.1 ms.
- The arenas that a process writes to take at most `ARENAS_LARGEST` bytes together. Where that is reached, those that
  are at rest give up theirs.
- An engine's segment has arenas where the system can refuse memory (`can_be_refused`), since its file lies on a small
  file system at times.
- Where the system has no memory, the file system would be left with less than `mapping.MARGIN`, or the process may not
  take more, longer records are cut into fragments for a while (`ARENA_REFUSED_NS`), as they are for a peer that offers
  no arena. What was got of the memory is given back.
"""

from __future__ import annotations

from functools import cache
from mmap import mmap

from lucky_transport.errors import RemoteProtocolError

#: An arena begins at a multiple of it, and is a multiple of it long.
PAGE = 1 << 16
#: Of an arena in each direction: a message of 64 MiB, with what is around it.
DEFAULT_ARENA_BYTES = (64 << 20) + PAGE
LARGEST_ARENA = 1 << 31

#: What the native module has too, under the same names.
NATIVE = {
    "RING_REFERENCE": 0xFFFF_FFFE,
    "REFERENCE_BYTES": 28,
    "SLAB_ALIGNMENT": 64,
    "ARENA_LARGEST": LARGEST_ARENA,
    "ARENAS_LARGEST": 256 << 20,
    "ARENA_STEP": 1 << 18,
    "ARENA_RESTS_NS": 2_000_000_000,
    "ARENA_REFUSED_NS": 1_000_000_000,
    "COPY_WITHOUT_GIL": 1 << 18,
}


#: `MADV_POPULATE_WRITE`, which Python does not name.
_POPULATE_WRITE = 23


@cache
def can_be_refused() -> bool:
    """True where the lack of memory for a slab is an error, as from Linux 5.14 on; elsewhere it is SIGBUS."""
    with mmap(-1, PAGE) as probe:
        try:
            probe.madvise(_POPULATE_WRITE)
        except OSError:
            return False
        return True


def check_reference(index: int, begin: int, length: int, size: int) -> None:
    """Raise RemoteProtocolError unless a slab of `length` bytes can begin at byte `begin` of an arena of `size`.

    index: where the reference stands in its ring.
    """
    if length and begin + length <= size:
        return
    raise RemoteProtocolError(
        f"ring record at byte {index} refers to {length} bytes at {begin} of an arena of {size}",
        backend="shm",
        hint="the peer is broken or speaks another protocol; connect again",
    )

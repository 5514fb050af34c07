"""A queue of records between one writer and one reader, in memory both have mapped; no lock.

    byte 0      u32 write position: bytes ever written, modulo 2**32; only the writer stores it
    byte 128    u32 read position: bytes ever read, modulo 2**32; only the reader stores it
    byte 192    u32 1 while the writer is parked until a record fits; the side that wakes it stores 0
    byte 256    data, a power of two in size; a position modulo that size is an index into it

    a record, at a multiple of 8   [u32 length] [length bytes] [padding to the next multiple of 8]
    before the ring's end          [u32 SKIP]   nothing more up to the end; the next record starts at the beginning
    of a record that is too long   [u32 REFERENCE] and 28 bytes that say where it lies beside the ring: see `arena`

The data is written before the write position says so, and copied out before the read position gives it back. Each side
keeps its own position to itself and believes the other's only as far as it is possible; a record is copied out before
its first check, and nothing is read twice. A record is never split at the ring's end, so that a peer can read it in
place; it takes at most a quarter of the ring, so that it fits into an empty one wherever that begins; a length of 0 is
never written, so that zeroed memory is no record. One thread at a time uses each side.
"""

from __future__ import annotations

from lucky_transport.errors import NoSpace, RemoteProtocolError, SegmentError, SpecError
from lucky_transport.shm.arena import check_reference

#: Two lines: processors prefetch them in pairs.
CACHE_LINE = 128
DEFAULT_RING_BYTES = 512 * 1024

#: The two positions lie on cache lines of their own (two lines apart: processors prefetch lines in pairs).
WRITE_POSITION = 0
READ_POSITION = 128
WRITER_PARK = 192
HEAD_BYTES = 256

LENGTH_BYTES = 4
#: In the place of a length: nothing more up to the end of the ring.
SKIP = 0xFFFF_FFFF
MODULUS = 1 << 32

#: The memory of a ring that has not all from the start grows by so much.
STEP = 1 << 16

_ALIGNMENT = 8
SMALLEST = 64
LARGEST = 1 << 31  # beyond it, a distance modulo 2**32 could not tell full from empty
_HINT = "the peer is broken or speaks another protocol; connect again"


def ring_bytes(size: int) -> int:
    """Return the bytes that a ring with `size` data bytes takes in memory."""
    return HEAD_BYTES + size


def stride_of(length: int) -> int:
    """Return the bytes that a record of `length` bytes takes in the ring."""
    return (LENGTH_BYTES + length + _ALIGNMENT - 1) & -_ALIGNMENT


def largest_record(size: int) -> int:
    """Return the length of the largest record in a ring of `size` data bytes."""
    return size // 4 - LENGTH_BYTES


def check_place(total: int, offset: int, size: int) -> None:
    """Raise SegmentError unless a ring with `size` data bytes can lie at `offset` of `total` bytes of memory."""
    if not SMALLEST <= size <= LARGEST or size & (size - 1):
        raise SegmentError(
            f"a ring of {size} data bytes, expected a power of two from {SMALLEST} to {LARGEST}", backend="shm"
        )
    if offset < 0 or offset % _ALIGNMENT or offset + ring_bytes(size) > total:
        raise SegmentError(
            f"a ring of {ring_bytes(size)} bytes at byte {offset} does not fit into {total} bytes of memory at a "
            f"multiple of {_ALIGNMENT}",
            backend="shm",
        )


def distance(write: int, read: int, size: int) -> int:
    """Return how far the writer is ahead; raises RemoteProtocolError for what cannot be."""
    ahead = (write - read) % MODULUS
    if ahead > size or (write | read) % _ALIGNMENT:
        raise RemoteProtocolError(
            f"ring positions {write} (write) and {read} (read) are {ahead} apart, expected multiples of {_ALIGNMENT} "
            f"at most {size} apart",
            backend="shm",
            hint=_HINT,
        )
    return ahead


def check_outgoing(length: int, size: int, arena: int = 0) -> int:
    """Return the stride of a record of ours; raises SpecError when it is empty or too large for a ring of `size`.

    arena: bytes of the arena beside it.
    """
    largest = max(arena, largest_record(size))
    if not 0 < length <= largest:
        beside = f" with an arena of {arena}" if arena else ""
        raise SpecError(
            f"a record of {length} bytes, expected 1 to {largest} in a ring of {size}{beside}",
            backend="shm",
            hint="send less at once, or make the engine's command rings larger" if length else "send at least one byte",
        )
    return stride_of(length)


def check_length(length: int, index: int, published: int, size: int) -> int:
    """Return the stride of the record that claims `length` bytes at `index`, with `published` bytes written from there.

    Raises RemoteProtocolError when no writer that keeps the rules could have written it.
    """
    stride = stride_of(length)
    if not 0 < length <= largest_record(size):
        what = f"expected 1 to {largest_record(size)} in a ring of {size}"
    elif stride > published:
        what = f"but only {published} bytes are published"
    elif index + stride > size:
        what = f"but the ring ends at {size}"
    else:
        return stride
    raise RemoteProtocolError(f"ring record at byte {index} claims {length} bytes, {what}", backend="shm", hint=_HINT)


def check_skip(index: int, published: int, size: int) -> int:
    """Return the bytes from `index` to the ring's end that a skip record passes over.

    Raises RemoteProtocolError when they are more than a record could have needed, or not published.
    """
    skipped = size - index
    if skipped >= size // 4 or skipped > published:
        raise RemoteProtocolError(
            f"ring record at byte {index} skips {skipped} bytes, expected less than {size // 4} and at most the "
            f"{published} published",
            backend="shm",
            hint=_HINT,
        )
    return skipped


def check_memory(length: int, size: int) -> None:
    """Raise NoSpace: the system has no memory for `length` more bytes of a ring of `size`."""
    raise NoSpace(f"no memory for {length} more bytes of a ring of {size}", backend="shm", hint="close other clients")


#: What `_native/ring.h` calls REFUSE_...: the check, and how many values it takes.
_CHECKS = (
    (distance, 3),
    (check_outgoing, 3),
    (check_length, 4),
    (check_skip, 3),
    (check_reference, 4),
    (check_memory, 2),
)


def refuse(kind: int, *values: int) -> None:
    """Raise the error of check `kind` on these values (surplus ones are 0): the native ring has it worded here."""
    check, count = _CHECKS[kind]
    check(*values[:count])

"""One record of a ring: how long it is and where it may lie.

    at a multiple of 8      [u32 length] [length bytes] [padding to the next multiple of 8]
    before the ring's end   [u32 SKIP]   the rest up to the end is unused; the next record starts at the beginning

Rule 1: a record is never split at the ring's end, so that a peer can read it in place.
Rule 2: a record takes at most a quarter of the ring; then it always fits into an empty one, wherever that begins.
Rule 3: a length of 0 is never written, so that zeroed memory is no record.
"""

from __future__ import annotations

from lucky_transport.errors import RemoteProtocolError, SpecError

__all__ = [
    "ALIGNMENT",
    "LENGTH_BYTES",
    "SKIP",
    "check_length",
    "check_outgoing",
    "check_skip",
    "largest_record",
    "stride_of",
]

ALIGNMENT = 8
LENGTH_BYTES = 4

#: In the place of a length: nothing more up to the end of the ring.
SKIP = 0xFFFF_FFFF

_HINT = "the peer is broken or speaks another protocol; connect again"


def stride_of(length: int) -> int:
    """Return the bytes that a record of `length` bytes takes in the ring."""
    return (LENGTH_BYTES + length + ALIGNMENT - 1) & -ALIGNMENT


def largest_record(size: int) -> int:
    """Return the length of the largest record in a ring of `size` data bytes."""
    return size // 4 - LENGTH_BYTES


def check_outgoing(length: int, size: int) -> int:
    """Return the stride of a record of ours; raises SpecError when it is empty or too large for a ring of `size`."""
    if not 0 < length <= largest_record(size):
        raise SpecError(
            f"a record of {length} bytes, expected 1 to {largest_record(size)} in a ring of {size}",
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

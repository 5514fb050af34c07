"""Single words of a mapping in pure Python, one aligned machine access each; see _fallback.py for the rules."""

from __future__ import annotations

from mmap import mmap

from lucky_transport.shm._kernel import address_of, futex_wake

__all__ = ["bytes_at", "is_cut", "load32", "load64", "store32", "store64", "wake", "wake_parked", "word32", "word64"]


def word32(mapping: mmap, offset: int) -> memoryview:
    """Return the u32 at `offset` as a view of one element. Raises ValueError outside the mapping."""
    return bytes_at(mapping, offset, 4).cast("I")


def word64(mapping: mmap, offset: int) -> memoryview:
    """Return the u64 at `offset`, likewise."""
    return bytes_at(mapping, offset, 8).cast("Q")


def bytes_at(mapping: mmap, offset: int, size: int) -> memoryview:
    """Return so many bytes at `offset`; what is as long as a word has to be aligned like one. Raises ValueError."""
    if offset + size > len(mapping) or (size in (4, 8) and offset % size):
        raise ValueError(f"offset {offset} (+{size}) does not lie in the {len(mapping)} bytes mapped")
    return memoryview(mapping)[offset : offset + size]


def is_cut(mapping: mmap) -> bool:
    """True when the mapped file is shorter than the mapping: touching it may end the process."""
    try:
        return mapping.size() < len(mapping)
    except OSError:  # memory without a file
        return False


def load32(mapping: mmap, offset: int) -> int:
    """Return the u32 at `offset`."""
    return word32(mapping, offset)[0]


def store32(mapping: mmap, offset: int, value: int) -> None:
    """Store the u32 at `offset`."""
    word32(mapping, offset)[0] = value


def load64(mapping: mmap, offset: int) -> int:
    """Return the u64 at `offset`."""
    return word64(mapping, offset)[0]


def store64(mapping: mmap, offset: int, value: int) -> None:
    """Store the u64 at `offset`."""
    word64(mapping, offset)[0] = value


def wake(mapping: mmap, offset: int) -> None:
    """Wake whoever is parked on the word, whether it says so or not."""
    wake_parked(word32(mapping, offset), address_of(mapping, offset))


def wake_parked(park: memoryview, address: int) -> None:
    """Wake whoever is parked on the word `park`, which lies at `address`."""
    park[0] = 0
    futex_wake(address)

"""Ordered access to a segment's words: the native module where it was built, else pure Python on x86-64.

Both offer the same names with the same meaning, and the same tests run over both:

    ClientChannel(mapping, ...)   send(actions, control) · recv(timeout_ns) · step(actions, control, timeout_ns) ·
                                  fuse(frame, slow, slice_ns) · exchange(actions, control, deadline) · unfuse()
    EngineChannel(mapping, ...)   next(timeout_ns) · publish(status) · serve(step, acquire, release, timeout_ns) ·
                                  interrupt() · commands_read(position) · set_peer · resync
    RingWriter(memory, ...) · RingReader(memory, ...) · spin(readers, strategy, longest_ns)   see ends.py
    load32 · store32 · load64 · store64 · wake · wait32   on (mapping, offset)
    Slot(mapping, number, owner, park)   number() · owner() · take · hand_over · give_back(number): a slot of pictures
    copied(view)                  its bytes, while other threads run
    guard(mapping) · unguard · lost   see mapping.py; the fallback guards nothing

Rule 1: plain Python stores keep their order on x86-64 only; elsewhere the fallback is refused, not hoped for.
Rule 2: the native module must be of this version; a stale one counts as absent, with the remedy.
"""

from __future__ import annotations

import platform
from mmap import mmap
from types import ModuleType
from typing import Any

from lucky_transport.errors import MissingExtra
from lucky_transport.shm import _fallback
from lucky_transport.shm.results import PEER_PARKS, PEER_WAKES, Result

__all__ = ["PEER_PARKS", "PEER_WAKES", "Result", "Words", "guards", "implementation", "native_error", "words"]

_VERSION = 18

try:
    from lucky_transport.shm import _atomics  # pyright: ignore[reportAttributeAccessIssue, reportUnknownVariableType]

    _native: Any = _atomics
    _error = (
        ""
        if _native.VERSION == _VERSION
        else f"it is of version {_native.VERSION}, this code needs {_VERSION}: run the install command again"
    )
except ImportError as failure:
    _native = None
    _error = f"it was not built ({failure}): install a C compiler and run the install command again"


def native_error() -> str:
    """Return why the native module cannot be used, with the remedy; "" when it is in use."""
    return _error


def implementation(native: bool = True) -> ModuleType:
    """Return the module to use: the native one unless it is absent or `native` is False.

    Raises MissingExtra on a machine whose memory model the pure-Python fallback cannot handle.
    """
    if native and not _error:
        return _native
    if platform.machine() not in ("x86_64", "AMD64"):
        raise MissingExtra(
            f"shared memory on {platform.machine()} needs the native module; {_error or 'native = 0 was asked for'}",
            backend="shm",
            hint="install a C compiler, then install lucky-transport again",
        )
    return _fallback


def words() -> ModuleType:
    """Return the module whose load32, store32, load64 and store64 are to be used on the words of a header.

    Without the native module they are single accesses, ordered as far as the machine orders them: enough to look at a
    segment anywhere; whoever steps through it asks for `implementation`.
    """
    return _fallback if _error else _native


def guards() -> ModuleType:
    """Return the module whose guard, unguard and lost are to be used on mapped files."""
    return _fallback if _error else _native


class Words:
    """Single words of one mapping, for rings. `memory` is the whole mapping as bytes."""

    __slots__ = ("_mapping", "_module", "memory")

    def __init__(self, mapping: mmap, native: bool = True) -> None:
        self._mapping = mapping
        self._module = implementation(native)
        self.memory = memoryview(mapping)

    def load32(self, offset: int) -> int:
        """Return the u32 at `offset`; what was stored before it is visible afterwards."""
        return self._module.load32(self._mapping, offset)

    def store32(self, offset: int, value: int) -> None:
        """Store the u32; everything stored before it is visible to whoever loads it."""
        self._module.store32(self._mapping, offset, value)

    def wake(self, park_offset: int) -> None:
        """Wake the side that is parked on this word, if it is."""
        self._module.wake(self._mapping, park_offset)

    def wait32(
        self, offset: int, old: int, park_offset: int, strategy: int, peer: int, pidfd: int, timeout_ns: int
    ) -> int:
        """Wait until the u32 at `offset` leaves `old`: 1, or Result.TIMED_OUT, or Result.PEER_GONE."""
        return self._module.wait32(self._mapping, offset, old, park_offset, strategy, peer, pidfd, timeout_ns)

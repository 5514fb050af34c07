"""Which implementation is in use: the native module where it was built, else pure Python on x86-64.

Both offer the names of `native.pyi` with the same meaning, and the same tests run over both. Plain Python stores keep
their order on x86-64 only; elsewhere the fallback is refused, not hoped for.
"""

from __future__ import annotations

import platform
from mmap import mmap
from types import ModuleType

from lucky_transport import native as native_module
from lucky_transport.errors import MissingExtra
from lucky_transport.shm import fallback

__all__ = [
    "Words",
    "implementation",
    "native_error",
    "single_accesses",
]

_native = None if native_module.problem() else native_module


def native_error() -> str:
    """Return why the native module cannot be used, with the remedy; "" when it is in use."""
    return str(native_module.problem() or "")


def implementation(native: bool = True) -> ModuleType:
    """Return the module to use: the native one unless it is absent or `native` is False.

    Raises MissingExtra on a machine whose memory model the pure-Python fallback cannot handle.
    """
    if native and _native is not None:
        return _native
    if platform.machine() not in ("x86_64", "AMD64"):
        raise MissingExtra(
            f"shared memory on {platform.machine()} needs the native module",
            backend="shm",
            hint="install a C compiler, then install lucky-transport again",
        )
    return fallback


def single_accesses() -> ModuleType:
    """Return the module for single words of a header (load32, ...) and for guarding mapped files, on any machine.

    Without the native module words are ordered only as far as the machine orders them: enough to look at a segment
    anywhere. Stepping through it needs `implementation`.
    """
    return fallback if _native is None else _native


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
        """Store the u32; everything stored before it is visible to the side that loads it."""
        self._module.store32(self._mapping, offset, value)

    def wake(self, park_offset: int) -> None:
        """Wake the side that is parked on this word, if it is."""
        self._module.wake(self._mapping, park_offset)

    def wait32(self, offset: int, old: int, *, park: int, strategy: int, peer: int, timeout_ns: int) -> int:
        """Wait until the u32 at `offset` leaves `old`: 1, or Result.TIMED_OUT."""
        return self._module.wait32(
            self._mapping, offset, old, park=park, strategy=strategy, peer=peer, timeout_ns=timeout_ns
        )

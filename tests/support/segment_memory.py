"""Memory of this process that looks like a shared segment, without ordering or atomicity: for use in one thread."""

from __future__ import annotations

from typing import Any

__all__ = ["PlainWords", "WatchedWords"]

#: (what, first byte, byte after the last one); what is "load", "store", "read" or "write".
Access = tuple[str, int, int]


class PlainWords:
    """`size` bytes, each of value `fill`; `bytes` is a view of them that nobody watches."""

    memory: Any

    def __init__(self, size: int, fill: int = 0) -> None:
        self.bytes = memoryview(bytearray([fill]) * size)
        self.memory = self.bytes

    def load32(self, offset: int) -> int:
        """Return the little-endian u32 at `offset`."""
        return int.from_bytes(self.bytes[offset : offset + 4], "little")

    def store32(self, offset: int, value: int) -> None:
        """Store the little-endian u32 at `offset`."""
        self.bytes[offset : offset + 4] = value.to_bytes(4, "little")


class WatchedWords(PlainWords):
    """Plain words that keep a `log` of every access, in order."""

    def __init__(self, size: int, fill: int = 0) -> None:
        super().__init__(size, fill)
        self.log: list[Access] = []
        self.memory = _WatchedMemory(self.bytes, self.log)

    def load32(self, offset: int) -> int:
        self.log.append(("load", offset, offset + 4))
        return super().load32(offset)

    def store32(self, offset: int, value: int) -> None:
        self.log.append(("store", offset, offset + 4))
        super().store32(offset, value)


class _WatchedMemory:
    """Logs each slice that is read or written; anything but slices is an error."""

    def __init__(self, memory: memoryview, log: list[Access]) -> None:
        self._memory = memory
        self._log = log

    def __len__(self) -> int:
        return len(self._memory)

    def __getitem__(self, part: slice) -> memoryview:
        self._log.append(("read", part.start, part.stop))
        return self._memory[part]

    def __setitem__(self, part: slice, content: bytes) -> None:
        self._log.append(("write", part.start, part.stop))
        self._memory[part] = content

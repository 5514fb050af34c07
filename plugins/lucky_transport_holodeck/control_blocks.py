"""The three blocks that every pair has, as the engine reads them: are there commands, which, is there a reset.

A flag is put back once it was obeyed; the client sets it again.
"""

from __future__ import annotations

from lucky_transport.errors import RemoteProtocolError
from lucky_transport_holodeck.blocks import BlockFiles
from lucky_transport_holodeck.commands import BUFFER_BYTES, HolodeckCommand, decode
from lucky_transport_holodeck.names import COMMAND_BOOL, COMMAND_BUFFER, RESET

__all__ = ["ControlBlocks"]

#: Batches are short as a rule; only one that does not end within this is read whole.
_FIRST_BYTES = 1 << 14
_OFF = b"\0"


class ControlBlocks:
    """Open until `close`."""

    def __init__(self, files: BlockFiles) -> None:
        self._flag = files.open(COMMAND_BOOL, 1)
        self._buffer = files.open(COMMAND_BUFFER, BUFFER_BYTES)
        self._reset = files.open(RESET, 1)

    @property
    def made_ns(self) -> int:
        """When a client made the command block: another client, another time."""
        return self._buffer.changed_ns

    def take_commands(self) -> list[HolodeckCommand]:
        """Return the commands that wait, each once; raises RemoteProtocolError when they cannot be read."""
        if self._flag.read_some(1) in (b"", _OFF):
            return []
        self._flag.write(_OFF)
        try:
            return decode(self._buffer.read_some(_FIRST_BYTES))
        except RemoteProtocolError:
            return decode(self._buffer.read_some(BUFFER_BYTES))

    def take_reset(self) -> bool:
        """True, once, when the client wants the world to start anew."""
        if self._reset.read_some(1) in (b"", _OFF):
            return False
        self._reset.write(_OFF)
        return True

    def close(self) -> None:
        """Let go of the files; idempotent."""
        for file in (self._flag, self._buffer, self._reset):
            file.close()

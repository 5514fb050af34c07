"""An envelope on its way out: in one record, or cut into fragments where no record of its length can be pushed.

The fragments of one call come in order; those of several calls may be mixed, so that a long message delays no other.
How long a record may be is asked each time: it depends on the memory that there is.
"""

from __future__ import annotations

from lucky_transport.codec.envelope import (
    COMPACT_BYTES,
    IMAGE_BYTES,
    CompactFields,
    Envelope,
    Kind,
    Record,
    encode_compact,
    encode_envelope,
    encode_record,
    joined,
)
from lucky_transport.errors import SpecError
from lucky_transport.rpc.pipe import Pipe

#: Bytes that a fragment's own envelope takes at most: those of the largest numbers, and the payload's alignment.
_LARGEST_FRAGMENT = Envelope(
    correlation_id=2**64 - 1, kind=Kind.FRAGMENT, window=2**32 - 1, offset=2**64 - 1, total=2**64 - 1
)
_LARGEST_FRAGMENT.payload = b"\0"
_FRAGMENT_OVERHEAD = len(encode_envelope(_LARGEST_FRAGMENT)) + 8


class Outgoing:
    """An envelope, as its record or as the fields of a compact or image one, that leaves through a pipe.

    call: its number. message_bytes: length of the message in it, so that the receiver need not guess when it is too
    long. length: of its record.
    """

    __slots__ = ("_call", "_fields", "_message_bytes", "_offset", "_record", "length")

    def __init__(self, envelope: Record | CompactFields, call: int = 0, message_bytes: int = 0) -> None:
        self._call, self._message_bytes = call, message_bytes
        self._offset = 0
        self._record: Record = b""
        self._fields: CompactFields | None = None
        if isinstance(envelope, tuple):
            self._fields = envelope
            self.length = (COMPACT_BYTES if envelope[6] is None else IMAGE_BYTES) + len(envelope[2])
        else:
            self._record = envelope
            self.length = len(envelope) if isinstance(envelope, bytes) else sum(map(len, envelope))

    def push(self, pipe: Pipe) -> int:
        """Push what is left, as far as there is free space; return the bytes that have no place yet, 0 when all left.

        Raises SpecError when the pipe's records leave no room for a fragment, and as `Pipe.try_push`.
        """
        while self._offset < self.length:
            largest = pipe.largest_record
            if not self._offset and self.length <= largest:
                pushed = length = self.length
                if self._fields is not None:
                    [is_sent] = map(pipe.push, *zip(self._fields))  # as `uninterrupted`
                else:
                    [is_sent] = map(pipe.try_push, (self._record,), (self._call,), (self._message_bytes,))
            else:
                if self._fields is not None:
                    self._record, self._fields = encode_compact(*self._fields), None
                self._record = joined(self._record)
                piece, pushed = fragment(self._record, self._call, self._offset, largest, self._message_bytes)
                length = len(piece) if isinstance(piece, bytes) else sum(map(len, piece))
                [is_sent] = map(pipe.try_push, (piece,), (self._call,))
            if is_sent:
                self._offset += pushed
            elif length <= pipe.largest_record:
                return length
        return 0


def fragment(record: bytes, call: int, offset: int, largest: int, message_bytes: int) -> tuple[Record, int]:
    """Return the fragment with what comes at `offset` of the record, `largest` bytes at most, and how much that is.

    Raises SpecError when `largest` leaves no room for anything.
    """
    if largest <= _FRAGMENT_OVERHEAD:
        raise SpecError(f"records of {largest} bytes are too short for fragments", hint="make the rings larger")
    payload = record[offset : offset + largest - _FRAGMENT_OVERHEAD]
    envelope = Envelope(
        correlation_id=call,
        kind=Kind.FRAGMENT,
        payload=payload,
        window=min(message_bytes, 2**32 - 1),
        offset=offset,
        total=len(record),
    )
    return encode_record(envelope), len(payload)

"""The record that opens a call, and the methods' names in it.

Each connection has a table of method names, as HPACK has one of headers: a name travels once, then its number does.
"""

from __future__ import annotations

from lucky_transport.codec.envelope import CompactFields, Envelope, Kind, Record, encode_record
from lucky_transport.errors import RemoteProtocolError
from lucky_transport.rpc.error_envelope import Metadata, to_metadata
from lucky_transport.rpc.flow_control import WindowSize
from lucky_transport.rpc.lifecycle import Shape

#: A method's number is this plus the number of the call that named it first; ids of the method table are all below.
FIRST_NUMBER = 1 << 31
#: Names that one caller numbers; the others travel by name.
_MOST = 1024
#: A record of so many bytes is read, however little the server takes: it lies in any ring.
_ALWAYS_READ = 1000
#: Threads that name the same method at the same time use up several.
_MOST_TAKEN = 8 * _MOST


class MethodNameEncoder:
    """The client's table. It uses a number only once the request that gave it is read for certain."""

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}
        #: Returns the number of a method, None while it has none.
        self.get = self._numbers.get

    def number(self, name: str, correlation_id: int) -> int:
        """Return the number that a request may give the method it names; 0 when the table is full or without a name."""
        may = name and correlation_id < FIRST_NUMBER and len(self._numbers) < _MOST
        return FIRST_NUMBER + correlation_id if may else 0

    def left(self, name: str, correlation_id: int) -> None:
        """Note that the request of this call, which named the method, is read."""
        if name not in self._numbers and (number := self.number(name, correlation_id)):
            self._numbers[name] = number


class MethodNameDecoder(dict[int, str]):
    """The server's table, by number. Looking up a number that was never given raises RemoteProtocolError."""

    def note(self, number: int, correlation_id: int, name: str) -> None:
        """Take a request with both name and number. Raises RemoteProtocolError for more than any caller gives."""
        if number == FIRST_NUMBER + correlation_id:
            if len(self) >= _MOST_TAKEN:
                raise RemoteProtocolError(f"the caller has given {_MOST_TAKEN} methods numbers, and gives one more")
            self[number] = name

    def __missing__(self, number: int) -> str:
        raise RemoteProtocolError(
            f"a request for method {number}, a number that this caller has not given",
            hint="the peer is broken or speaks another protocol; connect again",
        )


class RequestEncoder:
    """Encodes the requests of one connection, whose longest record has `largest` bytes."""

    def __init__(self, largest: int) -> None:
        self._read_bytes = min(largest, _ALWAYS_READ)
        self._names = MethodNameEncoder()
        #: Returns the number by which requests name a method, None while they need its name.
        self.number_of = self._names.get

    def encode(
        self,
        method: int | str,
        correlation_id: int,
        payload: bytes,
        remaining_ns: int,
        metadata: Metadata,
        shape: Shape = Shape.UNARY,
        window: WindowSize | None = None,
    ) -> Record | CompactFields:
        """Return the record, or its fields where they suffice.

        remaining_ns: what is left until the deadline, 0 for none. window: the answer's, at first.

        Raises TypeError for metadata of other types.
        """
        path = ""
        number = self.number_of(method) if isinstance(method, str) else method
        if number is None:
            path = str(method)
            number = self._names.number(path, correlation_id)
        if not shape and not path and not metadata:
            return int(Kind.REQUEST), correlation_id, payload, number, remaining_ns, 0, None
        envelope = Envelope(
            number,
            correlation_id,
            Kind.REQUEST,
            remaining_ns,
            metadata=to_metadata(metadata),
            payload=payload,
            path=path,
            streams=int(shape),
        )
        if shape and window is not None and shape & Shape.SERVER_STREAM:
            envelope.items, envelope.window = window.items, window.bytes
        return encode_record(envelope)

    def note_sent(self, method: int | str, correlation_id: int, request: Record | CompactFields) -> None:
        """Use the method's number from now on, unless the request that gave it may be refused unread."""
        if isinstance(request, bytes) and len(request) <= self._read_bytes:
            self.note_answered(method, correlation_id)

    def note_answered(self, method: int | str, correlation_id: int) -> None:
        """Use the number that this call gave the method: it ended without an error, so its request was read."""
        if isinstance(method, str):
            self._names.left(method, correlation_id)

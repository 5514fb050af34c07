"""Envelopes that came in fragments, put together again.

The receiver sets the limit, as in gRPC: a longer message is refused by itself (`TooLarge`), its peer is not dropped,
and its further fragments are ignored. Memory is taken as fragments come, never because one announces more.
"""

from __future__ import annotations

import threading
from collections.abc import Callable

from lucky_transport.codec.envelope import AROUND_MESSAGE, Envelope, Kind, Popped, decode_compact, decode_envelope
from lucky_transport.errors import RemoteProtocolError, SpecError, TransportError

#: Bytes of the longest message that is put together unless the limit is raised: gRPC's default.
DEFAULT_LIMIT = 4 << 20
#: All unfinished messages of one peer together may take at least this much.
_LEAST_BUDGET = 64 << 20


class TooLarge(Exception):
    """One message is longer than this side takes; `correlation_id` names its call, `error` goes to its sender."""

    def __init__(self, correlation_id: int, error: TransportError) -> None:
        super().__init__(str(error))
        self.correlation_id = correlation_id
        self.error = error


def too_large(length: int, limit: int) -> TransportError:
    """Return the error of a message of `length` bytes where `limit` is allowed."""
    return SpecError(
        f"a message of {length} bytes, the limit is {limit}",
        hint="send less, or raise max_message_bytes (LUCKY_MAX_MESSAGE_BYTES) on the receiving side",
    )


class Assemblies:
    """The unfinished long envelopes of one peer, by call (`parts`); `limit` is the longest message in bytes.

    refusal: makes the error for a message of (so many bytes, where so many are allowed).
    """

    def __init__(self, limit: int = DEFAULT_LIMIT, refusal: Callable[[int, int], TransportError] = too_large) -> None:
        self.limit = limit
        self._refusal = refusal
        self._budget = max(_LEAST_BUDGET, 2 * limit)
        self._held = 0
        self.parts: dict[int, tuple[bytearray, int]] = {}
        self._lock = threading.RLock()

    def __contains__(self, correlation_id: int) -> bool:
        return correlation_id in self.parts

    def add(self, fragment: Envelope) -> bytes | None:
        """Take one fragment; return the whole envelope's record after its last one.

        Raises TooLarge (the message is then forgotten), RemoteProtocolError for pieces that do not fit together.
        """
        with self._lock:
            return self._add(fragment)

    def _add(self, fragment: Envelope) -> bytes | None:
        call, piece = fragment.correlation_id, fragment.payload
        held = self.parts.get(call)
        if held is None:
            if fragment.offset:
                return None  # the rest of a message that was refused or whose call has ended
            self._check_size(fragment)
            held = self.parts[call] = (bytearray(), fragment.total)
        part, total = held
        if fragment.total != total or fragment.offset != len(part) or not piece or len(part) + len(piece) > total:
            raise RemoteProtocolError(
                f"fragment of call {call}: {len(piece)} bytes at {fragment.offset} of {fragment.total}, expected some "
                f"at {len(part)} of {total}",
                hint="the peer is broken or speaks another protocol; connect again",
            )
        if self._held + len(piece) > self._budget:
            self.drop(call)
            error = SpecError(
                f"unfinished messages of this client take more than {self._budget} bytes together",
                hint="send fewer long messages at once, or raise max_message_bytes (LUCKY_MAX_MESSAGE_BYTES)",
            )
            raise TooLarge(call, error)
        self._held += len(piece)
        part += piece
        if len(part) < total:
            return None
        self.drop(call)
        return bytes(part)

    def drop(self, correlation_id: int) -> None:
        """Forget what came of the call's message, from any thread; no effect when there is nothing."""
        if correlation_id in self.parts:
            with self._lock:
                part = self.parts.pop(correlation_id, None)
                if part is not None:
                    self._held -= len(part[0])

    def clear(self) -> None:
        """Forget everything."""
        with self._lock:
            self.parts.clear()
            self._held = 0

    def _check_size(self, fragment: Envelope) -> None:
        """Refuse by what the sender says of its message, and by what it takes if that is not believable."""
        length = max(fragment.window, fragment.total - AROUND_MESSAGE)
        if length > self.limit:
            raise TooLarge(fragment.correlation_id, self._refusal(length, self.limit))


def whole(record: bytes, correlation_id: int) -> Popped:
    """Return what a ring hands out of a record: of one that was put together from fragments of that call.

    Raises RemoteProtocolError when it holds another call's, and for anything but a sound envelope.
    """
    popped = decode_compact(record)
    found = decode_envelope(popped)
    if found.correlation_id != correlation_id or found.kind is Kind.FRAGMENT:
        raise RemoteProtocolError(
            f"fragments of call {correlation_id} hold {found.kind.name} of call {found.correlation_id}"
        )
    return popped

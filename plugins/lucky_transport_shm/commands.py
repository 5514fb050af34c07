"""Typed calls through the segment's two rings, both ends.

Rule 1: one caller at a time per segment; whoever waits reads the ring himself, so there is no reader thread.
Rule 2: an answer to a call that was given up is dropped when it comes (its correlation id is not the awaited one).
"""

from __future__ import annotations

import threading
from typing import Any

from lucky_transport.codec.envelope import Envelope, Kind, decode_envelope, encode_envelope
from lucky_transport.codec.flatbuffers import decode, encode
from lucky_transport.deadline import Deadline
from lucky_transport.errors import (
    EngineFailed,
    PeerDied,
    PeerTimeout,
    RemoteProtocolError,
    TransportError,
    Unimplemented,
    from_wire,
)
from lucky_transport.host.host import Host
from lucky_transport.messages.methods import BY_ID, Method
from lucky_transport.shm.atomics import Result, Words
from lucky_transport.shm.layout import FIELDS, RING_HEAD_BYTES
from lucky_transport.shm.ring import RingReader, RingWriter, reset_ring
from lucky_transport.shm.segment import Segment

__all__ = ["Caller", "Responder"]


class Caller:
    """The client's end: `call` sends one request and waits for its answer."""

    def __init__(self, segment: Segment, words: Words, *, strategy: int, peer: int, pidfd: int) -> None:
        self._words = words
        self._strategy, self._peer, self._pidfd = strategy, peer, pidfd
        requests, answers = segment.layout["ring_c2s"], segment.layout["ring_s2c"]
        ring_bytes = requests.size - RING_HEAD_BYTES
        self._writer = RingWriter(words, requests.offset, ring_bytes)
        self._reader = RingReader(words, answers.offset, ring_bytes)
        self._answers_written = answers.offset
        self._lock = threading.Lock()
        self._correlation = 0

    def call(self, method: Method, request: Any, deadline: Deadline) -> Any:
        """Return the response; raises the error the engine answered with, PeerTimeout, PeerDied."""
        if not self._lock.acquire(timeout=deadline.remaining_s):
            raise PeerTimeout(f"{method.name}: another call held the ring for {deadline.timeout_s} s", backend="shm")
        try:
            self._correlation += 1
            record = encode_envelope(
                Envelope(
                    method=method.id,
                    correlation_id=self._correlation,
                    kind=Kind.REQUEST,
                    deadline_ns=deadline.remaining_ns,
                    payload=encode(request),
                )
            )
            self._push(record, method, deadline)
            return self._answer(method, deadline)
        finally:
            self._lock.release()

    def _push(self, record: bytes, method: Method, deadline: Deadline) -> None:
        while not self._writer.try_push(record):
            # Only an engine that stopped reading lets the ring fill up; its death is noticed by the wait below.
            if deadline.expired:
                raise PeerTimeout(f"{method.name}: the command ring stayed full", backend="shm")
            self._wait(deadline, limit_ns=1_000_000)
        self._words.wake(FIELDS["park_engine"].offset)

    def _answer(self, method: Method, deadline: Deadline) -> Any:
        while True:
            record = self._reader.try_pop()
            if record is None:
                if self._wait(deadline) == Result.TIMED_OUT and deadline.expired:
                    raise PeerTimeout(
                        f"{method.name} was not answered within {deadline.timeout_s} s",
                        backend="shm",
                        hint="raise command_timeout_s (LUCKY_COMMAND_TIMEOUT_S)",
                    )
                continue
            envelope = decode_envelope(record)
            if envelope.correlation_id != self._correlation:
                continue
            if envelope.kind == Kind.ERROR:
                raise from_wire(envelope.status, envelope.details, backend="shm")
            return decode(method.response, envelope.payload)

    def _wait(self, deadline: Deadline, limit_ns: int = 10**12) -> int:
        """Wait until the engine wrote into the answer ring."""
        written = self._words.load32(self._answers_written)
        if written != self._reader.position:
            return 1
        result = self._words.wait32(
            self._answers_written,
            written,
            FIELDS["park_command"].offset,
            self._strategy,
            self._peer,
            self._pidfd,
            min(deadline.remaining_ns, limit_ns),
        )
        if result == Result.PEER_GONE:
            raise PeerDied("the engine's process ended", backend="shm", hint="start the engine and connect again")
        return result


class Responder:
    """The engine's end: `serve` answers everything that is in the ring."""

    def __init__(self, segment: Segment, words: Words, host: Host) -> None:
        self._words = words
        self._host = host
        self._segment = segment
        self.reset()

    def reset(self) -> None:
        """Start with empty rings, whatever the last client left in them; no client may be attached."""
        layout = self._segment.layout
        ring_bytes = layout["ring_c2s"].size - RING_HEAD_BYTES
        for name in ("ring_c2s", "ring_s2c"):
            reset_ring(self._words, layout[name].offset, ring_bytes)
        self._reader = RingReader(self._words, layout["ring_c2s"].offset, ring_bytes)
        self._writer = RingWriter(self._words, layout["ring_s2c"].offset, ring_bytes)

    def serve(self) -> int:
        """Answer all waiting requests and return the position read up to.

        Raises RemoteProtocolError when the client wrote what no ring can hold.
        """
        while (record := self._reader.try_pop()) is not None:
            answer = encode_envelope(self._respond(decode_envelope(record)))
            if not self._writer.try_push(answer):
                raise RemoteProtocolError("the client does not read its command answers", backend="shm")
            self._words.wake(FIELDS["park_command"].offset)
        return self._reader.position

    def _respond(self, request: Envelope) -> Envelope:
        answer = Envelope(method=request.method, correlation_id=request.correlation_id, kind=Kind.RESPONSE)
        try:
            method = BY_ID.get(request.method)
            if method is None:
                raise Unimplemented(f"the engine does not know method {request.method}", backend="shm")
            answer.payload = _encode_response(method, self._host.call(method, decode(method.request, request.payload)))
        except TransportError as error:
            answer.kind = Kind.ERROR
            answer.status = error.wire_code
            answer.details = str(error)
        return answer


def _encode_response(method: Method, response: Any) -> bytes:
    try:
        return encode(response)
    except (TypeError, ValueError, AttributeError) as error:
        raise EngineFailed(f"the engine's answer to {method.name} is no {method.response.__name__}: {error}") from error

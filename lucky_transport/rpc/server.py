"""The answerer's end of a pipe: `ServerCalls`.

    calls = ServerCalls(pipe, begin)
    while pipe.wait(timeout_ns): calls.feed()

`feed` handles what waits and never blocks. A caller that breaks the protocol gets an error and is dropped: `feed`
raises and every call ends. While a caller does not read its responses, its requests stay in the pipe.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from types import MappingProxyType

from lucky_transport.codec.envelope import (
    Envelope,
    ItemRun,
    Kind,
    Popped,
    TooLong,
    decode_envelope,
    encode_envelope,
)
from lucky_transport.errors import Busy, ClosedError, RemoteProtocolError, TransportError
from lucky_transport.rpc.base_call import BaseCalls
from lucky_transport.rpc.error_envelope import GOAWAY, error_envelope
from lucky_transport.rpc.fragments import DEFAULT_LIMIT, too_large
from lucky_transport.rpc.images import ImageStore
from lucky_transport.rpc.pipe import Pipe
from lucky_transport.rpc.requests import FIRST_NUMBER, MethodNameDecoder
from lucky_transport.rpc.send_queue import CONGESTED_BYTES, SendQueue
from lucky_transport.rpc.server_call import ServerCall

_REQUEST, _RESPONSE, _STREAM_ITEM = int(Kind.REQUEST), int(Kind.RESPONSE), int(Kind.STREAM_ITEM)
#: Calls that one caller may have open.
MAX_CALLS = 1024
#: Records handled in one go: the thread that feeds has other things to do.
_BATCH = 64

#: Answers a short unary request (payload, caller, deadline in ns or 0) on the thread that feeds: returns the response,
#: or raises the TransportError that the caller gets.
Respond = Callable[[bytes, str, int], bytes]


class ServerCalls(BaseCalls[ServerCall]):
    """All calls that come through one pipe. `begin(call)` starts to answer one, in the thread that feeds.

    inline: by a method's id, what answers its short unary requests here, without a `ServerCall`. caller: its name,
    different for each connection (default: `pipe.peer`). refusal: makes the error of a message that is too long (its
    length, the limit). between_steps: gives a stream's handler the engine between two steps. images: takes the images
    that do not travel through the pipe.
    """

    def __init__(
        self,
        pipe: Pipe,
        begin: Callable[[ServerCall], None],
        *,
        inline: Mapping[int, Respond] = MappingProxyType({}),
        caller: str = "",
        max_message_bytes: int = DEFAULT_LIMIT,
        refusal: Callable[[int, int], TransportError] = too_large,
        between_steps: Callable[[], AbstractContextManager[object]] = nullcontext,
        images: ImageStore | None = None,
    ) -> None:
        self.images = images
        self.peer = caller or pipe.peer
        self.lock = threading.Lock()
        super().__init__(pipe, SendQueue(pipe), max_message_bytes, refusal)
        self.between_steps = between_steps
        self._begin = begin
        self._inline = inline
        self._named = MethodNameDecoder()
        self._max_message_bytes = max_message_bytes
        self._highest = 0

    def feed(self) -> bool:
        """Handle what waits, some records at most; False when the caller must read its answers before it goes on.

        Raises what ended the connection (RemoteProtocolError, PeerDied, ClosedError); every call has then ended.
        """
        try:
            for _ in range(_BATCH):
                if self.send_queue.pending_bytes > CONGESTED_BYTES:
                    return False
                record = self.pipe.pop_batch(1)
                if record is None:
                    break
                self._on_record(record)
        except TransportError as error:
            self.shut_down(error)
            raise
        return True

    def close(self, error: TransportError | None = None) -> None:
        """End every call, with `error` as the reason its handler sees; idempotent, from any thread."""
        self._keep_error(error or ClosedError("the connection is closed"))
        assert self.error is not None
        for call in tuple(self.open_calls.values()):
            call.lose(self.error)
        self._assemblies.clear()
        self.send_queue.close()
        self.pipe.close()
        if self.images is not None:
            self.images.close()

    def shut_down(self, error: TransportError) -> None:
        """Tell the caller of every call, and of all that would come, that it ends here; then `close`."""
        for call in tuple(self.open_calls.values()):
            call.abort(error)
        self.post(encode_envelope(error_envelope(0, GOAWAY, error)), GOAWAY)
        self.close(error)

    # -- for ServerCall -----------------------------------------------------------------------------------------------

    def post_payload(self, correlation_id: int, kind: int, payload: bytes) -> None:
        """Post the envelope that holds nothing else; in place, without a record of its own, if there is free space."""
        try:
            if self.send_queue.push(kind, correlation_id, payload):
                return
        except TransportError as error:
            self._on_send_error(error)
            return
        self.post((kind, correlation_id, payload, 0, 0, 0, None), correlation_id, len(payload))

    def takes(self, correlation_id: int, payload: bytes) -> bool:
        """True unless the message is longer than allowed, in one record or in many: then its call has ended."""
        if len(payload) <= self._max_message_bytes:
            return True
        self._refuse(correlation_id, self._refusal(len(payload), self._max_message_bytes))
        return False

    # -- receiving ----------------------------------------------------------------------------------------------------

    def _on_record(self, record: Popped | ItemRun | TooLong) -> None:
        if not isinstance(record, tuple):
            self._on_envelope(decode_envelope(record))
            return
        if len(record) != 7:
            assert len(record) == 3  # a batch of one is no run
            self._highest = max(self._highest, record[0])
            self._refuse(record[0], self._refusal(record[1], record[2]))
            return
        kind, correlation_id, payload, method, deadline_ns, _, image = record
        if image is not None:
            self._on_envelope(decode_envelope(record))
            return
        if kind == _REQUEST:
            respond = self._inline.get(method)
            if respond is not None and correlation_id not in self.open_calls and correlation_id != GOAWAY:
                self._highest = max(self._highest, correlation_id)
                try:
                    response = respond(payload, self.peer, deadline_ns)
                except TransportError as error:
                    call = ServerCall(self, method, correlation_id, deadline_ns, payload)
                    self.open_calls[correlation_id] = call
                    call.fail(error)
                else:
                    self.post_payload(correlation_id, _RESPONSE, response)
            else:
                call = ServerCall(self, method, correlation_id, deadline_ns, payload)
                if method >= FIRST_NUMBER:
                    call.path = self._named[method]
                self._open(call)
        elif kind == _STREAM_ITEM:
            call = self._known(correlation_id, Kind.STREAM_ITEM)
            if call is not None:
                call.on_item(payload)
        else:
            self._on_envelope(decode_envelope(record))

    def _on_envelope(self, envelope: Envelope) -> None:
        if envelope.kind is Kind.REQUEST:
            if envelope.method >= FIRST_NUMBER:
                self._name(envelope)
            self._open(ServerCall.of(self, envelope))
        elif envelope.kind is Kind.FRAGMENT:
            self._highest = max(self._highest, envelope.correlation_id)
            self._on_fragment(envelope)
        else:
            if envelope.kind is Kind.CANCEL:  # the call may have ended, or not have begun
                self._assemblies.drop(envelope.correlation_id)
            call = self._known(envelope.correlation_id, envelope.kind)
            if call is not None:
                call.on_envelope(envelope)

    def _name(self, request: Envelope) -> None:
        """Learn, or look up, the name behind a number."""
        if request.path:
            self._named.note(request.method, request.correlation_id, request.path)
        else:
            request.path = self._named[request.method]

    def _known(self, correlation_id: int, kind: Kind) -> ServerCall | None:
        """Return the call, None when it has ended. Raises RemoteProtocolError when there never was one.

        A caller may cancel a request that it could not send.
        """
        call = self.open_calls.get(correlation_id)
        if call is None and correlation_id > self._highest and kind is not Kind.CANCEL:
            raise RemoteProtocolError(
                f"{kind.name} for call {correlation_id}, which was never opened",
                hint="the peer is broken or speaks another protocol; connect again",
            )
        return call

    def _open(self, call: ServerCall) -> None:
        correlation_id = call.correlation_id
        if correlation_id in self.open_calls or correlation_id == GOAWAY:
            raise RemoteProtocolError(f"a request with the number {correlation_id}, which is none or of an open call")
        self._highest = max(self._highest, correlation_id)
        self.open_calls[correlation_id] = call
        if len(self.open_calls) > MAX_CALLS:
            call.fail(Busy(f"{MAX_CALLS} calls of this client are open", hint="wait for some of them"))
            return
        if len(call.payload) <= self._max_message_bytes or self.takes(correlation_id, call.payload):
            self._begin(call)

    def _on_send_error(self, error: TransportError) -> None:
        self._keep_error(error)  # `feed` finds out that the caller is gone

    def _refuse(self, correlation_id: int, error: TransportError) -> None:
        call = self.open_calls.get(correlation_id)
        if call is not None:
            call.abort(error)
        else:
            self.post(encode_envelope(error_envelope(0, correlation_id, error)), correlation_id)

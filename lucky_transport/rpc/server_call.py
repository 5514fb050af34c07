"""One call as the engine's side answers it."""

from __future__ import annotations

from collections.abc import Sequence

from lucky_transport.call import Call
from lucky_transport.codec.envelope import Envelope, ImagePlace, Kind, encode_envelope, encode_record
from lucky_transport.deadline import Deadline, monotonic_ns
from lucky_transport.errors import Cancelled, PeerTimeout, TransportError
from lucky_transport.rpc.error_envelope import Metadata, copy_error, error_envelope, from_metadata, name_of, to_metadata
from lucky_transport.rpc.images import ImageRef, ImageSink
from lucky_transport.rpc.lifecycle import Shape, StreamState, after, opened
from lucky_transport.rpc.server_items import ServerConnection, ServerItems

#: Looking up a member of an enumeration takes as long as calling a function.
_ENDED, _ASKED = StreamState.ENDED, opened(Shape.UNARY)
#: Where the answer is a stream; a flag's own `&` takes a microsecond.
_TO_CALLER = int(Shape.SERVER_STREAM)


class ServerCall(ServerItems):
    """Made by `ServerConnection` for each request.

    `finish` and `fail` belong to the thread that answers the call and never block; what is done to a call that its
    caller has ended has no effect. The caller's cancel, deadline and death end the call from outside.

    method: id, 0 where the caller named it by `path`. shape: which sides are streams, as the caller says. payload: the
    request, b"" where requests are streamed. deadline: None where the caller set none. metadata: what the caller sent
    along, in its order.
    """

    __slots__ = ("_call", "metadata", "method", "path", "payload", "shape")

    def __init__(
        self,
        calls: ServerConnection,
        method: int,
        correlation_id: int,
        deadline_ns: int,
        payload: bytes,
        shape: int = 0,
    ) -> None:
        super().__init__(
            correlation_id,
            opened(shape) if shape else _ASKED,
            Deadline(deadline_ns / 1e9) if deadline_ns else None,
            calls.lock,
        )
        self.method = method
        self.path = ""
        self.payload = payload
        self.shape = shape
        self.on_change = None
        self._calls = calls
        self._call: Call | None = None
        self.metadata: Metadata = ()
        if shape:
            self._open_streams()

    @classmethod
    def of(cls, calls: ServerConnection, request: Envelope) -> ServerCall:
        """Return the call that a request opens. Raises RemoteProtocolError for a shape that does not exist."""
        call = cls(calls, request.method, request.correlation_id, request.deadline_ns, request.payload, request.streams)
        call.path = request.path
        if request.metadata:
            call.metadata = from_metadata(request.metadata)
        if request.streams:
            call._send_window.add(request.items, request.window)
        return call

    # -- the answerer's side ------------------------------------------------------------------------------------------

    @property
    def call(self) -> Call:
        """The call as a handler sees it; it is over as soon as this one is."""
        with self._lock:
            if self._call is None:
                self._call = Call(
                    self._calls.peer,
                    self.deadline,
                    self.metadata,
                    between_steps=self._calls.between_steps,
                    image_buffer=self._image_buffer if self.shape else None,
                )
                if self._state is _ENDED:
                    self._call.end()
            return self._call

    @property
    def peer(self) -> str:
        """The caller's name, the same for all calls of its connection."""
        return self._calls.peer

    @property
    def image_sink(self) -> ImageSink | None:
        """Where this call's images go; None where they stay in their messages."""
        store = self._calls.images
        if store is None or not self.shape:
            return None if store is None else store.shared
        if self._image_sink is None:
            self._image_sink = store.open()
            if self._state is _ENDED:
                self._image_sink.end(lost=True)
        return self._image_sink

    @property
    def is_over(self) -> bool:
        """True once the call has ended or its deadline has passed: its outcome is not awaited any more."""
        return self._state is _ENDED or (self.deadline is not None and monotonic_ns() >= self.deadline.at_ns)

    @property
    def is_ended(self) -> bool:
        """True once it was answered, or ended by its caller."""
        return self._state is _ENDED

    @property
    def name(self) -> str:
        """The method's full name, for texts and for handlers registered by path."""
        return self.path or name_of(self.method)

    def send_headers(self, metadata: Metadata) -> None:
        """Send metadata ahead of everything else; to be called once, before `send` and `finish`. Never blocks.

        Raises LocalProtocolError when the call has been ended by this side.
        """
        try:
            self._note_sent(Kind.HEADERS)
        except TransportError:
            if self.error is None:
                raise
            return
        headers = Envelope(0, self.correlation_id, Kind.HEADERS, metadata=to_metadata(metadata))
        self._calls.post(encode_envelope(headers), self.correlation_id)

    def finish(
        self,
        payload: bytes = b"",
        *,
        dropped: int = 0,
        trailing: Metadata = (),
        images: Sequence[ImageRef] = (),
    ) -> None:
        """End the call with the response, or after the last item of a stream. Never blocks.

        images: where the response's images lie.

        Raises LocalProtocolError when it has been ended by this side.
        """
        kind = Kind.END if self.shape & _TO_CALLER else Kind.RESPONSE
        if not self._end(kind):
            if images and self.image_sink is not None:
                self.image_sink.take_back(images)
            return
        try:
            if dropped or trailing or images:
                answer = Envelope(
                    0,
                    self.correlation_id,
                    kind,
                    payload=payload,
                    dropped=dropped,
                    images=[ImagePlace(*place) for place in images],
                )
                answer.metadata = to_metadata(trailing)
                self._calls.post(encode_record(answer), self.correlation_id, len(payload))
            else:
                self._calls.post_payload(self.correlation_id, kind, payload)
        finally:
            self._ended(lost=False)  # last: what others do at the end delays no answer

    def fail(self, error: TransportError, *, dropped: int = 0) -> None:
        """End the call with an error that the caller gets as the same class with the same text. Never blocks.

        Nothing is sent when the deadline has passed: the caller ends the call by its own clock.

        Raises LocalProtocolError when it has been ended by this side.
        """
        is_late = isinstance(error, PeerTimeout) and self.deadline is not None and self.deadline.expired
        if not self._end(Kind.ERROR):
            return
        try:
            if not is_late:
                record = encode_envelope(error_envelope(0, self.correlation_id, error, dropped))
                self._calls.post(record, self.correlation_id)
        finally:
            self._ended(lost=False)

    # -- what the caller does (called by the thread that feeds) -------------------------------------------------------

    def on_envelope(self, envelope: Envelope) -> None:
        """Take what the caller sent for this call. Raises RemoteProtocolError for what it may not send."""
        kind = envelope.kind
        if kind is Kind.CANCEL:
            self.lose(Cancelled(f"{self.name} was cancelled by its caller"))
        elif kind is Kind.STREAM_ITEM:
            self.on_item(envelope.payload)
        else:
            self._note_received(kind)
            if kind is Kind.CREDIT:
                self._send_window.add(envelope.items, envelope.window)
            self._wake()

    def abort(self, error: TransportError) -> None:
        """End the call from outside, and tell its caller why; idempotent, never blocks."""
        if self.lose(error):
            self._calls.post(encode_envelope(error_envelope(0, self.correlation_id, error)), self.correlation_id)

    def lose(self, error: TransportError) -> bool:
        """End the call without an answer: its caller is gone or has cancelled. False when it had ended."""
        with self._lock:
            if self._state is _ENDED:
                return False
            self._state = _ENDED
            # The frames of the error and of what led to it hold this call, and with it the memory of its client.
            self.error = copy_error(error, "")
        self._ended(lost=True)
        return True

    # -- within -------------------------------------------------------------------------------------------------------

    def _image_buffer(self, nbytes: int) -> memoryview:
        """Return memory for the call's first image, and have the handler ask the sink itself for all others."""
        sink = self.image_sink
        if sink is None:
            return memoryview(bytearray(nbytes))
        if self._state is not _ENDED:
            self.call.image_buffer = sink.buffer
        return sink.buffer(nbytes)

    def _end(self, kind: Kind) -> bool:
        """Go to the end, to be followed by `_ended`; False when the caller ended the call first."""
        with self._lock:
            if self.error is not None:
                return False
            following = self._sends[self._state].get(kind)
            self._state = following or after(self._sends, self._state, kind, self._what, ours=True)
        return True

    def _ended(self, *, lost: bool) -> None:
        self._calls.forget(self.correlation_id)
        if self.shape and self._image_sink is not None:
            self._image_sink.end(lost=lost)
        if self._call is not None:
            self._call.end()
        if self.shape or self.on_change is not None:
            self._wake()

    def _wake(self) -> None:
        if self.shape:
            with self._changed:
                self._changed.notify_all()
        if self.on_change is not None:
            self.on_change()

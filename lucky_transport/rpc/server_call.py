"""One call as the engine's side answers it.

`recv`, `send`, `finish` and `fail` belong to the thread that answers the call; the caller's cancel, deadline and death
end it from outside, and then `recv` and `send` raise why. `finish` and `fail` never block; only `send` waits, for flow
control and free space. What is done to a call that its caller has ended is dropped. `try_recv` and `try_send` never
wait; `on_news` tells when to try again.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from lucky_transport.call import Call
from lucky_transport.codec.compact import encode_compact
from lucky_transport.codec.envelope import Envelope, ImagePlace, Kind, encode_envelope
from lucky_transport.deadline import Deadline
from lucky_transport.errors import Cancelled, PeerTimeout, TransportError
from lucky_transport.rpc.error_envelope import Metadata, copy_error, error_envelope, from_metadata, name_of, to_metadata
from lucky_transport.rpc.flow_control import EVERY, ReceiveWindow, SendWindow, WindowSize
from lucky_transport.rpc.images import ImageRef, ImageSink
from lucky_transport.rpc.lifecycle import ANSWERER, Shape, StreamEvent, StreamState, after, opened

if TYPE_CHECKING:
    from lucky_transport.rpc.server import ServerCalls

__all__ = ["ServerCall"]

#: Looking up a member of an enumeration takes as long as calling a function.
_ENDED, _ITEM = StreamState.ENDED, int(Kind.STREAM_ITEM)
_SLICE_S = 1.0
#: A wait for images to be given back looks this often whether it is still wanted.
_ROOM_NS = 20_000_000
#: Where sending an item is possible and changes nothing: the table need not be asked.
_MAY_SEND = frozenset(state for state, row in ANSWERER.items() if row.get(StreamEvent.SEND) is state)
#: Where the caller may send items.
_MAY_COME = frozenset(state for state, row in ANSWERER.items() if StreamEvent.PEER_SENDS in row)
#: Where the answer is a stream; a flag's own `&` takes a microsecond.
_TO_CALLER = int(Shape.SERVER_STREAM)
#: Before its first credit a caller may send nothing.
_NOTHING = WindowSize(0, 0, 0, 0)
_LAST: Any = object()
#: What only an answerer may send: for these the table has no row.
_SLIPS = {
    Kind.REQUEST: StreamEvent.PEER_OPENS,
    Kind.RESPONSE: StreamEvent.PEER_RESPONDS,
    Kind.END: StreamEvent.PEER_FINISHES,
    Kind.ERROR: StreamEvent.PEER_FAILS,
    Kind.HEADERS: StreamEvent.PEER_STARTS,
}


class ServerCall:
    """Made by `ServerCalls` for each request.

    method: id, 0 where the caller named it by `path`. shape: which sides are streams, as the caller says. payload: the
    request, b"" where requests are streamed. deadline: None where the caller waits for ever. on_news: called after
    anything came for the call or it ended, on whichever thread noticed; it must neither wait nor use the call.
    """

    __slots__ = (
        "_call",
        "_calls",
        "_changed",
        "_credit",
        "_error",
        "_grant",
        "_image_sink",
        "_inbox",
        "_lock",
        "_metadata",
        "_state",
        "correlation_id",
        "deadline",
        "method",
        "on_news",
        "path",
        "payload",
        "shape",
    )

    def __init__(
        self, calls: ServerCalls, method: int, correlation_id: int, deadline_ns: int, payload: bytes, shape: int = 0
    ) -> None:
        self.method = method
        self.path = ""
        self.correlation_id = correlation_id
        self.payload = payload
        self.shape = shape
        self.on_news: Callable[[], None] | None = None
        self.deadline = Deadline(deadline_ns / 1e9) if deadline_ns else None
        self._state = opened(StreamEvent.PEER_OPENS, shape)
        self._calls = calls
        self._lock = calls.lock
        self._call: Call | None = None
        self._metadata: Metadata = ()
        self._error: TransportError | None = None
        if shape:
            self._changed = threading.Condition()
            self._credit = SendWindow()
            self._inbox: deque[bytes] = deque()
            self._grant: ReceiveWindow | None = None
            self._image_sink: ImageSink | None = None

    @classmethod
    def of(cls, calls: ServerCalls, request: Envelope) -> ServerCall:
        """Return the call that a request opens. Raises RemoteProtocolError for a shape that does not exist."""
        call = cls(calls, request.method, request.correlation_id, request.deadline_ns, request.payload, request.streams)
        call.path = request.path
        if request.metadata:
            call._metadata = from_metadata(request.metadata)
        if request.streams:
            call._credit.add(request.items, request.window)
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
                    self._metadata,
                    between_steps=self._calls.between_steps,
                    image_buffer=self._image_buffer if self.shape else None,
                )
                if self._state is _ENDED:
                    self._call.end()
            return self._call

    @property
    def metadata(self) -> Metadata:
        """What the caller sent along, in its order."""
        return self._metadata

    @property
    def peer(self) -> str:
        """The caller's name, the same for all calls of its connection."""
        return self._calls.peer

    @property
    def half_closed(self) -> bool:
        """True once the caller sends no further item; what came may still be waiting for `recv`."""
        return self._state not in _MAY_COME

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
        """True once nobody waits for the outcome any more."""
        return self._state is _ENDED or (self.deadline is not None and self.deadline.expired)

    @property
    def is_ended(self) -> bool:
        """True once it was answered, or ended by its caller."""
        return self._state is _ENDED

    @property
    def name(self) -> str:
        """The method's full name, for texts and for handlers registered by path."""
        return self.path or name_of(self.method)

    def accept(self) -> ReceiveWindow:
        """Allow the caller to send his first items; `recv` does so when it is called first. Idempotent.

        Before this nothing is granted: who is refused need not send anything.
        """
        if self._grant is None:
            self._grant = ReceiveWindow(EVERY)
            self._give(EVERY.items, EVERY.bytes)
        return self._grant

    def recv(self) -> bytes | None:
        """Return the caller's next item, None after his last and once the call was answered; waits for it.

        Raises Cancelled, PeerTimeout (the call's deadline), PeerDied.
        """
        grant = self._grant or self.accept()
        with self._changed:
            while not self._inbox:
                self._check()
                if self.half_closed:
                    return None
                self._changed.wait(self._patience_s())
            payload = self._inbox.popleft()
        self._renew(grant, len(payload))
        return payload

    def try_recv(self) -> bytes | None:
        """Return the caller's next item if it is here, None when none is."""
        grant = self._grant or self.accept()
        if not self._inbox:
            return None
        payload = self._inbox.popleft()
        self._renew(grant, len(payload))
        return payload

    def _renew(self, grant: ReceiveWindow, length: int) -> None:
        renewed = grant.consumed(length)
        if renewed is not None and self._state is not _ENDED:
            self._give(*renewed)

    def send_headers(self, metadata: Metadata) -> None:
        """Send metadata ahead of everything else; to be called once, before `send` and `finish`. Never blocks.

        Raises LocalProtocolError when the call has been ended by this side.
        """
        try:
            self._go(StreamEvent.START)
        except TransportError:
            if self._error is None:
                raise
            return
        headers = Envelope(0, self.correlation_id, Kind.HEADERS, metadata=to_metadata(metadata))
        self._calls.post(encode_envelope(headers), self.correlation_id)

    def send_all(self, items: Iterator[Any], encode: Callable[[Any], bytes]) -> None:
        """Send the items of a stream without images: each is asked for when the caller can take it.

        Raises what `send` and `wait_for_credit` do, and what items and encoder raise.
        """
        credit, seen, correlation_id = self._credit, self.call, self.correlation_id
        push = self._calls.send_queue.push
        while True:
            # As `wait_for_credit`, and below as `send`, which would be three functions more for each item.
            if (
                credit.spent_items >= credit.granted_items
                or credit.spent_bytes >= credit.granted_bytes
                or self._state is _ENDED
            ):
                self._wait_for_credit()
            item = next(items, _LAST)
            if item is _LAST:
                return
            payload = encode(item)
            if self._state in _MAY_SEND and not seen.dropped and push(_ITEM, correlation_id, payload):
                credit.spent_items += 1
                credit.spent_bytes += len(payload)
            else:
                self.send(payload, seen.dropped)

    def wait_for_credit(self) -> None:
        """Wait until the caller can take one more item. Raises Cancelled, PeerTimeout, PeerDied."""
        credit = self._credit  # as `is_open`, which would be a function more for each item
        if (
            credit.spent_items >= credit.granted_items
            or credit.spent_bytes >= credit.granted_bytes
            or self._state is _ENDED
        ):
            self._wait_for_credit()
        sink = self._image_sink
        while sink is not None and not sink.has_room():
            sink.wait_for_room(min(_ROOM_NS, int(self._patience_s() * 1e9)))
            self._check()

    def _wait_for_credit(self) -> None:
        with self._changed:
            while not self._credit.is_open and self._state is not _ENDED:
                self._check()
                self._changed.wait(self._patience_s())
        self._check()
        if self._state is _ENDED:  # another thread has answered the call meanwhile
            self._go(StreamEvent.SEND)

    def send(self, payload: bytes, dropped: int = 0, images: Sequence[ImageRef] = ()) -> None:
        """Send one item of the stream; waits for credit and room. `dropped`: items skipped so far. `images`: where its
        images lie.

        Raises LocalProtocolError (no stream, or finished), Cancelled, PeerTimeout, PeerDied.
        """
        if self._error is not None or self._state not in _MAY_SEND:
            self._go(StreamEvent.SEND)
        while not self._credit.try_spend(len(payload)):
            self._wait_for_credit()
        send_queue, call = self._calls.send_queue, self.correlation_id
        if len(images) == 1:
            if send_queue.push(_ITEM, call, payload, 0, 0, dropped, images[0]):
                return
        elif not dropped and not images and send_queue.push(_ITEM, call, payload):
            return
        if dropped or images:
            item = Envelope(
                0,
                call,
                Kind.STREAM_ITEM,
                payload=payload,
                dropped=dropped,
                images=[ImagePlace(*place) for place in images],
            )
            record = encode_envelope(item)
        else:
            record = encode_compact(Kind.STREAM_ITEM, call, payload)
        if not send_queue.send(record, call, len(payload), self.deadline, self._is_over_now):
            self._check()

    def try_send(self, payload: bytes) -> bool:
        """As `send`, without waiting; False, and nothing was sent, while the caller can take no more."""
        self._go(StreamEvent.SEND)
        if not self._credit.try_spend(len(payload)):
            return False
        self._calls.post_payload(self.correlation_id, _ITEM, payload)
        return True

    def finish(
        self,
        payload: bytes = b"",
        *,
        dropped: int = 0,
        trailing: Metadata = (),
        images: Sequence[ImageRef] = (),
    ) -> None:
        """End the call well: with the response, or after the last item of a stream. Never blocks.

        images: where the response's images lie.

        Raises LocalProtocolError when it has been ended by this side.
        """
        is_stream = self.shape & _TO_CALLER
        if not self._end(StreamEvent.FINISH if is_stream else StreamEvent.RESPOND):
            if images and self.image_sink is not None:
                self.image_sink.take_back(images)
            return
        kind = Kind.END if is_stream else Kind.RESPONSE
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
                self._calls.post(encode_envelope(answer), self.correlation_id, len(payload))
            else:
                self._calls.post_payload(self.correlation_id, kind, payload)
        finally:
            self._ended(lost=False)  # last: what others do at the end delays no answer

    def fail(self, error: TransportError, *, dropped: int = 0) -> None:
        """End the call with an error that the caller gets as the same class with the same text. Never blocks.

        That the deadline has passed he is not told: his own clock says so, in his own words. Raises LocalProtocolError
        when it has been ended by this side.
        """
        is_late = isinstance(error, PeerTimeout) and self.deadline is not None and self.deadline.expired
        if not self._end(StreamEvent.FAIL):
            return
        try:
            if not is_late:
                record = encode_envelope(error_envelope(0, self.correlation_id, error, dropped))
                self._calls.post(record, self.correlation_id)
        finally:
            self._ended(lost=False)

    # -- what the caller does (called by the thread that feeds) -------------------------------------------------------

    def on_envelope(self, envelope: Envelope) -> None:
        """Take what the caller sent for this call. Raises RemoteProtocolError for what he may not send."""
        kind = envelope.kind
        if kind is Kind.CANCEL:
            self.lose(Cancelled(f"{self.name} was cancelled by its caller"), StreamEvent.PEER_CANCELS)
        elif kind is Kind.STREAM_ITEM:
            self.on_item(envelope.payload)
        elif kind is Kind.HALF_CLOSE:
            self._go(StreamEvent.PEER_HALF_CLOSES)
            self._wake()
        elif kind is Kind.CREDIT:
            self._go(StreamEvent.PEER_GRANTS)
            self._credit.add(envelope.items, envelope.window)
            self._wake()
        else:
            self._go(_SLIPS[kind])

    def on_item(self, payload: bytes) -> None:
        """Take the caller's next item. Raises RemoteProtocolError when none is due or it was not granted."""
        self._go(StreamEvent.PEER_SENDS)
        if not self._calls.takes(self.correlation_id, payload):
            return
        with self._changed:
            if self._grant is None:
                ReceiveWindow(_NOTHING).arrived(len(payload))
            else:
                self._grant.arrived(len(payload))
            self._inbox.append(payload)
            self._changed.notify_all()
        if self.on_news is not None:
            self.on_news()

    def abort(self, error: TransportError) -> None:
        """End the call from outside, and tell its caller why; idempotent, never blocks."""
        if self.lose(error):
            self._calls.post(encode_envelope(error_envelope(0, self.correlation_id, error)), self.correlation_id)

    def lose(self, error: TransportError, event: StreamEvent = StreamEvent.LOSE) -> bool:
        """The caller is gone or has cancelled: end without an answer; False when it had ended."""
        with self._lock:
            if self._state is _ENDED:
                return False
            self._state = after(ANSWERER, self._state, event, self._what)
            self._error = error.with_traceback(None)  # the frames would hold the memory of images
        self._ended(lost=True)
        return True

    # -- within -------------------------------------------------------------------------------------------------------

    def _image_buffer(self, nbytes: int) -> memoryview:
        """Return memory for the call's first image; for the others the handler asks where it lies himself."""
        sink = self.image_sink
        if sink is None:
            return memoryview(bytearray(nbytes))
        self.call.image_buffer = sink.buffer
        return sink.buffer(nbytes)

    def _what(self) -> str:
        return f"call {self.correlation_id} of {self.name}"

    def _is_over_now(self) -> bool:
        return self._state is _ENDED

    def _patience_s(self) -> float:
        return _SLICE_S if self.deadline is None else min(_SLICE_S, self.deadline.remaining_s)

    def _check(self) -> None:
        """Raise why the call is over, if it is."""
        if self._error is not None:
            raise copy_error(self._error, "")
        if self.deadline is not None and self.deadline.expired:
            raise PeerTimeout(f"{self.name}: its caller waited {self.deadline.timeout_s:g} s and no longer")

    def _go(self, event: StreamEvent) -> None:
        with self._lock:
            if event.is_ours and self._error is not None:
                raise copy_error(self._error, "")
            if event.is_ours or self._state is not _ENDED:
                self._state = after(ANSWERER, self._state, event, self._what)

    def _end(self, event: StreamEvent) -> bool:
        """Go to the end, to be followed by `_ended`; False when the caller was there first."""
        with self._lock:
            if self._error is not None:
                return False
            self._state = after(ANSWERER, self._state, event, self._what)
        return True

    def _ended(self, *, lost: bool) -> None:
        self._calls.forget(self.correlation_id)
        if self.shape and self._image_sink is not None:
            self._image_sink.end(lost=lost)
        if self._call is not None:
            self._call.end()
        self._wake()

    def _wake(self) -> None:
        if self.shape:
            with self._changed:
                self._changed.notify_all()
        if self.on_news is not None:
            self.on_news()

    def _give(self, items: int, window: int) -> None:
        credit = Envelope(0, self.correlation_id, Kind.CREDIT, items=items, window=window)
        self._calls.post(encode_envelope(credit), self.correlation_id)

"""The streams of a call at the engine's side: items come and go as the windows of both ends allow."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Protocol

from lucky_transport.codec.envelope import CompactFields, Envelope, ImagePlace, Kind, Record, encode_record
from lucky_transport.errors import PeerTimeout
from lucky_transport.rpc.base_call import BaseCall
from lucky_transport.rpc.error_envelope import copy_error
from lucky_transport.rpc.flow_control import EVERY, ReceiveWindow, SendWindow, WindowSize
from lucky_transport.rpc.images import ImageRef, ImageSink, ImageStore
from lucky_transport.rpc.lifecycle import CLIENT_SENDS, SERVER_SENDS, StreamState
from lucky_transport.rpc.send_queue import SendQueue

#: Looking up a member of an enumeration takes as long as calling a function.
_ENDED, _ITEM = StreamState.ENDED, int(Kind.STREAM_ITEM)
#: A wait checks this often whether the call is over.
_SLICE_S = 1.0
#: A wait for images to be given back checks this often whether it is still wanted.
_IMAGES_SLICE_NS = 20_000_000
#: Where sending an item is possible, and changes nothing: the table need not be asked.
_MAY_SEND = frozenset(state for state, row in SERVER_SENDS.items() if Kind.STREAM_ITEM in row)
#: Where the caller may send items.
_MAY_COME = frozenset(state for state, row in CLIENT_SENDS.items() if Kind.STREAM_ITEM in row)
#: Before its first credit a caller may send nothing.
_NOTHING = WindowSize(0, 0, 0, 0)


class ServerConnection(Protocol):
    """What a call uses of the connection that it belongs to; `ServerCalls` says what each does."""

    peer: str
    lock: threading.Lock
    images: ImageStore | None
    send_queue: SendQueue
    between_steps: Callable[[], AbstractContextManager[object]]

    def post(self, envelope: Record | CompactFields, correlation_id: int = 0, message_bytes: int = 0) -> None: ...

    def post_payload(self, correlation_id: int, kind: int, payload: bytes) -> None: ...

    def takes(self, correlation_id: int, payload: bytes) -> bool: ...

    def forget(self, correlation_id: int) -> None: ...


class ServerItems(BaseCall):
    """Receives and sends the items of one call.

    `recv` and `send` belong to the thread that answers the call. They wait, and raise why the call is over if its
    caller ends it meanwhile. `try_recv` and `try_send` never wait; on_change tells when to try again: it is called
    after anything came for the call or it ended, on the thread that noticed, and must neither wait nor use the call.
    """

    __slots__ = ("_calls", "_changed", "_image_sink", "on_change")
    _sends, _receives = SERVER_SENDS, CLIENT_SENDS
    _calls: ServerConnection
    _receive_window: ReceiveWindow | None
    on_change: Callable[[], None] | None

    def _open_streams(self) -> None:
        """Prepare for items; a unary call has none."""
        self._changed = threading.Condition()
        self._send_window = SendWindow()
        self._inbox = deque()
        self._receive_window = None
        self._image_sink: ImageSink | None = None

    @property
    def half_closed(self) -> bool:
        """True once the caller sends no further item; what came may still be waiting for `recv`."""
        return self._state not in _MAY_COME

    def accept(self) -> ReceiveWindow:
        """Allow the caller to send its first items; `recv` does so when it is called first. Idempotent.

        Nothing is granted before, so that the caller of a refused call need not send anything.
        """
        if self._receive_window is None:
            self._receive_window = ReceiveWindow(EVERY)
            self._post_credit(EVERY.items, EVERY.bytes)
        return self._receive_window

    def recv(self) -> bytes | None:
        """Return the caller's next item, waiting for it; None after the last one and once the call was answered.

        Raises Cancelled, PeerTimeout (the call's deadline), PeerDied.
        """
        window = self._receive_window or self.accept()
        with self._changed:
            while not self._inbox:
                self._check()
                if self.half_closed:
                    return None
                self._changed.wait(self._timeout_s())
        return self._next_item(window)

    def try_recv(self) -> bytes | None:
        """Return the caller's next item if it is here, None when none is."""
        window = self._receive_window or self.accept()
        return self._next_item(window) if self._inbox else None

    def _next_item(self, window: ReceiveWindow) -> bytes:
        payload = self._inbox.popleft()
        if window.consumed(len(payload)) and self._state is not _ENDED:
            self._post_credit(*window.renew())
            window.renewed()
        return payload

    def _post_credit(self, items: int, window: int) -> None:
        self._calls.post(self._credit(items, window), self.correlation_id)

    def wait_for_credit(self) -> None:
        """Wait until the caller can take one more item. Raises Cancelled, PeerTimeout, PeerDied."""
        window = self._send_window  # as its `is_open`, which would be one more function for each item
        if (
            window.spent_items >= window.granted_items
            or window.spent_bytes >= window.granted_bytes
            or self._state is _ENDED
        ):
            self._wait_for_credit()
        sink = self._image_sink
        while sink is not None and not sink.has_room():
            sink.wait_for_room(min(_IMAGES_SLICE_NS, int(self._timeout_s() * 1e9)))
            self._check()

    def _wait_for_credit(self) -> None:
        with self._changed:
            while not self._send_window.is_open and self._state is not _ENDED:
                self._check()
                self._changed.wait(self._timeout_s())
        self._check()
        if self._state is _ENDED:  # another thread has answered the call meanwhile
            self._note_sent(Kind.STREAM_ITEM)

    def send(self, payload: bytes, dropped: int = 0, images: Sequence[ImageRef] = ()) -> None:
        """Send one item of the stream; waits for credit and free space.

        dropped: items skipped so far. images: where the item's images lie.

        Raises LocalProtocolError (no stream, or finished), Cancelled, PeerTimeout, PeerDied.
        """
        if self.error is not None or self._state not in _MAY_SEND:
            self._note_sent(Kind.STREAM_ITEM)
        while not self._send_window.try_spend(len(payload)):
            self._wait_for_credit()
        send_queue, call = self._calls.send_queue, self.correlation_id
        if len(images) == 1 or not (images or dropped):
            image = images[0] if images else None
            if send_queue.push(_ITEM, call, payload, 0, 0, dropped, image):
                return
            envelope: Record | CompactFields = (_ITEM, call, payload, 0, 0, dropped, image)
        else:
            places = [ImagePlace(*place) for place in images]
            envelope = encode_record(
                Envelope(0, call, Kind.STREAM_ITEM, payload=payload, dropped=dropped, images=places)
            )
        if not send_queue.send(envelope, call, len(payload), self.deadline, lambda: self._state is _ENDED):
            self._check()

    def try_send(self, payload: bytes) -> bool:
        """Send one item without waiting; False, and nothing was sent, while the caller can take no more.

        Raises LocalProtocolError (no stream, or finished), Cancelled, PeerDied.
        """
        self._note_sent(Kind.STREAM_ITEM)
        if not self._send_window.try_spend(len(payload)):
            return False
        self._calls.post_payload(self.correlation_id, _ITEM, payload)
        return True

    def on_item(self, payload: bytes) -> None:
        """Take the caller's next item. Raises RemoteProtocolError when none is due or it was not granted."""
        self._note_received(Kind.STREAM_ITEM)
        if not self._calls.takes(self.correlation_id, payload):
            return
        with self._changed:
            (self._receive_window or ReceiveWindow(_NOTHING)).arrived((payload,))
            self._inbox.append(payload)
            self._changed.notify_all()
        if self.on_change is not None:
            self.on_change()

    def _timeout_s(self) -> float:
        """Return how long a wait may last before it checks whether the call is over."""
        return _SLICE_S if self.deadline is None else min(_SLICE_S, self.deadline.remaining_s)

    def _check(self) -> None:
        """Raise why the call is over, if it is."""
        if self.error is not None:
            raise copy_error(self.error, "")
        if self.deadline is not None and self.deadline.expired:
            raise PeerTimeout(f"{self.name}: its caller waited {self.deadline.timeout_s:g} s and no longer")

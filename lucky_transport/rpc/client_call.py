"""One call of any shape, as its caller sees it.

It ends once. The state and the error change under the lock; whom that concerns is told afterwards (`_notify_end`):
    what ends it                          at                      the engine is told   what came before it
    the engine: a response, end, error    on_response, _on_end                         is read first
    the connection; a record refused      on_error                                     is read first
    the deadline, also of one `send`      expire, send            CANCEL               is read first, if no stream
    the caller                            fail, cancel            CANCEL               is dropped
A signal handler may raise anywhere in that. `_is_abort_done` has the next `_abort` tell what the last one did not, and
`_has_read_end` keeps `fail` from changing an end that the caller has seen.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, Protocol

from lucky_transport.codec.envelope import CompactFields, Envelope, Kind, Record, encode_compact
from lucky_transport.deadline import Deadline
from lucky_transport.errors import Cancelled, PeerTimeout, StatusError, TransportError
from lucky_transport.rpc.base_call import BaseCall
from lucky_transport.rpc.completion_thread import NO_GROUP, CompletionThread
from lucky_transport.rpc.error_envelope import Metadata, copy_error, error_in, from_metadata, name_of
from lucky_transport.rpc.flow_control import ReceiveWindow, SendWindow, WindowSize
from lucky_transport.rpc.leader_followers import LeaderFollowers
from lucky_transport.rpc.lifecycle import CLIENT_SENDS, SERVER_SENDS, StreamState
from lucky_transport.rpc.send_queue import SendQueue

#: Looking up a member of an enumeration takes as long as calling a function.
_ENDED, _ITEM = StreamState.ENDED, int(Kind.STREAM_ITEM)
#: Where an item may come, and changes nothing: the table need not be asked.
_MAY_COME = frozenset(state for state, row in SERVER_SENDS.items() if Kind.STREAM_ITEM in row)
#: Records read at once by a thread that waits for items.
_BATCH = 64


class ClientConnection(Protocol):
    """What a call uses of the connection that it belongs to; `ClientCalls` says what each does."""

    backend: str
    send_queue: SendQueue
    waiters: LeaderFollowers

    def post(self, envelope: Record | CompactFields, correlation_id: int = 0, message_bytes: int = 0) -> None: ...

    def send(
        self,
        envelope: Record | CompactFields,
        correlation_id: int,
        message_bytes: int,
        deadline: Deadline | None,
        is_over: Callable[[], bool],
    ) -> bool: ...

    def late(self, method: int | str, deadline: Deadline) -> PeerTimeout: ...

    def forget(self, correlation_id: int) -> None: ...

    def note_answered(self, method: int | str, correlation_id: int) -> None: ...


class ClientCall(BaseCall):
    """Made by `ClientCalls.open`. dropped: items the engine skipped so far. trailing: metadata that came with the end.

    `send`, `half_close` and `recv` belong to one thread each, which may be two; `cancel` to any. What came before the
    end is returned before the end, except after `cancel` and, as in gRPC, items of a stream after its deadline. The
    call's deadline ends the call, a deadline given to `recv` or `send` only that wait.

    headers: metadata that came before all else; None until something came. has_started: something came before the end.
    on_change: called after anything came for the call or it ended here, on the thread that noticed: time for another
    `try_recv` or `try_send`. It must not wait and not make calls. gates: for `LeaderFollowers`. completion_thread: its.
    """

    _sends, _receives = CLIENT_SENDS, SERVER_SENDS
    _receive_window: ReceiveWindow
    is_named = False  # the server knew the method's number before
    group = NO_GROUP
    _has_read_end = False  # `recv` has returned None, or raised why the call ended
    _is_abort_done = True  # the engine and all who wait are told, unless a signal handler interrupted `_abort`

    def __init__(
        self,
        calls: ClientConnection,
        correlation_id: int,
        method: int | str,
        state: StreamState,
        window: WindowSize,
        deadline: Deadline | None,
    ) -> None:
        # Reentrant: a finalizer may cancel in the middle of anything.
        super().__init__(correlation_id, state, deadline, threading.RLock(), calls.backend)
        self.dropped = 0
        self.headers: Metadata | None = None
        self.has_started = False
        self.trailing: Metadata = ()
        self.on_change: Callable[[], None] | None = None
        self.gates: list[Any] = []
        self.completion_thread: CompletionThread | None = None
        self._calls = calls
        self._method = method
        self._streams = state in (StreamState.OPEN_MANY, StreamState.HALF_CLOSED_MANY)
        self._inbox = deque()
        self._receive_window = ReceiveWindow(window)
        self._send_window = SendWindow()

    # -- the caller's side --------------------------------------------------------------------------------------------

    def is_ended(self) -> bool:
        """True once nothing more comes from the engine; what came may still be waiting for `recv`."""
        return self._state is _ENDED

    def has_news(self) -> bool:
        """True when `recv` returns or raises at once."""
        return bool(self._inbox) or self._state is _ENDED

    def recv(self, deadline: Deadline | None = None) -> bytes | None:
        """Return the next item, or the response; None after the last. Over a connection with an `ImageSource` it is a
        `Claim` where images came with it.

        Raises the error that ended the call (the engine's, PeerTimeout, PeerDied, Cancelled), or PeerTimeout at
        `deadline`.
        """
        inbox, window = self._inbox, self._receive_window
        if not inbox and self._state is not _ENDED:
            if window.is_due:  # its grant was interrupted
                self._renew()
            if not self._wait(ClientCall.has_news, deadline):
                raise self._too_late(deadline)
        if inbox and self.deadline is not None:
            self._drop_late_items()
        if inbox:
            payload = inbox[0]
            length = len(payload)
            window.consumed_items += 1  # as `consumed`, which would be one more function for each item
            window.consumed_bytes += length
            if (
                2 * window.consumed_items >= window.window_items or 2 * window.consumed_bytes >= window.window_bytes
            ) and self._state is not _ENDED:
                try:
                    self._renew()
                except BaseException:  # a signal handler's: the item stays, and counts when it is taken
                    window.consumed_items -= 1
                    window.consumed_bytes -= length
                    raise
            if inbox:  # else `cancel` has dropped it
                del inbox[0]  # no signal handler runs between this and the caller's assignment
                return payload
        self._has_read_end = True
        if self.error is not None:
            raise copy_error(self.error, self._backend)
        return None

    def _renew(self) -> None:
        """Allow the engine to send more."""
        self._calls.post(self._credit(*self._receive_window.renew()))
        self._receive_window.renewed()

    def try_recv(self) -> bytes | None:
        """Return the next item, or the response, if it is here; None when nothing is."""
        if self._inbox:
            self._drop_late_items()
        return self.recv() if self._inbox else None

    def _drop_late_items(self) -> None:
        if self._streams and self.deadline is not None and self.deadline.expired:
            self.fail(self._calls.late(self._method, self.deadline))

    def wait_headers(self) -> None:
        """Wait until `headers` are known or the call has ended."""
        self._wait(ClientCall._has_headers, None)

    def wait_end(self, deadline: Deadline | None = None) -> bool:
        """Wait until the call has ended; False at `deadline`."""
        return self._wait(ClientCall.is_ended, deadline)

    def send(self, payload: bytes, deadline: Deadline | None = None) -> None:
        """Send one item; waits until the engine takes it.

        Raises LocalProtocolError after `half_close` or the end, the error that ended the call, PeerTimeout.
        """
        self._note_sent(Kind.STREAM_ITEM)
        item = (_ITEM, self.correlation_id, payload, 0, 0, 0, None)
        until = _earlier(self.deadline, deadline)
        while not self._send_window.try_spend(len(payload)):
            if not self._wait(ClientCall._may_send, deadline):
                raise self._too_late(deadline)
            if self.is_ended():
                self._note_sent(Kind.STREAM_ITEM)
        # Half an item may be under way, and what followed could not be understood: then the call ends.
        try:
            is_sent = self._calls.send(item, self.correlation_id, len(payload), until, self.is_ended)
        except BaseException:
            self.cancel()
            raise
        if not is_sent:
            if not self._abort(self._calls.late(self._method, until or Deadline(0))):
                self._post_cancel()
            self._note_sent(Kind.STREAM_ITEM)

    def try_send(self, payload: bytes) -> bool:
        """Send one item without waiting; False, and nothing was sent, while the engine takes no more items.

        Raises LocalProtocolError after `half_close` or the end, the error that ended the call.
        """
        self._note_sent(Kind.STREAM_ITEM)
        if not self._send_window.try_spend(len(payload)):
            return False
        try:
            self._calls.post((_ITEM, self.correlation_id, payload, 0, 0, 0, None), self.correlation_id, len(payload))
        except BaseException:  # a signal handler's: as in `send`
            self.cancel()
            raise
        return True

    def half_close(self) -> None:
        """Say that no further item comes. Raises LocalProtocolError when that was said, or the end's error."""
        try:
            self._note_sent(Kind.HALF_CLOSE)
            self._calls.post(encode_compact(Kind.HALF_CLOSE, self.correlation_id, b""))
        except TransportError:
            raise
        except BaseException:  # a signal handler's: the engine may not know, and to say it twice is an error
            self.cancel()
            raise

    def cancel(self) -> None:
        """`fail`, with Cancelled."""
        self.fail(Cancelled(f"{self.name} was cancelled", backend=self._backend))

    def fail(self, error: TransportError) -> None:
        """End the call from any thread: `recv` and `send` raise this error, also where more had come.

        No effect once `recv` has returned None or raised why the call ended.
        """
        if self._abort(error) or not self._has_read_end:
            self.error = error
            self._inbox.clear()

    def expire(self) -> None:
        """End the call if its deadline has passed."""
        if self.deadline is not None and self.deadline.expired:
            self._abort(self._calls.late(self._method, self.deadline))

    def __enter__(self) -> ClientCall:
        return self

    def __exit__(self, *exception: object) -> None:
        self.cancel()

    # -- what the engine sends (called by the thread that reads) ------------------------------------------------------

    def is_done(self) -> bool:
        """True once no record for this call is expected."""
        return self._state is _ENDED

    def on_item(self, payload: Any, dropped: int) -> None:
        """Take a stream item. Raises RemoteProtocolError when none is due or it was not granted."""
        self._take_items((payload,), dropped)

    def on_items(self, payloads: list[bytes]) -> None:
        """Take several stream items; raises as for one."""
        self._take_items(payloads, 0)

    def on_response(self, payload: Any, trailing: Metadata) -> None:
        """Take the response. Raises RemoteProtocolError when none is due."""
        with self._lock:
            if self._state is not _ENDED:
                following = self._after_receiving(Kind.RESPONSE)
                self.trailing = trailing
                self._state = following
                self._inbox.append(payload)
        self._notify_end()

    def on_envelope(self, envelope: Envelope) -> None:
        """Take any other envelope for this call."""
        kind = envelope.kind
        if kind is Kind.STREAM_ITEM:
            self.on_item(envelope.payload, envelope.dropped)
        elif kind is Kind.RESPONSE:
            self.on_response(envelope.payload, from_metadata(envelope.metadata))
        elif kind is Kind.CREDIT:
            self._note_received(kind)
            self._calls.waiters.redo = None  # from here on it may not be done again
            self._send_window.granted_items += envelope.items
            self._send_window.granted_bytes += envelope.window
            self._notify()
        elif kind is Kind.HEADERS:
            self._note_received(kind)
            self.headers = from_metadata(envelope.metadata)
            self.has_started = True
            self._notify()
        else:
            self._on_end(envelope)

    def on_error(self, error: TransportError) -> None:
        """The connection has ended, or what came could not be taken."""
        with self._lock:
            if self._state is not _ENDED:
                self._set_ended(error)
        self._notify_end()

    def _take_items(self, payloads: Sequence[Any], dropped: int) -> None:
        with self._lock:
            if self._state is _ENDED:
                return
            if self._state not in _MAY_COME:
                self._state = self._after_receiving(Kind.STREAM_ITEM)
            if dropped > self.dropped:
                self.dropped = dropped
            if self.headers is None:
                self.headers = ()
            self.has_started = True
            self._receive_window.arrived(payloads)
            self._calls.waiters.redo = None  # from here on it may not be done again
            self._inbox.extend(payloads)
        if self.on_change is not None:
            self.on_change()

    def _on_end(self, envelope: Envelope) -> None:
        with self._lock:
            if self._state is not _ENDED:
                following = self._after_receiving(envelope.kind)
                self.dropped = max(self.dropped, envelope.dropped)
                if envelope.kind is Kind.ERROR:
                    self._set_ended(error_in(envelope))
                else:
                    self.trailing = from_metadata(envelope.metadata)
                    self._state = following
        self._notify_end()

    # -- within -------------------------------------------------------------------------------------------------------

    @property
    def name(self) -> str:
        return name_of(self._method)

    def _has_headers(self) -> bool:
        return self.headers is not None or self._state is _ENDED

    def _may_send(self) -> bool:
        return self._send_window.is_open or self._state is _ENDED

    def _wait(self, is_ready: Callable[[ClientCall], bool], deadline: Deadline | None) -> bool:
        """Wait until then; False when `deadline` came first. The call's own deadline ends the call instead."""
        until = deadline if self.deadline is None else _earlier(self.deadline, deadline)
        if self._calls.waiters.wait(self, is_ready, until, _BATCH):
            return True
        self.expire()
        return self._state is _ENDED

    def _abort(self, error: TransportError) -> bool:
        """End the call for this reason and tell the engine; False when it had ended."""
        with self._lock:
            is_first = self._state is not _ENDED
            if is_first:
                self._set_ended(error)
                self._is_abort_done = False
        if not self._is_abort_done:
            self._calls.forget(self.correlation_id)
            self._post_cancel()
            self._calls.waiters.wake(self)
            self._notify_end()
            self._is_abort_done = True
        return is_first

    def _set_ended(self, error: TransportError) -> None:
        """End with this error; the lock is held."""
        self.error = error
        if isinstance(error, StatusError):
            self.trailing = error.trailing
        self._state = _ENDED

    def _notify(self) -> None:
        if self.on_change is not None:
            self.on_change()

    def _notify_end(self) -> None:
        if self.headers is None:
            self.headers = ()
        if self.error is None and not self.is_named:
            self._calls.note_answered(self._method, self.correlation_id)
        self._notify()
        if self.completion_thread is not None:
            self.completion_thread.note_end(self)

    def _post_cancel(self) -> None:
        self._calls.send_queue.post_from_finalizer(encode_compact(Kind.CANCEL, self.correlation_id, b""))

    def _too_late(self, deadline: Deadline | None) -> TransportError:
        if self.error is not None:
            return copy_error(self.error, self._backend)
        return self._calls.late(self._method, deadline or self.deadline or Deadline(0))


def _earlier(one: Deadline | None, other: Deadline | None) -> Deadline | None:
    if one is None or other is None:
        return one or other
    return one if one.at_ns <= other.at_ns else other

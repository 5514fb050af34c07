"""The state of one call on the client: not begun, under way, ended, over.

A call is over when it has ended and its caller has taken every response before the end, as in gRPC.
"""

from __future__ import annotations

import contextvars
import threading
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

from lucky_transport.deadline import Deadline
from lucky_transport.errors import StatusError, TransportError
from lucky_transport.rpc.client import ClientCalls
from lucky_transport.rpc.client_call import ClientCall
from lucky_transport.rpc.error_envelope import Metadata
from lucky_transport.uninterrupted import Latch, uninterrupted
from lucky_transport_grpc.kept_threads import run_on_kept_thread
from lucky_transport_stubs.client.callbacks import Callbacks
from lucky_transport_stubs.client.ended import status_at_end
from lucky_transport_stubs.client.link import CLOSED, OF_THE_PARENT, Link
from lucky_transport_stubs.words.credentials import Fetch
from lucky_transport_stubs.words.messages import Messages
from lucky_transport_stubs.words.metadata import within_limit
from lucky_transport_stubs.words.retries import Retries
from lucky_transport_stubs.words.status import LATE, CallStatus, Code, error_of, status_of

__all__ = ["CallState", "Opening", "credentials_metadata"]

#: Begins a call, or another attempt of it, on the connection that there is, with the metadata of its credentials.
Opening = Callable[[ClientCalls, Metadata], ClientCall]

_DROPPED = CallStatus(Code.CANCELLED, "Cancelled upon garbage collection!")


def credentials_metadata(
    fetch: Fetch | None, link: Link, deadline: Deadline | None, is_wanted: Callable[[], bool] = lambda: True
) -> Metadata:
    """Return what the credentials add to a call over the link; waits for them. Raises StatusError."""
    found = () if fetch is None else fetch.wait(deadline, lambda: is_wanted() and not link.is_closed)
    if found is None:
        raise error_of(CLOSED.code, CLOSED.details)
    return found


class CallState:
    """A call over `link`. streams: responses are a stream, else there is one, the result.

    A deadline, a cancel and a closed channel end it at once. It does not hold the object that the caller has, so
    that object's finalizer can call `drop`. status: None until the call is over.
    """

    def __init__(self, link: Link, messages: Messages, deadline: Deadline | None, streams: bool) -> None:
        self.deadline = deadline
        self.status: CallStatus | None = None
        self.result: Any = None
        self._link = link
        self._forks = link.forks
        self._messages = messages
        self._streams = streams
        self._calls: ClientCalls | None = None
        self._call: ClientCall | None = None
        self._retries: Retries | None = None
        self._attempt: ClientCall | None = None  # the present one of a call that is not committed to it
        self._beginning: Latch | None = None  # set once it has begun; made for one that waits for that
        self._ahead: bytes | None = None  # a response that was taken early to see whether it is the last
        self._callbacks = Callbacks()
        self._is_attended = False  # by another thread than the caller's: only for callbacks
        self._lock = threading.RLock()  # reentrant: a finalizer may end calls in the middle of anything
        self._taking = threading.Lock()  # one thread at a time takes responses

    # -- begin and end ------------------------------------------------------------------------------------------------

    def begin(
        self,
        opening: Opening,
        wait_for_ready: bool | None,
        fetch: Fetch | None = None,
        retries: Retries | None = None,
    ) -> None:
        """Begin the call at once or, if it shall wait for an engine, when there is one. Raises why it cannot begin.

        fetch: gets the metadata of its credentials, once there is an engine. retries: its attempts; a thread makes
        them, and the call has begun once it is committed to one of them.
        """
        if retries is not None:
            self._retries = retries
            self._begin_later(self._begin_when_committed, opening, fetch, bool(wait_for_ready), retries)
            return
        calls = self._link.current()
        if calls is None and not wait_for_ready:
            calls = self._link.reach(self.deadline)
        more = () if fetch is None else fetch.fixed
        if calls is None or more is None:
            self._begin_later(self._begin_when_ready, calls, opening, fetch)
        else:
            self._open(calls, opening, more)

    def end(self, status: CallStatus, result: Any = None) -> bool:
        """The call is over; False when it was before."""
        with self._lock:
            if self.status is not None:
                return False
            self.result, self.status = result, status
            is_attended = self._is_attended
        if self._retries is not None and self._retries.is_committed:
            self._retries.after(status)
        if self._beginning is not None:
            self._beginning.set()
        if not is_attended:
            self._callbacks.run()
        return True

    def fail(self, status: CallStatus) -> bool:
        """End the call, for the engine too; False when it was over."""
        was_first = self.end(status)
        call = self._call or self._attempt
        if was_first and call is not None:
            call.cancel()
        return was_first

    def drop(self) -> None:
        """End a call that is no longer referenced, if it goes on. For finalizers."""
        if not self._is_inherited():
            self.fail(_DROPPED)

    def _begin_later(self, begin: Callable[..., None], *arguments: Any) -> None:
        self._beginning = Latch()
        context = contextvars.copy_context()  # an iterator over requests runs in its caller's context
        run_on_kept_thread(partial(context.run, begin, *arguments))

    def _begin_when_ready(self, calls: ClientCalls | None, opening: Opening, fetch: Fetch | None) -> None:
        try:
            calls = calls or self._link.reach(self.deadline, wait_for_ready=True, is_wanted=self._is_wanted)
            more = credentials_metadata(fetch, self._link, self.deadline, self._is_wanted)
            self._open(calls, opening, more)
        except TransportError as error:
            self.end(self._link.status_of(error))

    def _begin_when_committed(
        self, opening: Opening, fetch: Fetch | None, wait_for_ready: bool, retries: Retries
    ) -> None:
        """Make attempts until the call is committed to one of them, or over."""
        while self.status is None:
            try:
                calls = self._link.current() or self._link.reach(
                    self.deadline, wait_for_ready=wait_for_ready, is_wanted=self._is_wanted
                )
                self._attempt = call = opening(
                    calls, credentials_metadata(fetch, self._link, self.deadline, self._is_wanted)
                )
            except TransportError as error:
                status, calls, call = self._link.status_of(error), None, None
            else:
                if not self._is_wanted():
                    call.cancel()
                    return
                retries.begins()
                call.wait_headers()
                if call.has_started or call.error is None:
                    retries.commit()
                status = None if call.error is None else self._link.status_of(call.error)
            is_over = status is None or retries.is_committed or self._link.is_closed
            delay_s = None if is_over or status is None else retries.after(status)
            if delay_s is not None and self._link.pause(delay_s, self.deadline, self._is_wanted):
                continue
            if delay_s is not None:
                self.end(LATE)
            elif call is None or calls is None:
                self.end(status or LATE)
            else:
                self._opened(calls, call)
            return

    def _is_wanted(self) -> bool:
        return self.status is None

    def _open(self, calls: ClientCalls, opening: Opening, more: Metadata) -> None:
        call = opening(calls, more)
        try:
            self._opened(calls, call)
        except BaseException:  # a signal handler's: nobody else knows the call
            call.cancel()
            raise

    def _opened(self, calls: ClientCalls, call: ClientCall) -> None:
        with self._lock:
            self._calls, self._call = calls, call
            is_over = self.status is not None
            if self._callbacks and not is_over:
                self._attend()
        if is_over:
            call.cancel()
        if self._beginning is not None:
            self._beginning.set()

    def _is_inherited(self) -> bool:
        """True in a forked child for a call of the parent."""
        return self._forks != self._link.forks

    # -- polling and waiting ------------------------------------------------------------------------------------------

    def poll(self) -> bool:
        """Find out, without waiting, whether the call is over."""
        if self.status is None:
            if self._is_inherited():
                self.end(OF_THE_PARENT)
            elif self._is_late_stream():
                self.fail(LATE)
            elif self._calls is not None and self._call is not None:
                self._calls.pump()
                self._call.expire()
                if self._call.is_ended():
                    self._settle(self._call)
        return self.status is not None

    def wait(self, timeout: float | None = None) -> bool:
        """Wait until the call is over; False when that took longer than `timeout` seconds."""
        if self.poll():
            return True
        deadline = None if timeout is None else Deadline(max(timeout, 0.0))
        call = self._begun(deadline)
        if call is not None:
            call.wait_end(deadline)
        if self.poll():
            return True
        if deadline is not None and deadline.expired:
            return False
        over = Latch()  # it has ended, and there are responses to be taken
        return not self.add_callback(over.set) or over.wait(None if deadline is None else deadline.remaining_s)

    def headers(self) -> Metadata:
        """Return the metadata that came first; waits for them, or the end."""
        call = None if self._is_inherited() else self._begun()
        if call is None:
            return ()
        call.wait_headers()
        return within_limit(call.headers or ())

    def _begun(self, deadline: Deadline | None = None) -> ClientCall | None:
        """Return the call once it has begun; None when it was over before, and at the deadline."""
        if self._call is None and self._beginning is not None:
            self._beginning.wait_for(
                lambda: self._call is not None or self.status is not None,
                None if deadline is None else deadline.remaining_s,
            )
        return self._call

    def _is_late_stream(self) -> bool:
        """True when the deadline cuts off responses that were not taken; a single one that is here counts."""
        return self._streams and self.deadline is not None and self.deadline.expired

    def _settle(self, call: ClientCall) -> None:
        """The call has ended: it is over, unless there are responses to be taken."""
        if call.error is not None and self._link.is_closed:
            self.end(self._link.status_of(call.error))
            return
        held = False
        try:
            [held] = uninterrupted(self._taking.acquire, False)
            if held:  # else the thread that takes responses finds the end
                if self._ahead is None:
                    self._ahead = call.try_recv()
                if self._ahead is None or not self._streams:
                    self._conclude(call)
        finally:
            if held:
                self._taking.release()

    def _conclude(self, call: ClientCall) -> None:
        """The call has ended and every response was taken."""
        status, result = status_at_end(call, self._link.status_of), None
        if status.code is Code.OK and not self._streams:
            try:
                result = self._messages.response(self._ahead or b"")
            except StatusError as error:
                status = replace(status_of(error), trailing=status.trailing)
        self.end(status, result)

    # -- responses ----------------------------------------------------------------------------------------------------

    def take(self) -> Any:
        """Return the next response of a stream, waiting for it; None when the call is over.

        Raises ValueError for a call with one response.
        """
        if not self._streams:
            raise ValueError("a call with one response is no iterator: use result()")
        if self._is_inherited():
            self.end(OF_THE_PARENT)
            return None
        with self._taking:
            payload = self._take()
        if payload is None:
            return None
        try:
            return self._messages.response(payload)
        except StatusError as error:
            self.fail(status_of(error))
            return None

    def _take(self) -> bytes | None:
        if self.deadline is not None and self._is_late_stream():
            self.fail(LATE)
        call = self._call or self._begun()
        if self.status is not None or call is None:
            return None
        if self._ahead is not None:
            payload, self._ahead = self._ahead, None
            return payload
        try:
            payload = call.recv()
        except TransportError:  # the call knows why
            payload = None
        if payload is None:
            self._conclude(call)
        return payload

    # -- callbacks ----------------------------------------------------------------------------------------------------

    def add_callback(self, callback: Callable[[], Any]) -> bool:
        """Have `callback()` called when the call is over; False, and no call, when it is already."""
        self.poll()
        with self._lock:
            if self.status is not None:
                return False
            self._callbacks.add(callback)
            self._attend()
        return True

    def _attend(self) -> None:
        """Have a thread see to the call's end. The lock is held."""
        if self._calls is not None and self._call is not None and not self._is_attended:
            self._is_attended = True
            self._calls.on_end(self._call, self._call_back)

    def _call_back(self) -> None:
        """The call has ended: call back, or leave that to the thread that takes the last response."""
        self.poll()
        with self._lock:
            self._is_attended = False
            is_over = self.status is not None
        if is_over:
            self._callbacks.run()

"""A call in threads: it waits for what its `CallMachine` asks for, and its caller waits for it.

    word        meaning
    begun       `begin` was called; what an attempt needs may still have to be waited for
    attempt     one opening of the call at the engine; retries make further ones
    committed   no attempt follows the present one
    ended       of an attempt: nothing more comes for it; responses that came before may be left to be taken
    peeked      of a response: taken out of the attempt to see whether it is the last one, and kept for the caller
    over        the call has its status, for good; after an attempt that has ended, once its responses were taken
    watched     the completion thread tells of the attempt's end, and runs the callbacks then

    state                   status    _attempt     _committed, _connection    _peeked         _begun (1)
    not begun               None      None         None                       None            None
    waits for an attempt    None      None (2)     None                       None            not set
    attempt open            None      present      None                       None            not set
    committed               None      present      attempt, its connection    None            set
    ended, responses left   None      present      attempt, its connection    next one (3)    set
    over                    present   any          any                        any             set

    (1) A latch; None throughout where `begin` did all on its caller's thread.
    (2) Or the one before, which has failed.
    (3) Once `advance` has looked; a call with one response is over then.

What ends a call:

    from                               at              the call is over
    the machine: no attempt opened     _do             with that status (`end`)
    the program, an interceptor        fail            with that status, and the engine is told
    the finalizer of the caller's      drop            as after `fail`, with CANCELLED
    the committed attempt has ended    _end_if_taken   where no response is left: advance, wait, the completion thread
    its responses were all taken       _end_as         with what the attempt ended with: take, _end_if_taken

    thread                             runs
    the caller's                       all public methods; a finalizer or a signal handler in the middle of any
    a kept thread                      _go_on: what `begin` would have to wait for, and the attempts after that
    the completion thread              _on_completion, where there are callbacks

`_lock` guards the status with its result, `_committed` with `_connection`, and the callbacks. `_taking` guards
`_peeked` and the taking of responses, and `advance` does not wait for it.
"""

from __future__ import annotations

import contextvars
import threading
from collections.abc import Callable
from typing import Any

from lucky_transport.deadline import Deadline
from lucky_transport.errors import StatusError, TransportError
from lucky_transport.rpc.client import ClientCalls
from lucky_transport.rpc.client_call import ClientCall
from lucky_transport.rpc.error_envelope import Metadata
from lucky_transport.uninterrupted import Latch, uninterrupted
from lucky_transport_grpc.kept_threads import run_on_kept_thread
from lucky_transport_stubs.client.call_machine import Action, CallMachine, Connect, FetchMetadata, Finish, Open, Pause
from lucky_transport_stubs.client.callbacks import Callbacks
from lucky_transport_stubs.client.link import Link
from lucky_transport_stubs.client.prepared import PreparedCall
from lucky_transport_stubs.client.reach import CLOSED, OF_THE_PARENT
from lucky_transport_stubs.words.credentials import Fetch
from lucky_transport_stubs.words.messages import Messages
from lucky_transport_stubs.words.metadata import within_limit
from lucky_transport_stubs.words.status import LATE, CallStatus, Code, error_of, status_of

#: Opens a call, or another attempt of it.
Opening = Callable[[Open], ClientCall]

_DROPPED = CallStatus(Code.CANCELLED, "Cancelled upon garbage collection!")


def wait_for(
    action: Connect | FetchMetadata | Pause,
    machine: CallMachine,
    link: Link,
    deadline: Deadline | None,
    is_wanted: Callable[[], bool] = lambda: True,
) -> Action:
    """Do what a call needs before it can be opened, while it is wanted; waits. Return what the machine answers."""
    try:
        if isinstance(action, Connect):
            calls = link.current() or link.reach(deadline, wait_for_ready=action.is_patient, is_wanted=is_wanted)
            return machine.connected(calls)
        if isinstance(action, FetchMetadata):
            return machine.fetched(credentials_metadata(action.fetch, link, deadline, is_wanted))
        is_in_time = link.pause(action.seconds, deadline, is_wanted)
        return machine.begin(link.current()) if is_in_time else Finish(LATE)
    except TransportError as error:
        return machine.failed(error)


def credentials_metadata(
    fetch: Fetch, link: Link, deadline: Deadline | None, is_wanted: Callable[[], bool] = lambda: True
) -> Metadata:
    """Return what the credentials add to a call over the link; waits for them. Raises StatusError."""
    found = fetch.wait(deadline, lambda: is_wanted() and not link.is_closed)
    if found is None:
        raise error_of(CLOSED.code, CLOSED.details)
    return found


class CallState:
    """A call over `link`. streams: responses are a stream, else there is one, the result.

    A deadline, a cancel and a closed channel end it at once. It does not hold the object that the caller has, so
    that object's finalizer can call `drop`.
    """

    def __init__(
        self, link: Link, prepared: PreparedCall, messages: Messages, deadline: Deadline | None, streams: bool
    ) -> None:
        self.deadline = deadline
        self.result: Any = None
        self._machine = CallMachine(prepared, link.standing.status_of)
        self._link = link
        self._forks = link.forks
        self._messages = messages
        self._streams = streams
        # Which of these are set, and when: see the table of states.
        self._attempt: ClientCall | None = None
        self._committed: ClientCall | None = None
        self._connection: ClientCalls | None = None  # of `_committed`
        self._begun: Latch | None = None  # set once the call is committed or over
        self._peeked: bytes | None = None
        self._callbacks: Callbacks | None = None  # made for the first one
        self._lock = threading.RLock()  # reentrant: a finalizer may end calls in the middle of anything
        self._taking = threading.Lock()  # one thread at a time takes responses

    @property
    def status(self) -> CallStatus | None:
        """How the call ended; None until it is over."""
        return self._machine.status

    # -- begin and end ------------------------------------------------------------------------------------------------

    def begin(self, opening: Opening) -> None:
        """Begin the call: here, up to what it has to wait for; a thread does that and the rest."""
        action: Action | None = self._machine.begin(self._link.current())
        while action is not None and not self._has_to_wait(action):
            action = self._do(action, opening)
        if action is not None:
            self._begun = Latch()
            context = contextvars.copy_context()  # an iterator over requests runs in its caller's context
            run_on_kept_thread(lambda: context.run(self._go_on, action, opening))

    def end(self, status: CallStatus, result: Any = None) -> bool:
        """The call is over; False when it was before."""
        with self._lock:
            if self._machine.status is None:
                self.result = result
            was_first = self._machine.end(status)
            callbacks = self._callbacks
            runs_here = callbacks is not None and not callbacks.is_watched
        if self._machine.status is status:  # also where a signal handler interrupted what follows, and this is repeated
            if self._begun is not None:
                self._begun.set()
            if callbacks is not None and runs_here:
                callbacks.run()
        return was_first

    def fail(self, status: CallStatus) -> bool:
        """End the call, for the engine too; False when it was over. To repeat it makes up for an interrupted one."""
        was_first = self.end(status)
        if self._attempt is not None and self._machine.status is status:
            self._attempt.cancel()
        return was_first

    def drop(self) -> None:
        """End a call that is no longer referenced, if it goes on. For finalizers."""
        status = self._machine.status or _DROPPED
        if status.code is not Code.OK and not self._is_inherited():
            self.fail(status)

    def _has_to_wait(self, action: Action) -> bool:
        if isinstance(action, (Connect, Open)) and not self._machine.is_committed:
            return True  # for what comes of the attempt
        return isinstance(action, FetchMetadata) or (isinstance(action, Connect) and action.is_patient)

    def _go_on(self, action: Action | None, opening: Opening) -> None:
        while action is not None:
            action = self._do(action, opening)

    def _do(self, action: Action, opening: Opening) -> Action | None:
        """Do what the machine says; return what it says next, None for a call that is under way or over."""
        if isinstance(action, Finish):
            self.end(action.status)
            return None
        if isinstance(action, Open):
            return self._open(action, opening)
        return wait_for(action, self._machine, self._link, self.deadline, self._is_wanted)

    def _is_wanted(self) -> bool:
        return self._machine.status is None

    def _open(self, action: Open, opening: Opening) -> Action | None:
        call = None
        try:
            self._attempt = call = opening(action)
            if not self._machine.is_committed and self._is_wanted():
                call.wait_headers()
                following = self._machine.news(call)
                if following is not None:
                    return following
            self._commit(action.connection, call)
        except TransportError as error:
            return self._machine.failed(error)
        except BaseException:  # a signal handler's: nobody else knows the call
            if call is not None:
                call.cancel()
            raise
        return None

    def _commit(self, calls: ClientCalls, call: ClientCall) -> None:
        """No attempt follows this one, which may be left of a call that is over."""
        with self._lock:
            self._connection, self._committed = calls, call
            is_over = self._machine.status is not None
            if self._callbacks is not None and not is_over:
                self._watch(self._callbacks)
        if is_over:
            call.cancel()
        if self._begun is not None:
            self._begun.set()

    def _is_inherited(self) -> bool:
        """True in a forked child for a call of the parent."""
        return self._forks != self._link.forks

    # -- the end, and waiting for it ----------------------------------------------------------------------------------

    def advance(self) -> bool:
        """Take in what has come, without waiting; True when the call is over."""
        if self._machine.status is None:
            if self._is_inherited():
                self.end(OF_THE_PARENT)
            elif self._connection is not None and self._committed is not None:
                self._connection.pump()
                self._committed.expire()
                if self._committed.is_ended():
                    self._end_if_taken(self._committed)
            elif self._is_late_stream():
                self.fail(LATE)
        return self._machine.status is not None

    def wait(self, timeout: float | None = None) -> bool:
        """Wait until the call is over; False when that took longer than `timeout` seconds."""
        if self.advance():
            return True
        deadline = None if timeout is None else Deadline(max(timeout, 0.0))
        call = self._committed_call(deadline)
        if call is not None:
            call.wait_end(deadline)
        if self.advance():
            return True
        if deadline is not None and deadline.expired:
            return False
        over = Latch()  # the attempt has ended, and there are responses to be taken
        return not self.add_callback(over.set) or over.wait(None if deadline is None else deadline.remaining_s)

    def headers(self) -> Metadata:
        """Return the metadata that came first; waits for them, or the end."""
        call = None if self._is_inherited() else self._committed_call()
        if call is None:
            return ()
        call.wait_headers()
        return within_limit(call.headers or ())

    def _committed_call(self, deadline: Deadline | None = None) -> ClientCall | None:
        """Return the committed attempt, waiting for it; None when the call is over before, and at the deadline."""
        if self._committed is None and self._begun is not None:
            self._begun.wait_for(
                lambda: self._committed is not None or self._machine.status is not None,
                None if deadline is None else deadline.remaining_s,
            )
        return self._committed

    def _is_late_stream(self) -> bool:
        """True when the deadline cuts off responses that were not taken; a single one that is here counts."""
        return self._streams and self.deadline is not None and self.deadline.expired

    def _end_if_taken(self, call: ClientCall) -> None:
        """The committed attempt has ended: the call is over, unless there are responses to be taken."""
        if call.error is not None and self._link.is_closed:
            self.end(self._link.standing.status_of(call.error))
            return
        held = False
        try:
            [held] = uninterrupted(self._taking.acquire, False)
            if held and self._machine.status is None:  # else the thread that takes responses finds the end, or has
                if self._peeked is None:
                    self._peeked = call.try_recv()
                if self._peeked is not None and self._is_late_stream():
                    self.fail(LATE)
                elif self._peeked is None or not self._streams:
                    self._end_as(call)
        finally:
            if held:
                self._taking.release()

    def _end_as(self, call: ClientCall) -> None:
        """The committed attempt has ended and every response was taken: the call is over, with its status."""
        status, result = self._machine.ended_with(call), None
        if status.code is Code.OK and not self._streams:
            try:
                result = self._messages.response(self._peeked or b"")
            except StatusError as error:
                status = status_of(error)._replace(trailing=status.trailing)
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
        if self.deadline is not None and self.deadline.expired:
            self.advance()
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
        call = self._committed or self._committed_call()
        if self._machine.status is not None or call is None:
            return None
        if self._peeked is not None:
            payload, self._peeked = self._peeked, None
            return payload
        try:
            payload = call.recv()
        except TransportError:  # the call knows why
            payload = None
        if payload is None:
            self._end_as(call)
        return payload

    # -- callbacks ----------------------------------------------------------------------------------------------------

    def add_callback(self, callback: Callable[[], Any]) -> bool:
        """Have `callback()` called when the call is over; False, and no call, when it is already."""
        self.advance()
        with self._lock:
            if self._machine.status is not None:
                return False
            if self._callbacks is None:
                self._callbacks = Callbacks()
            self._callbacks.add(callback)
            self._watch(self._callbacks)
        return True

    def _watch(self, callbacks: Callbacks) -> None:
        """Have the completion thread see to the call's end, once it is committed. The lock is held."""
        if self._connection is not None and self._committed is not None and not callbacks.is_watched:
            callbacks.is_watched = True
            self._connection.on_end(self._committed, lambda: self._on_completion(callbacks))

    def _on_completion(self, callbacks: Callbacks) -> None:
        """The attempt has ended: call back, or leave that to the thread that takes the last response."""
        self.advance()
        with self._lock:
            callbacks.is_watched = False
            is_over = self._machine.status is not None
        if is_over:
            callbacks.run()

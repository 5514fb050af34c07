"""How an asyncio call stands: nothing known, its initial metadata known, ended with a status; and who waits for that.

    what comes               method      what follows
    the initial metadata     _start      who waits for them goes on
    a status                 _finish     _let_go, the done callbacks in the caller's context, then _answer
    a cancel, gRPC's error   _end        the same, but what a callback raises reaches whoever cancels

With its status the initial metadata are known too, empty where none came. Everything happens on the
loop's thread, but for the end of a call that is no longer referenced.
"""

from __future__ import annotations

import asyncio
import contextvars
import time
from collections.abc import Callable
from typing import Any

from lucky_transport.rpc.event_loop import LoopCondition
from lucky_transport_grpc.runtime import grpc
from lucky_transport_stubs.client.call_machine import CallMachine
from lucky_transport_stubs.grpc_inside import RpcStatus
from lucky_transport_stubs.words.metadata import metadata_of
from lucky_transport_stubs.words.status import CallStatus

_Code = grpc.StatusCode


class AioCallState:
    """The part of a call that its caller asks; `deadline` is a moment on the clock of `time.time`, None for never.

    The names are those of grpc's compiled call, which this is a half of.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, machine: CallMachine, deadline: float | None) -> None:
        self._loop = loop
        self._machine = machine
        self._deadline = deadline
        self._changed = LoopCondition(loop)
        self._shown: Any = None  # the status as grpc has it, once it was asked for
        self._initial_metadata: tuple[Any, ...] | None = None
        self._response: asyncio.Future[bytes | None] | None = None  # of a call with one
        self._peeked: bytes | None = None  # the response; or a message that was taken to see whether it is the last
        self._is_locally_cancelled = False
        self._done_callbacks: list[Callable[[], object]] = []
        self._context = contextvars.copy_context()  # the caller's: who brings the status has another's

    def done(self) -> bool:
        """True once the call has a status."""
        return self._machine.status is not None

    def is_ok(self) -> bool:
        """True once it has ended well, and nobody cancelled it just then: grpc.aio 1.60 has no response then."""
        return self._code() is _Code.OK and not self._is_locally_cancelled

    def cancelled(self) -> bool:
        """True once it has ended as CANCELLED, whichever side did it."""
        return self._code() is _Code.CANCELLED

    def is_locally_cancelled(self) -> bool:
        """True once we cancelled it."""
        return self._is_locally_cancelled

    async def status(self) -> Any:
        """Return the status; waits for it."""
        await self._changed.until(self.done)
        return self._status

    async def initial_metadata(self) -> tuple[Any, ...]:
        """Return the initial metadata; waits for them."""
        await self._changed.until(self._has_started)
        assert self._initial_metadata is not None
        return self._initial_metadata

    def time_remaining(self) -> float | None:
        """Return the seconds until the deadline, None where there is none."""
        return None if self._deadline is None else max(0, self._deadline - time.time())

    def add_done_callback(self, callback: Callable[[], object]) -> None:
        """Have `callback()` called when there is a status, at once if there is."""
        if self.done():
            callback()
        else:
            self._done_callbacks.append(callback)

    def cancel(self, details: str) -> None:
        """End the call as cancelled by us."""
        self._is_locally_cancelled = True
        status = CallStatus(_Code.CANCELLED, details)
        try:
            self._end(status, RpcStatus(status.code.value[0], details, None, None))
        finally:
            self._answer()

    def set_internal_error(self, error_str: str) -> None:
        """End the call as INTERNAL, unless it is known why it ended."""
        status = CallStatus(_Code.INTERNAL, "Internal error from Core")
        try:
            self._end(status, RpcStatus(_Code.INTERNAL.value[0], status.details, (), error_str))
        finally:
            self._answer()

    async def _responded(self, response: asyncio.Future[bytes | None]) -> bytes | None:
        """Return the one response at the end, None for none; raises what a done callback raised, as gRPC does."""
        try:
            return await response
        except asyncio.CancelledError:
            self._is_locally_cancelled = True  # also where the call has just ended: nobody awaits that any more
            raise

    def __repr__(self) -> str:
        if not self.done():
            return "<_AioCall object>"  # the name of grpc's
        text = f'status = {self._code()}\n\tdetails = "{self._status.details()}"'
        if not self.is_ok():
            text += f'\n\tdebug_error_string = "{self._status.debug_error_string()}"'
        return f"<_AioCall of RPC that terminated with:\n\t{text}\n>"

    @property
    def _status(self) -> Any:
        """The status as grpc has it, None before the end."""
        status = self._machine.status
        if self._shown is None and status is not None:
            trailing = metadata_of(status.trailing)
            self._shown = RpcStatus(status.code.value[0], status.details, trailing, status.debug_error_string)
        return self._shown

    def _code(self) -> Any:
        status = self._machine.status
        return None if status is None else status.code

    def _has_started(self) -> bool:
        return self._initial_metadata is not None

    def _start(self, metadata: tuple[Any, ...]) -> None:
        """The initial metadata have come."""
        if self._initial_metadata is None:
            self._initial_metadata = metadata
            if self._changed.waiters:
                self._changed.notify()

    def _finish(self, status: CallStatus) -> None:
        """The call has ended with this status; no effect when it had before."""
        try:
            self._context.run(self._end, status)
        except (KeyboardInterrupt, SystemExit):
            raise
        except BaseException as error:  # a callback's; as in gRPC it stops the others, and not who brings the status
            if self._response is None:
                text = "Exception in a done callback of a call"
                self._loop.call_exception_handler({"message": text, "exception": error})
            elif not self._response.done():
                self._response.set_exception(error)
        finally:
            self._answer()

    def _end(self, status: CallStatus, shown: Any = None) -> None:
        """The call is over; no effect when it was before. shown: the status as grpc has it where that says less."""
        if not self._machine.end(status):
            return
        self._shown = shown
        self._let_go()
        if self._initial_metadata is None:
            self._initial_metadata = ()
        if self._changed.waiters:
            self._changed.notify()
        callbacks, self._done_callbacks = self._done_callbacks, []
        for callback in callbacks:
            callback()

    def _answer(self) -> None:
        """Tell who waits for the response; called at least once, after the callbacks."""
        if self._response is not None and not self._response.done():
            self._response.set_result(self._peeked)

    def _let_go(self) -> None:
        """Release what the call holds; called once, when it has ended."""

"""Drives one engine for any number of servers, as a batch or agent by agent; knows no transport.

One lock guards the engine: every step, bind and engine-side handler happens under it. The first client that steps or
resets takes the lease, and others get Busy until it is released. The engine is bound to the driver's buffers, so it
writes the driver's own memory in place and no other client touches the arrays of a step.
"""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from typing import Any, TypeVar

from lucky_transport.call import Call, check_stream, check_unary, deadline_error
from lucky_transport.engine import Buffers, CallHandler, Engine, Handler, StreamHandler
from lucky_transport.errors import (
    Busy,
    Cancelled,
    ClosedError,
    PeerTimeout,
    TransportError,
    Unimplemented,
    raise_wire_error,
)
from lucky_transport.foreign_code import foreign_code, run_unwaited
from lucky_transport.host.agents import Agents
from lucky_transport.host.engine_lock import EngineLock, nothing
from lucky_transport.host.lease import Lease
from lucky_transport.host.service_switch import ServiceSwitch
from lucky_transport.host.slots import ObservationSlots, OnDemand, OnHost, SlotWriter
from lucky_transport.host.task import task_handlers
from lucky_transport.interceptors.engine_side import EngineInterceptors
from lucky_transport.messages.methods import METHODS, Method, Runs
from lucky_transport.sessions.service import session_handlers
from lucky_transport.sessions.sessions import Sessions
from lucky_transport.uninterrupted import uninterrupted

__all__ = ["Host", "Lease", "PlainHandler"]

R = TypeVar("R")

_log = logging.getLogger("lucky_transport")
#: Time for the engine's thread to wake and to get the interpreter.
_WAKE_S = 100e-6


class Host:
    """One engine, ready to be driven. `close` ends the engine.

    handlers: those of its unary methods, by full method name. sessions: those of the engine's worlds, None if it has
    none. agents: its envs, stepped one by one in typed calls. lock: held while the engine is used. switch: which
    services are answered.
    """

    def __init__(self, engine: Engine) -> None:
        self.spec = engine.spec
        self._engine = engine
        self.lock = EngineLock()
        self._lease: Lease | None = None
        self._closed = False
        self._interceptors: EngineInterceptors | None = None
        self._buffers = Buffers.allocate(self.spec)
        self._writer: SlotWriter | None = None  # of a driver with several observation slots
        self._on_demand = OnDemand(engine) if OnDemand.is_for(engine) else None
        with foreign_code(self.spec.engine, "what it offers"):
            self._streams: Mapping[str, StreamHandler] = engine.streams
            worlds, calls = engine.worlds, engine.call_handlers
            plain = {**task_handlers(self.spec), **engine.services}
        self.sessions = Sessions(worlds, self.spec.engine) if worlds is not None else None
        self._pooled = frozenset(calls)
        self.handlers: Mapping[str, CallHandler] = {
            **{name: PlainHandler(handler) for name, handler in plain.items()},
            **calls,
            **(session_handlers(self.sessions) if self.sessions is not None else {}),
        }
        with foreign_code(self.spec.engine, "bind"):
            self._stepped.bind(self._buffers)
        self.agents = Agents(self)
        own = self.agents.handlers(self.handlers)
        self.handlers = {**self.handlers, **own}
        self._pooled -= own.keys()
        self.switch = ServiceSwitch(self.spec.engine, filter(self.implements, METHODS))

    def intercept(self, interceptors: EngineInterceptors) -> None:
        """Put interceptors around all handlers, streams and steps; once, before the host is served."""
        self.handlers = interceptors.handlers(self.handlers)
        self._streams = interceptors.streams(self._streams)
        self._interceptors = interceptors

    def runs(self, method: Method) -> Runs:
        """Return where the method's handler runs: as its row says, in the pool where the engine waits elsewhere."""
        return Runs.POOL if method.name in self._pooled else method.runs

    @property
    def engine(self) -> Engine:
        """The engine itself, for the process that owns it; call it only between steps."""
        return self._engine

    @property
    def _stepped(self) -> Engine | OnDemand:
        """The engine as it is bound and stepped."""
        return self._on_demand or self._engine

    @property
    def parallel_envs(self) -> int:
        """In how many envs the engine can be at the same time, 0 where envs step together only, as they do behind
        interceptors, which see whole steps, and where arrays come from or to the host on demand.
        """
        together = self.is_intercepted or self._on_demand is not None
        return 0 if together else min(self._engine.parallel_envs, self.spec.num_envs)

    @property
    def is_intercepted(self) -> bool:
        """True where interceptors see what the engine is given and what it answers."""
        return self._interceptors is not None

    @property
    def driver(self) -> str:
        """The name of the client that holds the lease, "" if none does."""
        lease = self._lease
        return lease.owner if lease else ""

    def drive(
        self,
        owner: str,
        buffers: Buffers,
        *,
        slots: ObservationSlots | None = None,
        device: OnHost | None = None,
        is_idle: Callable[[], bool] | None = None,
        interrupt: Callable[[], None] | None = None,
    ) -> Lease:
        """Take the lease: from now on the engine reads from and writes to `buffers`, which show the last frame at once.

        slots: the observations of each frame go into the slot whose turn it is; `buffers` are those of the first.
        device: says in each step which arrays the driver has in device memory instead.
        is_idle: while it returns True, another client may take the lease over (a legacy client cannot release it).
        interrupt: asks a driver whose loop keeps the lock between steps (`Lease.step_parts`) for the engine; that loop
        then releases the lock after its present step and calls `EngineLock.yield_to_waiters`.

        Raises Busy naming the present driver, ClosedError once the host is closed.
        """
        with self.lock:
            if self._closed:
                raise ClosedError("the engine is closing", backend=self.spec.engine)
            if self._lease is not None and not self._lease.is_idle():
                raise Busy(
                    f"engine {self.spec.engine!r} is driven by {self._lease.owner}",
                    backend=self.spec.engine,
                    hint="close that client first, or start another engine",
                )
            if self._lease is not None:
                self._lease.valid = False
            self._last_frame().copy_frame_to(buffers)
            with foreign_code(self.spec.engine, "bind"):
                writer = None if slots is None else SlotWriter(self._stepped, slots)
                if writer is None:
                    self._stepped.bind(buffers)
            self._buffers, self._writer = buffers, writer
            self.lock.interrupt = interrupt or nothing
            step = self._stepped.step if writer is None else writer.step
            if self._on_demand is not None:
                self._on_demand.driver = device or OnHost()
            if self._interceptors is not None:
                step = self._interceptors.step(step, self._last_frame)
            self._lease = Lease(self.release, owner, self.lock, self.spec.engine, step, buffers, is_idle or _never)
            return self._lease

    def stream(self, method: Method, request: Any, call: Call) -> Generator[Any]:
        """Return the items of a server stream; the handler runs on the thread that asks for them.

        Raises (when an item is asked for) LocalProtocolError (no stream), Unimplemented (also once its service is
        switched off), EngineFailed, PeerTimeout (the call's deadline), or the TransportError the handler chose. It ends
        when the call does.
        """
        check_stream(method)
        if call.is_over:
            raise self._over(method, call)
        handler = self._streams.get(method.name)
        if handler is None:
            raise self._unimplemented(method)
        with foreign_code(self.spec.engine, method.name):
            yield from self.switch.stream(method, call, lambda: handler(request, call))
        # A handler that was asked after the deadline and does not know of it has come to its own end.
        if call.deadline is not None and call.deadline.expired and (call.knows_end or not call.asked_late):
            raise self._late(method, call)

    @contextmanager
    def between_steps(self) -> Generator[None]:
        """Hold the engine while no step runs, for a handler; elsewhere `while_still` survives a signal's exception.

        A thread that made the engine wait lets it step first afterwards: its own work can wait, a step cannot.
        """
        has_waited = not self.lock.acquire(False)
        if has_waited:
            self.lock.enter()
        try:
            yield
        finally:
            self.lock.release()
            if has_waited:
                time.sleep(_WAKE_S)

    def while_still(self, act: Callable[[bool], R], timeout_s: float = -1) -> R:
        """Return what `act(held)` does while no step runs; held: False when one still ran after `timeout_s`."""
        held = has_waited = False
        try:
            [held] = uninterrupted(self.lock.acquire, False)
            has_waited = not held
            held = held or self.lock.enter(timeout_s)
            return act(held)
        finally:
            if held:
                self.lock.release()
            if has_waited:
                time.sleep(_WAKE_S)

    def release(self, lease: Lease) -> None:
        """Give the lease back; the engine is bound to memory of its own again. No effect on a lease that was lost."""
        with self.lock:
            if self._lease is not lease:
                return
            self._lease = None
            self.lock.interrupt = nothing  # it holds the driver's memory
            lease.valid = False
            own = Buffers.allocate(self.spec)
            self._last_frame().copy_frame_to(own)
            run_unwaited(f"bind of engine {self.spec.engine!r}", self._stepped.bind, own)
            self._buffers, self._writer = own, None

    def _last_frame(self) -> Buffers:
        """Return the buffers that show the last frame."""
        if self._on_demand is not None:
            run_unwaited(f"to_host of engine {self.spec.engine!r}", self._on_demand.catch_up)
        return self._buffers if self._writer is None else self._writer.buffers

    def implements(self, method: Method) -> bool:
        """True when the engine has an answer to `method`, whether or not its service is switched off."""
        return method.name in (self.handlers if method.stream is None else self._streams)

    def call(self, method: Method, request: Any, call: Call | None = None) -> Any:
        """Return the engine's response; runs between two steps unless the method is declared otherwise.

        call: the caller and its deadline; None for this process, without a deadline, whatever is switched off. Raises
        LocalProtocolError (a stream), Unimplemented, PeerTimeout, Cancelled, EngineFailed (the handler raised), or the
        TransportError the handler chose.
        """
        if method.stream is not None:
            check_unary(method)
        if call is None:
            call = Call(f"this process, {os.getpid()}")
        elif method.name in self.switch.refused:
            self.switch.check(method)
        if call.is_over:
            raise self._over(method, call)
        handler = self.handlers.get(method.name)
        if handler is None:
            raise self._unimplemented(method)
        try:
            if self.runs(method) is not Runs.ENGINE:
                return handler(request, call)
            held = False
            try:
                held = self.lock.enter(-1 if call.deadline is None else call.deadline.remaining_s)
                if held:
                    return handler(request, call)
            finally:
                if held:
                    self.lock.release()
            raise self._late(method, call)
        except BaseException as error:  # a handler is foreign code and may raise anything
            raise_wire_error(self.spec.engine, method.name, error)

    def leave(self, caller: str) -> None:
        """End what the calls of a client that has gone left behind: its lease and terms, the sessions that it owned."""
        self.agents.leave(caller)
        run_unwaited(f"leave of engine {self.spec.engine!r}", self._engine.leave, caller)
        if self.sessions is not None:
            self.sessions.leave(caller)

    def _unimplemented(self, method: Method) -> Unimplemented:
        return Unimplemented(f"engine {self.spec.engine!r} does not implement {method.name}", backend=self.spec.engine)

    def _over(self, method: Method, call: Call) -> TransportError:
        if call.deadline is not None and call.deadline.expired:
            return self._late(method, call)
        return Cancelled(f"{method.name} was cancelled", backend=self.spec.engine)

    def _late(self, method: Method, call: Call) -> PeerTimeout:
        timeout_s = call.deadline.timeout_s if call.deadline is not None else 0.0
        return deadline_error(method.name, timeout_s, self.spec.engine)

    def close(self, timeout_s: float = 5.0) -> None:
        """End the engine, and what its clients ask of it with ClosedError; idempotent.

        Waits up to `timeout_s` for a step in progress, then leaves the engine open.
        """
        self.switch.close()
        if self.sessions is not None:
            self.sessions.close()

        def end(held: bool) -> None:
            if not held:
                _log.warning("engine %r is still in a step after %s s; not closed", self.spec.engine, timeout_s)
            elif not self._closed:
                self._closed = True
                if self._lease is not None:
                    self._lease.close()
                    self._lease = None
                with foreign_code(self.spec.engine, "close"):
                    self._engine.close()

        self.while_still(end, timeout_s)


def _never() -> bool:
    return False


class PlainHandler:
    """A `CallHandler` that does not need to know its call: `handle` takes the request alone."""

    __slots__ = ("handle",)

    def __init__(self, handle: Handler) -> None:
        self.handle = handle

    def __call__(self, request: Any, call: Call) -> Any:
        return self.handle(request)

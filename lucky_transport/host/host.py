"""Drives one engine for any number of servers.

Rule 1: one lock guards the engine; every step, bind and engine-side handler happens under it.
Rule 2: one driver. Who steps or resets first takes the lease; others get Busy until it is released.
Rule 3: the engine is bound to the buffers of whoever drives it, so the driver's own memory is written in place and no
        other client can touch the arrays of a step.
Rule 4: this file knows no transport.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lucky_transport.call import Call
from lucky_transport.engine import RESET, Buffers, Engine, Handler, StreamHandler
from lucky_transport.errors import Busy, ClosedError, EngineFailed, TransportError, Unimplemented
from lucky_transport.host.task import task_handlers
from lucky_transport.messages.methods import Method, Runs

__all__ = ["Host", "Lease"]

_log = logging.getLogger("lucky_transport")
#: How long a driver steps aside at most, and how often it looks whether it still has to.
_LET_IN_S = 0.05
_NAP_S = 20e-6


class Host:
    """One engine, ready to be driven. `close` ends the engine."""

    def __init__(self, engine: Engine) -> None:
        self.spec = engine.spec
        self._engine = engine
        self._lock = threading.RLock()
        self._waiting = threading.Lock()
        self._waiters = 0
        self._interrupt: Callable[[], None] = _nothing
        self._lease: Lease | None = None
        self._closed = False
        self._buffers = Buffers.allocate(self.spec)
        self._handlers: Mapping[str, Handler] = {**task_handlers(self.spec), **engine.services}
        self._streams: Mapping[str, StreamHandler] = engine.streams
        engine.bind(self._buffers)

    @property
    def engine(self) -> Engine:
        """The engine itself, for the process that owns it (call it only between steps)."""
        return self._engine

    @property
    def driver(self) -> str:
        """Who holds the lease, "" when nobody does."""
        lease = self._lease
        return lease.owner if lease else ""

    def drive(
        self,
        owner: str,
        buffers: Buffers,
        *,
        is_idle: Callable[[], bool] | None = None,
        interrupt: Callable[[], None] | None = None,
    ) -> Lease:
        """Take the lease: from now on the engine reads from and writes to `buffers`, which show the last frame at once.

        `is_idle` lets others take the lease over while it answers True (a legacy client cannot say goodbye).
        `interrupt` asks a driver whose loop keeps the lock between steps (`Lease.parts`) for the engine: it then gives
        the lock back after its present step and calls `let_others_in`.
        Raises Busy naming the present driver, ClosedError once the host is closed.
        """
        with self._turn():
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
            self._buffers.copy_frame_to(buffers)
            self._engine.bind(buffers)
            self._buffers = buffers
            self._interrupt = interrupt or _nothing
            self._lease = Lease(self, owner, self._lock, self._engine, buffers, is_idle or _never)
            return self._lease

    def stream(self, method: Method, request: Any, call: Call) -> Iterator[Any]:
        """Return the items of a server stream; the handler runs on the thread that asks for them.

        Raises (when the first item is asked for) Unimplemented, EngineFailed, or the TransportError the handler chose.
        """
        handler = self._streams.get(method.name)
        if handler is None:
            raise Unimplemented(
                f"engine {self.spec.engine!r} does not implement {method.name}", backend=self.spec.engine
            )
        try:
            yield from handler(request, call)
        except TransportError:
            raise
        except Exception as error:  # a handler is foreign code and may raise anything
            raise _failure(self.spec.engine, method.name, error) from error

    def between_steps(self) -> AbstractContextManager[object]:
        """The engine to oneself while no step runs, for a stream's look at the world."""
        return self._turn()

    @contextmanager
    def _turn(self, timeout_s: float = -1) -> Generator[bool]:
        """The engine to oneself, between two steps; False when it did not come within `timeout_s`."""
        held = self._lock.acquire(blocking=False)
        if not held:
            with self._waiting:
                self._waiters += 1
            try:
                self._interrupt()
                held = self._lock.acquire(timeout=timeout_s)
            finally:
                with self._waiting:
                    self._waiters -= 1
        try:
            yield held
        finally:
            if held:
                self._lock.release()

    def let_others_in(self) -> None:
        """Give way to threads that wait for the engine: who takes a lock at once again would keep them out for ever."""
        if self._waiters:
            end = time.monotonic() + _LET_IN_S
            while self._waiters and time.monotonic() < end:
                time.sleep(_NAP_S)

    def release(self, lease: Lease) -> None:
        """Give the lease back; the engine is bound to memory of its own again. No effect on another's lease."""
        with self._turn():
            if self._lease is not lease:
                return
            self._lease = None
            lease.valid = False
            own = Buffers.allocate(self.spec)
            self._buffers.copy_frame_to(own)
            self._engine.bind(own)
            self._buffers = own

    def implements(self, method: Method) -> bool:
        """True when the engine answers `method`."""
        return method.name in (self._handlers if method.stream is None else self._streams)

    def call(self, method: Method, request: Any) -> Any:
        """Return the engine's response; runs between two steps unless the method is declared inline.

        Raises Unimplemented, EngineFailed (the handler raised), or the TransportError the handler chose.
        """
        handler = self._handlers.get(method.name)
        if handler is None:
            raise Unimplemented(
                f"engine {self.spec.engine!r} does not implement {method.name}", backend=self.spec.engine
            )
        try:
            if method.runs is Runs.ENGINE:
                with self._turn():
                    return handler(request)
            return handler(request)
        except TransportError:
            raise
        except Exception as error:  # a handler is foreign code and may raise anything
            raise _failure(self.spec.engine, method.name, error) from error

    def close(self, timeout_s: float = 5.0) -> None:
        """End the engine; idempotent. A step in progress is waited for, an engine that hangs in one is left to exit."""
        with self._turn(timeout_s) as held:
            if not held:
                _log.warning("engine %r is still in a step after %s s; not closed", self.spec.engine, timeout_s)
            elif not self._closed:
                self._closed = True
                if self._lease is not None:
                    self._lease.valid = False
                    self._lease = None
                self._engine.close()


class Lease:
    """The right to step the engine; held by one driver at a time. `valid` is False once it was lost."""

    __slots__ = ("_acquire", "_buffers", "_engine", "_engine_step", "_host", "_release", "is_idle", "owner", "valid")

    def __init__(
        self,
        host: Host,
        owner: str,
        lock: threading.RLock,
        engine: Engine,
        buffers: Buffers,
        is_idle: Callable[[], bool],
    ) -> None:
        self.owner = owner
        self.is_idle = is_idle
        self.valid = True
        self._host = host
        self._acquire = lock.acquire  # bound once: entering a `with` block costs as much as a whole fast step
        self._release = lock.release
        self._engine = engine.spec.engine
        self._engine_step = engine.step
        self._buffers = buffers

    @property
    def parts(self) -> tuple[Callable[[None], None], Callable[[], object], Callable[[], None]]:
        """The engine's step and the host's lock, for a server whose own loop calls acquire, step(None), release.

        Only for a lease that nobody can take over (`is_idle` not given) and that can be interrupted, while it is held.
        """
        return self._engine_step, self._acquire, self._release

    def failure(self, error: Exception) -> TransportError:
        """Return what a client is told when the engine's step raised `error`."""
        return error if isinstance(error, TransportError) else _failure(self._engine, "step", error)

    def step(self, control: NDArray[np.uint8] | None = None) -> None:
        """Do one exchange: afterwards the driver's buffers hold the frame.

        Raises EngineFailed when the engine raised (the frame is then undefined), Busy when the lease was lost.
        """
        self._acquire()
        try:
            if not self.valid:
                raise Busy(
                    f"engine {self._engine!r} is no longer driven by {self.owner}",
                    backend=self._engine,
                    hint="connect again",
                )
            self._engine_step(control)
            if control is not None:
                self._clear_outcomes(control)
        except TransportError:
            raise
        except Exception as error:  # an engine is foreign code and may raise anything
            raise self.failure(error) from error
        finally:
            self._release()

    def _clear_outcomes(self, control: NDArray[np.uint8]) -> None:
        """Zero reward, flags and signals of reset envs: no engine, ticking or not, rewards a reset."""
        reset = (control & RESET) != 0
        buffers = self._buffers
        buffers.rewards[reset] = 0
        buffers.terminated[reset] = 0
        buffers.truncated[reset] = 0
        buffers.signals[:, reset] = 0

    def release(self) -> None:
        """Let somebody else drive; idempotent."""
        self._host.release(self)


def _never() -> bool:
    return False


def _nothing() -> None:
    pass


def _failure(engine: str, what: str, error: Exception) -> EngineFailed:
    return EngineFailed(f"engine {engine!r} failed in {what}: {type(error).__name__}: {error}", backend=engine)

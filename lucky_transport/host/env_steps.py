"""Steps the envs of one engine on their own, several at the same time, for the driver that has the lease."""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from enum import Enum
from queue import Empty, SimpleQueue

from lucky_transport.engine import RESET
from lucky_transport.errors import TransportError, to_wire_error
from lucky_transport.host.host import Host
from lucky_transport.host.lease import Lease
from lucky_transport.uninterrupted import start_thread

_log = logging.getLogger("lucky_transport")

#: Called on a thread of the pool: this env has ended its step; the error of one that failed.
Done = Callable[[int, TransportError | None], None]


class _Event(Enum):
    IDLE = "no env is in a step any more"
    WANTED = "another thread wants the engine"
    CLOSED = "no env is stepped any more"


class EnvSteps:
    """A pool of threads, and one more that holds the engine's lock for as long as any of them is in the engine.

    Envs begin in the order in which they were sent, so each of them has its turn. Threads that wait for the engine are
    let in between: envs that have begun end first, others begin afterwards. It gives the lease back when it ends.
    """

    def __init__(self, host: Host, lease: Lease, done: Done) -> None:
        self._engine, self._lock, self._lease, self._done = host.engine, host.lock, lease, done
        self._most = host.parallel_envs
        self._name = host.spec.engine
        self._events: SimpleQueue[_Event | list[tuple[int, int]]] = SimpleQueue()
        #: begin(envs): have these (env, control) stepped (0) or reset (RESET) when their turn comes; from any thread.
        #: It is a function of C, which no signal handler divides.
        self.begin: Callable[[list[tuple[int, int]]], None] = self._events.put
        self._begun: SimpleQueue[tuple[int, int] | None] = SimpleQueue()
        self._waiting: deque[tuple[int, int]] = deque()
        self._under_way = 0  # begun and not ended
        self._counting = threading.Lock()
        self._closed = False
        self._has_lease = True
        self._pool: list[threading.Thread] = []
        self._keeper = threading.Thread(target=self._run, name=f"env steps of {self._name}", daemon=True)
        try:
            start_thread(self._keeper)
        except BaseException:  # a signal handler's: the thread may run; the lease stays with the caller
            self._has_lease = False
            self._events.put(_Event.CLOSED)
            raise

    def close(self, timeout_s: float = 5.0) -> None:
        """Begin no more steps, and wait so long for those that have begun; idempotent."""
        self._events.put(_Event.CLOSED)
        self._keeper.join(timeout_s)
        if self._keeper.is_alive():
            _log.warning("envs of engine %r are still in a step after %s s", self._name, timeout_s)

    def _run(self) -> None:
        try:
            while self._await_envs():
                with self._lock:
                    self._step_envs()
                self._lock.yield_to_waiters()
        finally:
            for _ in self._pool:
                self._begun.put(None)
            for thread in self._pool:
                thread.join()
            if self._has_lease:
                self._lease.release()

    def _await_envs(self) -> bool:
        """Wait until an env waits for its turn; False once it is closed."""
        while not (self._waiting or self._closed):
            self._note(self._events.get())
        return not self._closed

    def _note(self, event: _Event | list[tuple[int, int]]) -> None:
        if isinstance(event, list):
            self._waiting.extend(event)
        elif event is _Event.CLOSED:
            self._closed = True

    def _step_envs(self) -> None:
        """Have envs stepped until none is left or another thread wants the engine; none is in it afterwards."""
        interrupt, self._lock.interrupt = self._lock.interrupt, self._want
        try:
            while not (self._closed or self._lock.waiters) and (self._waiting or self._under_way):
                while self._waiting:
                    self._count(1)
                    self._begun.put(self._waiting.popleft())
                    if len(self._pool) < min(self._most, self._under_way):
                        self._grow()
                self._note(self._events.get())
        finally:
            taken_back: list[tuple[int, int]] = []
            with suppress(Empty):
                while item := self._begun.get_nowait():
                    taken_back.append(item)
            self._count(-len(taken_back))
            while self._under_way:
                self._note(self._events.get())
            self._waiting.extendleft(reversed(taken_back))
            self._lock.interrupt = interrupt

    def _count(self, begun: int) -> bool:
        """Count envs that begin, or end where it is negative; True when none is under way any more."""
        with self._counting:
            self._under_way += begun
            return not self._under_way

    def _want(self) -> None:
        self._events.put(_Event.WANTED)

    def _grow(self) -> None:
        thread = threading.Thread(target=self._work, name=f"env {len(self._pool)} of {self._name}", daemon=True)
        start_thread(thread)
        self._pool.append(thread)

    def _work(self) -> None:
        while (item := self._begun.get()) is not None:
            try:
                self._done(item[0], self._failure_of(*item))
            except TransportError as error:  # the driver's memory is gone
                _log.warning("a step of env %s of engine %r is lost: %s", item[0], self._name, error)
            finally:
                if self._count(-1):
                    self._events.put(_Event.IDLE)

    def _failure_of(self, env: int, control: int) -> TransportError | None:
        """Step the env; return the error that its client gets, None when there is none."""
        try:
            if not self._lease.valid:
                raise self._lease.lost()
            self._engine.step_env(env, control)
            if control & RESET:
                self._lease.clear_outcome(env)
        except BaseException as error:  # an engine is foreign code and may raise anything
            return to_wire_error(self._name, f"step_env of env {env}", error)
        return None

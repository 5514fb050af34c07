"""Notices that an engine has left while no call is under way: one thread for all channels of the process.

The thread and its descriptors exist while there are pipes to watch, and a moment longer: a program that makes a channel
for each call needs them again at once.
"""

from __future__ import annotations

import contextlib
import logging
import select
import threading
from collections import deque
from collections.abc import Callable

from lucky_transport.fork import on_child
from lucky_transport.shm.eventfd import EventFd
from lucky_transport.shm.listener.memfd_pipe import MemfdPipe
from lucky_transport.uninterrupted import start_thread

_log = logging.getLogger("lucky_transport")
#: A thread that had no pipe to watch for so long ends.
_IDLE_S = 0.05


class ConnectionMonitor:
    """Calls back, on its own thread, when the peer of a pipe has closed it or died."""

    def __init__(self) -> None:
        self._wakeup: EventFd | None = None
        self._epoll: select.epoll | None = None
        self.reset()

    def watch(self, pipe: MemfdPipe, on_left: Callable[[], None]) -> None:
        """Have `on_left()` called once the peer is gone; nothing happens when the pipe is closed before."""
        with self._lock:
            if self._thread is None:
                self._start()
            assert self._epoll is not None
            self._was_used = True
            for fd, events in pipe.end_fds.items():
                self._on_left[fd] = on_left
                self._epoll.register(fd, events | select.EPOLLONESHOT)
            pipe.on_close = self._forget

    def do(self, task: Callable[[], None]) -> None:
        """Run `task()` soon on the monitor's thread, at the latest when the next pipe is watched.

        Takes no lock, so finalizers may call it in the middle of anything.
        """
        self._tasks.append(task)
        wakeup = self._wakeup
        if wakeup is not None:
            wakeup.notify()

    def reset(self) -> None:
        """Forget everything, in a forked child: it has no such thread, and the pipes are its parent's."""
        if self._wakeup is not None:
            self._wakeup.close()  # the parent's thread, which has it too, never ends here
        self._let_go()
        self._lock = threading.RLock()
        self._tasks: deque[Callable[[], None]] = deque()
        self._on_left: dict[int, Callable[[], None]] = {}
        self._was_used = False  # since the thread looked last
        self._sleeps_on = False  # until it is woken: there was a pipe to watch, and no new one came for long
        self._thread: threading.Thread | None = None

    def _start(self) -> None:
        with contextlib.ExitStack() as undo:
            wakeup, epoll = undo.enter_context(EventFd()), undo.enter_context(select.epoll())
            epoll.register(wakeup.fd, select.EPOLLIN)
            thread = threading.Thread(target=self._run, args=(epoll, wakeup), daemon=True, name="connection monitor")
            start_thread(thread)  # it begins by waiting for the lock, which is held here
            undo.pop_all()
        self._wakeup, self._epoll, self._thread = wakeup, epoll, thread

    def _forget(self, pipe: MemfdPipe) -> None:
        """The pipe's descriptors are about to be closed, by any thread."""
        with self._lock:
            for fd in self._on_left.keys() & pipe.end_fds:  # no `if`: see `uninterrupted`
                del self._on_left[fd]
                self._epoll.unregister(fd)  # pyright: ignore[reportOptionalMemberAccess] - it is there with them
            if self._wakeup is not None and not self._on_left and self._sleeps_on:
                self._wakeup.notify()  # or it would never end

    def _run(self, epoll: select.epoll, wakeup: EventFd) -> None:
        events: list[tuple[int, int]] | None = None
        while (timeout_s := self._patience_s(timed_out=events == [])) != 0:
            events = epoll.poll(timeout_s)
            for fd, _ in events:
                if fd == wakeup.fd:
                    wakeup.consume()
                elif (on_left := self._on_left.get(fd)) is not None:
                    self._tasks.append(on_left)
            while self._tasks:
                try:
                    self._tasks.popleft()()
                except Exception:  # a bug of ours must not cost the other channels their monitor
                    _log.exception("a task of the connection monitor failed")

    def _patience_s(self, timed_out: bool) -> float | None:
        """Return for how long to sleep, None for no limit; 0 ends this thread: it has long had nothing to do."""
        with self._lock:
            if self._thread is not threading.current_thread():
                return 0.0  # a signal handler gave it up as it started
            was_used, self._was_used = self._was_used or not timed_out or bool(self._tasks), False
            self._sleeps_on = bool(self._on_left) and not was_used
            if was_used or self._sleeps_on:
                return None if self._sleeps_on else _IDLE_S
            self._thread = None
            self._let_go()
            return 0.0

    def _let_go(self) -> None:
        """Close the descriptors: that of `wakeup` when nobody has it any more, a `do` may be about to write to it."""
        if self._epoll is not None:
            self._epoll.close()
        self._epoll = self._wakeup = None


#: There is one in a process.
CONNECTION_MONITOR = ConnectionMonitor()
on_child(CONNECTION_MONITOR.reset)

"""Notices that an engine has left while no call is under way: one thread for all channels of the process.

The thread and its descriptors exist while there are pipes to watch.
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

__all__ = ["CONNECTION_MONITOR", "ConnectionMonitor"]

_log = logging.getLogger("lucky_transport")


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
        self._let_go()
        self._lock = threading.RLock()
        self._tasks: deque[Callable[[], None]] = deque()
        self._on_left: dict[int, Callable[[], None]] = {}
        self._thread: threading.Thread | None = None

    def _start(self) -> None:
        with contextlib.ExitStack() as undo:
            wakeup, epoll = undo.enter_context(EventFd()), undo.enter_context(select.epoll())
            epoll.register(wakeup.fd, select.EPOLLIN)
            arguments = (epoll, wakeup)
            thread = threading.Thread(target=self._run, args=arguments, daemon=True, name="connection monitor")
            start_thread(thread)  # it begins by waiting for the lock, which is held here
            undo.pop_all()
        self._wakeup, self._epoll, self._thread = wakeup, epoll, thread

    def _forget(self, pipe: MemfdPipe) -> None:
        """The pipe's descriptors are about to be closed, by any thread."""
        with self._lock:
            for fd in pipe.end_fds:
                if self._on_left.pop(fd, None) is not None and self._epoll is not None:
                    self._epoll.unregister(fd)
            if self._wakeup is not None:
                self._wakeup.notify()

    def _run(self, epoll: select.epoll, wakeup: EventFd) -> None:
        while not self._is_done():
            for fd, _ in epoll.poll():
                if fd == wakeup.fd:
                    wakeup.consume()
                elif (on_left := self._on_left.get(fd)) is not None:
                    self._tasks.append(on_left)
            while self._tasks:
                try:
                    self._tasks.popleft()()
                except Exception:  # a bug of ours must not cost the other channels their monitor
                    _log.exception("a task of the connection monitor failed")

    def _is_done(self) -> bool:
        """End this thread if there is nothing left to do."""
        with self._lock:
            if self._on_left or self._tasks:
                return False
            self._thread = None
            self._let_go()
            return True

    def _let_go(self) -> None:
        if self._epoll is not None and self._wakeup is not None:
            self._epoll.close()
            self._wakeup.close()
        self._epoll = self._wakeup = None


#: There is one in a process.
CONNECTION_MONITOR = ConnectionMonitor()
on_child(CONNECTION_MONITOR.reset)

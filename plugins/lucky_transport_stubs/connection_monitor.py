"""Notices that an engine has left while no call is under way: one thread for all channels of the process.

The thread, and its descriptors, are there as long as there are pipes to watch. Errands may come from finalizers, which
interrupt anything: they are handed over without a lock. A forked child starts with nothing: the pipes are its parent's.
"""

from __future__ import annotations

import logging
import select
import threading
from collections import deque
from collections.abc import Callable

from lucky_transport.fork import on_child
from lucky_transport.shm.eventfd import EventFd
from lucky_transport.shm.memfd_pipe import MemfdPipe

__all__ = ["CONNECTION_MONITOR", "ConnectionMonitor"]

_log = logging.getLogger("lucky_transport")


class ConnectionMonitor:
    """Calls back, on its own thread, when the peer of a pipe has closed it or died."""

    def __init__(self) -> None:
        self._bell: EventFd | None = None
        self._epoll: select.epoll | None = None
        self.begin_anew()

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

    def do(self, errand: Callable[[], None]) -> None:
        """Have something done soon, at the latest when the next pipe is watched; takes no lock."""
        self._errands.append(errand)
        bell = self._bell
        if bell is not None:
            bell.notify()

    def begin_anew(self) -> None:
        """Forget everything, in a forked child: the thread is not there, and the pipes are its parent's."""
        self._let_go()
        self._lock = threading.RLock()
        self._errands: deque[Callable[[], None]] = deque()
        self._on_left: dict[int, Callable[[], None]] = {}
        self._thread: threading.Thread | None = None

    def _start(self) -> None:
        self._bell, self._epoll = EventFd(), select.epoll()
        self._epoll.register(self._bell.fd, select.EPOLLIN)
        self._thread = threading.Thread(
            target=self._run, args=(self._epoll, self._bell), daemon=True, name="connection monitor"
        )
        self._thread.start()

    def _forget(self, pipe: MemfdPipe) -> None:
        """The pipe's descriptors are about to be closed, by any thread."""
        with self._lock:
            for fd in pipe.end_fds:
                if self._on_left.pop(fd, None) is not None and self._epoll is not None:
                    self._epoll.unregister(fd)
            if self._bell is not None:
                self._bell.notify()

    def _run(self, epoll: select.epoll, bell: EventFd) -> None:
        while not self._is_done():
            for fd, _ in epoll.poll():
                if fd == bell.fd:
                    bell.consume()
                elif (on_left := self._on_left.get(fd)) is not None:
                    self._errands.append(on_left)
            while self._errands:
                try:
                    self._errands.popleft()()
                except Exception:  # a bug of ours must not cost the other channels their monitor
                    _log.exception("what was to be done when an engine left failed")

    def _is_done(self) -> bool:
        """End this thread if there is nothing left to do."""
        with self._lock:
            if self._on_left or self._errands:
                return False
            self._thread = None
            self._let_go()
            return True

    def _let_go(self) -> None:
        if self._epoll is not None and self._bell is not None:
            self._epoll.close()
            self._bell.close()
        self._epoll = self._bell = None


#: There is one in a process.
CONNECTION_MONITOR = ConnectionMonitor()
on_child(CONNECTION_MONITOR.begin_anew)

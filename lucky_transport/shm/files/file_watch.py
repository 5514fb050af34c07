"""Sleeps until a file comes or changes, or a process ends: for a peer that does not say when it comes or goes."""

from __future__ import annotations

import contextlib
import ctypes
import os
import select
import time
from pathlib import Path

from lucky_transport.closing import Closing
from lucky_transport.shm.eventfd import EventFd

#: What inotify tells of a folder, that a file came into it, and of a file, that it was cut, grew or lost its name.
_COMES, _CHANGES = 0x100 | 0x80, 0x2 | 0x4
_LONGEST_S = 1.0
#: How often one looks where the kernel refuses an inotify: a user has 128 of them by default.
_BLIND_S = 0.05
#: What comes at once is one change: a peer does several things as it comes, and a folder may be a busy one.
_SETTLE_S = 0.01
_READ_BYTES = 1 << 16

_libc = ctypes.CDLL(None)


class FileWatch(Closing):
    """One thread waits. Any thread may add, and make it return by `end`; `close` is for when none waits."""

    def __init__(self) -> None:
        with contextlib.ExitStack() as undo:
            self._ended = undo.enter_context(EventFd())
            self._epoll = undo.enter_context(select.epoll())
            self._epoll.register(self._ended.fd, select.EPOLLIN)
            self._inotify = _libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
            self._is_blind = self._inotify < 0
            if not self._is_blind:
                undo.callback(os.close, self._inotify)
                self._epoll.register(self._inotify, select.EPOLLIN)
            self._undo = undo.pop_all()

    def add(self, path: Path) -> None:
        """Be told of files that come into the folder `path`, or of what becomes of the file `path`; once more does no
        harm. No effect where there is none.
        """
        events = _COMES if path.is_dir() else _CHANGES
        if _libc.inotify_add_watch(self._inotify, os.fsencode(path), events) < 0 and path.exists():
            self._is_blind = True

    def add_process(self, pidfd: int) -> None:
        """Be told of the end of this process, until its pidfd is closed."""
        self._epoll.register(pidfd, select.EPOLLIN | select.EPOLLONESHOT)

    def wait(self) -> bool:
        """Sleep until something may have changed; False when nothing has for a second."""
        woken = {fd for fd, _ in self._epoll.poll(_BLIND_S if self._is_blind else _LONGEST_S)}
        if woken and self._ended.fd not in woken:
            time.sleep(_SETTLE_S)
            with contextlib.suppress(OSError):
                os.read(self._inotify, _READ_BYTES)
        return bool(woken) or self._is_blind

    def end(self) -> None:
        """Make the present `wait` and every further one return True at once."""
        self._ended.notify()

    def close(self) -> None:
        self._undo.close()

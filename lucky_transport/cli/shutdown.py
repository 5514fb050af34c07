"""The end of a serving process: by a signal, or because the process that started it ended.

Watching begins before the engine is imported, in a thread fed by the C-level signal handler, so that it works while the
main thread loads a model or runs native code. The first request starts an orderly end, and further ones change nothing.
A process that has not ended within `LIMIT_S` is ended by force.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import threading
from types import FrameType, TracebackType
from typing import Any, Self

from lucky_transport.fork import around_fork

#: Below the 5 s after which `EngineProcess.stop` sends SIGKILL, so that the process can still log the reason.
LIMIT_S = 4.0

#: How often the parent is polled where the kernel has no pidfd.
_POLL_MS = 200


class Shutdown:
    """A context in which SIGTERM, SIGINT, SIGHUP and the end of `parent_pid` set `asked` instead of killing.

    Leaving it within `limit_s` of the request is an orderly end; later the process exits with status 1. Once asked,
    the process is expected to end: signals stay without effect after leaving, and it has `limit_s` again to exit. Left
    without a request, everything is as before. For the main thread only (ValueError elsewhere).

    what: names the process in what it says when it is ended by force.
    """

    def __init__(self, parent_pid: int | None = None, *, limit_s: float = LIMIT_S, what: str = "engine") -> None:
        self.asked = threading.Event()
        self._done = threading.Event()
        self._limit_s = limit_s
        self._what = what
        self._parent_pid = parent_pid
        self._pidfd = -1
        self._is_left = False
        self._before: dict[int, Any] = {}
        self._thread = threading.Thread(target=self._watch, name="lucky-shutdown", daemon=True)

    def __enter__(self) -> Self:
        self._reader, self._writer = os.pipe()
        os.set_blocking(self._writer, False)  # the signal handler must never wait
        self._wakeup_before = signal.set_wakeup_fd(self._writer, warn_on_full_buffer=False)
        for name in ("SIGTERM", "SIGINT", "SIGHUP"):
            number = getattr(signal, name, None)
            # nohup and background jobs of a shell ignore some signals on purpose
            if number is not None and signal.getsignal(number) is not signal.SIG_IGN:
                self._before[number] = signal.signal(number, _noted)
        self._open_parent()
        self._thread.start()
        around_fork(self._hold_signals, self._let_signals, self._become_child)
        return self

    def wait(self) -> None:
        """Return once the process has to end."""
        self.asked.wait()

    def _open_parent(self) -> None:
        if self._parent_pid is None:
            return
        try:
            self._pidfd = os.pidfd_open(self._parent_pid)
        except ProcessLookupError:
            self.asked.set()
        except (OSError, AttributeError):
            self._pidfd = -1  # an older kernel or another system: `_watch` polls the pid instead

    def _watch(self) -> None:
        poller = select.poll()
        poller.register(self._reader, select.POLLIN)
        polls = self._parent_pid is not None and self._pidfd < 0
        if self._pidfd >= 0:
            poller.register(self._pidfd, select.POLLIN)
        while not self.asked.is_set() and not poller.poll(_POLL_MS if polls else None):
            if polls and not _exists(self._parent_pid or 0):
                break
        self.asked.set()
        if not self._done.wait(self._limit_s):
            with contextlib.suppress(OSError):  # the reader of our stderr may have closed it
                os.write(2, f"the {self._what} did not end within {self._limit_s} s; ended by force\n".encode())
            os._exit(1)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        ending = self.asked.is_set()
        self._done.set()
        with contextlib.suppress(BlockingIOError):  # wakes the watcher, which then sets `asked`
            os.write(self._writer, b"\0")
        self._thread.join()
        self._restore(ending)
        if ending:  # the interpreter's own end can hang too, in a library's threads
            signal.signal(signal.SIGALRM, signal.SIG_DFL)
            signal.setitimer(signal.ITIMER_REAL, self._limit_s)
        self._is_left = True
        for fd in (self._reader, self._writer, self._pidfd):
            if fd >= 0:
                os.close(fd)

    def _restore(self, ending: bool = False) -> None:
        for number, handler in self._before.items():
            signal.signal(number, signal.SIG_IGN if ending else handler)
        signal.set_wakeup_fd(self._wakeup_before)

    def _hold_signals(self) -> None:
        if not self._is_left:
            signal.pthread_sigmask(signal.SIG_BLOCK, self._before)

    def _let_signals(self) -> None:
        if not self._is_left:
            signal.pthread_sigmask(signal.SIG_UNBLOCK, self._before)

    def _become_child(self) -> None:
        """Handle signals as before: what ends a forked child must not end its parent."""
        if not self._is_left:
            self._restore()
            self._let_signals()
            self._is_left = True


def _noted(number: int, frame: FrameType | None) -> None:
    """Do nothing: the C-level handler has already written to the wake-up pipe."""


def _exists(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True

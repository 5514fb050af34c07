"""What waits to be looked at by a thread of its own, so that who brings it never waits.

`put` may be called from anywhere, also where the interpreter collects garbage in the middle of another `put`. There is
room for so many and so many bytes; what is beyond is refused and counted. A forked child has an empty inbox and a
thread of its own; while the parent forks, its thread stands between two pieces of work.
"""

from __future__ import annotations

import contextlib
import logging
import threading
from collections.abc import Callable
from queue import Empty, SimpleQueue
from typing import Any

from lucky_transport.deadline import Deadline
from lucky_transport.fork import around_fork
from lucky_transport.uninterrupted import start_thread

_log = logging.getLogger("lucky_transport")

_ROOM = 4096
_ROOM_BYTES = 64 << 20
_FORK_WAITS_S = 1.0


class EvidenceQueue:
    """Gives what was put into it to `work`, one after the other. What `work` raises is logged.

    refused: how many there was no room for, or `work` broke on.
    """

    def __init__(self, name: str, work: Callable[[Any], None]) -> None:
        self._name = name
        self._work = work
        self._begin()
        around_fork(self._hold, self._release, self._begin)

    def put(self, item: Any, size: int = 0) -> None:
        """Have `item` worked on; `size` is about how many bytes it keeps alive."""
        if self._queue.qsize() >= _ROOM or self._bytes + size > _ROOM_BYTES or self._is_closed:
            self.refused += 1
            return
        self._bytes += size
        self._queue.put((item, size))
        if not self._thread:
            with contextlib.suppress(RuntimeError):  # the process ends, or has too many threads: `close` does the work
                start_thread(threading.Thread(target=self._run, name=self._name, daemon=True))

    def close(self, timeout_s: float) -> bool:
        """Take nothing more, and wait until what is there was worked on, but not longer than that. Idempotent.

        Returns False where it is still being worked on; what is left counts as refused.
        """
        self._is_closed = True
        deadline = Deadline(timeout_s)
        for thread in tuple(self._thread.values()):
            self._queue.put(None)
            thread.join(timeout_s)
            if thread.is_alive():
                self.refused += self._leave()
                self._queue.put(None)  # the end that it was told of may be among what was left
                return False
        while not deadline.expired:  # what the thread left, or all of it where none could be started
            try:
                self._one(self._queue.get_nowait())
            except Empty:
                break
        self.refused += self._leave()
        return True

    def _leave(self) -> int:
        """Let go of what is left, and return how much it was."""
        left = 0
        with contextlib.suppress(Empty):
            while True:
                left += self._queue.get_nowait() is not None
        return left

    def _begin(self) -> None:
        self._queue: SimpleQueue[tuple[Any, int] | None] = SimpleQueue()
        self._between = threading.Lock()
        self._holds = False
        self._thread: dict[int, threading.Thread] = {}  # one at most, at 0
        self._is_closed = False
        self._bytes = self.refused = 0

    def _run(self) -> None:
        this = threading.current_thread()  # known before it takes anything: `close` waits for what it has taken
        if self._thread.setdefault(0, this) is not this or self._is_closed:
            return
        queue = self._queue
        while (entry := queue.get()) is not None:
            with self._between:
                self._one(entry)

    def _one(self, entry: tuple[Any, int] | None) -> None:
        if entry is not None:
            item, size = entry
            self._bytes = self._bytes - size if self._queue.qsize() else 0  # threads that put at once may miscount
            try:
                self._work(item)
            except Exception:  # a fault of ours: it costs this item, not the thread
                self.refused += 1
                _log.exception("%s: an item could not be worked on", self._name)

    def _hold(self) -> None:
        self._holds = self._between.acquire(timeout=_FORK_WAITS_S)

    def _release(self) -> None:
        if self._holds:
            self._between.release()

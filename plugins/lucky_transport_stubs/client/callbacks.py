"""Callbacks that run once, when a call is over."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from typing import Any

_log = logging.getLogger("grpc._channel")


class Callbacks:
    """Callbacks in the order in which they were added; `run` calls each once.

    is_watched: the completion thread is going to run them.
    """

    def __init__(self) -> None:
        self.is_watched = False
        self._lock = threading.Lock()
        self._callbacks: list[Callable[[], Any]] = []

    def add(self, callback: Callable[[], Any]) -> None:
        """Have `run` call it."""
        with self._lock:
            self._callbacks.append(callback)

    def run(self) -> None:
        """Call what was added since the last time."""
        with self._lock:
            callbacks, self._callbacks = self._callbacks, []
        for callback in callbacks:
            try:
                callback()
            except Exception:  # a program's callback; the next one still runs
                _log.exception("Exception in callback %r", callback)
            except BaseException:  # SystemExit and its like stop the others, as in gRPC
                # It is not raised: this may be the caller's thread, or one that serves all calls.
                _log.exception("Callback %r ended the callbacks of its call", callback)
                return

"""What is to be called once, when a call is over.

Foreign code may raise anything; it costs neither the call nor who finds its end. An exception costs no other callback;
what is none (SystemExit) stops the others, as in gRPC.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from typing import Any

__all__ = ["Callbacks"]

_log = logging.getLogger("lucky_transport")


class Callbacks:
    """Callbacks in the order of their adding; `run` calls each once."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._callbacks: list[Callable[[], Any]] = []

    def __bool__(self) -> bool:
        return bool(self._callbacks)

    def add(self, callback: Callable[[], Any]) -> None:
        """Have it called by `run`."""
        with self._lock:
            self._callbacks.append(callback)

    def run(self) -> None:
        """Call what was added since the last time."""
        with self._lock:
            callbacks, self._callbacks = self._callbacks, []
        for callback in callbacks:
            try:
                callback()
            except Exception:
                _log.exception("Exception in callback %r", callback)
            except BaseException:  # not to be raised here: this may be the caller's thread, or one for all calls
                _log.exception("Callback %r ended the callbacks of its call", callback)
                return

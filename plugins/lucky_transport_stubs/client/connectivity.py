"""The subscribers to a channel's connectivity state.

Each subscriber gets the present state first, then each change, in order and one call at a time.
"""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable
from typing import Any

from lucky_transport.fork import on_child
from lucky_transport.uninterrupted import start_thread
from lucky_transport_stubs.client.link import Link

_log = logging.getLogger("grpc._channel")

Callback = Callable[[Any], Any]


class _Subscriber:
    """A callback; state: the last one that it was given or will be."""

    def __init__(self, callback: Callback) -> None:
        self.callback = callback
        self.state: Any = None


class Connectivity:
    """The subscribers of one channel."""

    def __init__(self, link: Link) -> None:
        self._link = link
        self._lock = threading.RLock()  # reentrant: a channel may be dropped in the middle of anything
        self._subscribers: list[_Subscriber] = []
        self._pending: deque[tuple[_Subscriber, Any]] = deque()
        self._thread: threading.Thread | None = None
        on_child(self.forget_after_fork)

    def subscribe(self, callback: Callback, try_to_connect: bool) -> None:
        """Call `callback` from now on; with `try_to_connect`, also connect as soon as there is an engine."""
        with self._lock:
            if not self._subscribers:
                self._link.standing.listeners.append(self._changed)
            self._subscribers.append(_Subscriber(callback))
            self._notify(self._subscribers[-1], self._link.standing.state)
        if try_to_connect:
            self._link.connect_soon(self._is_wanted)

    def unsubscribe(self, callback: Callback) -> None:
        """Call it no more; no effect for one that is not subscribed."""
        with self._lock:
            found = [one for one in self._subscribers if one.callback == callback][:1]
            self._keep([one for one in self._subscribers if one not in found])

    def close(self) -> None:
        """Forget all subscribers."""
        self._keep([])

    def forget_after_fork(self) -> None:
        """In a forked child: the subscribers are the parent's, and so is what lost threads hold."""
        self._lock, self._thread = threading.RLock(), None
        self._subscribers = []
        self._pending.clear()

    def _keep(self, subscribers: list[_Subscriber]) -> None:
        with self._lock:
            if self._subscribers and not subscribers:
                self._link.standing.listeners.remove(self._changed)
            self._subscribers = subscribers

    def _is_wanted(self) -> bool:
        return bool(self._subscribers)

    def _changed(self, state: Any) -> None:
        with self._lock:
            for subscriber in self._subscribers:
                self._notify(subscriber, state)

    def _notify(self, subscriber: _Subscriber, state: Any) -> None:
        """Have it called with a state that it does not know. The lock is held."""
        if state is subscriber.state:
            return
        subscriber.state = state
        self._pending.append((subscriber, state))
        if self._thread is None:
            # It exists while there are notifications, and holds no lock while it calls.
            thread = threading.Thread(target=self._notify_all, name="grpc connectivity", daemon=True)
            start_thread(thread)
            self._thread = thread  # not before: a signal handler may strike first

    def _notify_all(self) -> None:
        while (found := self._next()) is not None:
            callback, state = found
            try:
                callback(state)
            except Exception:  # a program's callback; the others are still called
                _log.exception("Exception calling channel subscription callback!")

    def _next(self) -> tuple[Callback, Any] | None:
        """Return a callback and its next state; None, and the thread ends, when there is nothing."""
        with self._lock:
            while self._pending:
                subscriber, state = self._pending.popleft()
                if subscriber in self._subscribers:
                    return subscriber.callback, state
            self._thread = None
            return None

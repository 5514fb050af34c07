"""Who wants to know how the channel stands, and is told.

Each subscriber hears the present state first, then each change, in order; never two calls at once. They are told on a
thread that is there as long as there is something to tell; it holds no lock then. Foreign code may raise anything; it
costs the other subscribers nothing.
"""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable
from typing import Any

from lucky_transport_stubs.link import Link

__all__ = ["Connectivity"]

_log = logging.getLogger("lucky_transport")

Callback = Callable[[Any], Any]


class _Subscriber:
    """Who is told; state: the last that it hears of."""

    def __init__(self, callback: Callback) -> None:
        self.callback = callback
        self.state: Any = None


class Connectivity:
    """The subscribers of one channel."""

    def __init__(self, link: Link) -> None:
        self._link = link
        self._lock = threading.RLock()  # reentrant: a channel may be dropped in the middle of anything
        self._subscribers: list[_Subscriber] = []
        self._news: deque[tuple[_Subscriber, Any]] = deque()
        self._teller: threading.Thread | None = None

    def subscribe(self, callback: Callback, try_to_connect: bool) -> None:
        """Tell `callback` from now on; `try_to_connect`: and connect, as soon as there is an engine."""
        with self._lock:
            if not self._subscribers:
                self._link.listeners.append(self._changed)
            self._subscribers.append(_Subscriber(callback))
            self._tell(self._subscribers[-1], self._link.state)
        if try_to_connect:
            self._link.connect_soon(self._is_wanted)

    def unsubscribe(self, callback: Callback) -> None:
        """Tell it no more; no effect for one that is not subscribed."""
        with self._lock:
            found = [one for one in self._subscribers if one.callback == callback][:1]
            self._keep([one for one in self._subscribers if one not in found])

    def close(self) -> None:
        """Forget all subscribers."""
        self._keep([])

    def _keep(self, subscribers: list[_Subscriber]) -> None:
        with self._lock:
            if self._subscribers and not subscribers:
                self._link.listeners.remove(self._changed)
            self._subscribers = subscribers

    def _is_wanted(self) -> bool:
        return bool(self._subscribers)

    def _changed(self, state: Any) -> None:
        with self._lock:
            for subscriber in self._subscribers:
                self._tell(subscriber, state)

    def _tell(self, subscriber: _Subscriber, state: Any) -> None:
        """Have it told what it does not know. The lock is held."""
        if state is subscriber.state:
            return
        subscriber.state = state
        self._news.append((subscriber, state))
        if self._teller is None:
            self._teller = threading.Thread(target=self._tell_all, name="grpc connectivity", daemon=True)
            self._teller.start()

    def _tell_all(self) -> None:
        while (news := self._next()) is not None:
            callback, state = news
            try:
                callback(state)
            except Exception:
                _log.exception("Exception calling channel subscription callback!")

    def _next(self) -> tuple[Callback, Any] | None:
        """Return who is told what; None, and the thread ends, when there is nothing."""
        with self._lock:
            while self._news:
                subscriber, state = self._news.popleft()
                if subscriber in self._subscribers:
                    return subscriber.callback, state
            self._teller = None
            return None

"""Calls under way as `concurrent.futures.Future`: what `Transport.begin` returns."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, TypeVar

from lucky_transport.uninterrupted import WaitQueue

T = TypeVar("T")
_RLock: type[Any] = type(threading.RLock())


class _Condition(_RLock):
    """What a Future takes for its condition: a lock of C, which a signal handler that raises leaves to nobody.

    Nobody waits with it held: `CallFuture` has waited before.
    """

    def __init__(self, waiting: WaitQueue) -> None:
        self.notify_all = waiting.wake_all

    def wait(self, timeout: float | None = None) -> bool:
        return False


class CallFuture(Future[T]):
    """A Future that can be ended whatever a signal handler raises in a thread that waits for it or cancels it."""

    def __init__(self) -> None:
        super().__init__()
        self._waiting = WaitQueue()
        self._condition: Any = _Condition(self._waiting)

    def result(self, timeout: float | None = None) -> T:
        self._waiting.wait_for(self.done, timeout)
        return super().result(0)

    def exception(self, timeout: float | None = None) -> BaseException | None:
        self._waiting.wait_for(self.done, timeout)
        return super().exception(0)


def settle(future: Future[Any], call: Callable[[], Any]) -> None:
    """Make the call and give the future its result or error; no call is made for a cancelled future."""
    if future.set_running_or_notify_cancel():
        try:
            result = call()
        except Exception as error:  # raised by `future.result`
            future.set_exception(error)
        else:
            future.set_result(result)


def completed(call: Callable[[], Any]) -> Future[Any]:
    """Make the call now, and return the future with its result or error."""
    future: Future[Any] = CallFuture()
    settle(future, call)
    return future


def on_cancel(future: Future[Any], cancel: Callable[[], object]) -> None:
    """Have `cancel` called when the future is cancelled."""
    future.add_done_callback(lambda done: cancel() if done.cancelled() else None)

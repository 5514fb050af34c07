"""Calls under way as `concurrent.futures.Future`: what `Transport.begin` returns."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

__all__ = ["completed", "on_cancel", "settle"]


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
    future: Future[Any] = Future()
    settle(future, call)
    return future


def on_cancel(future: Future[Any], cancel: Callable[[], object]) -> None:
    """Have `cancel` called when the future is cancelled."""
    future.add_done_callback(lambda done: cancel() if done.cancelled() else None)

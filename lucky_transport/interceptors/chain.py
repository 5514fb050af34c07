"""A list of interceptors as one function, and the result of what it returned."""

from __future__ import annotations

import concurrent.futures
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from functools import partial
from typing import Any

from lucky_transport.call import deadline_error
from lucky_transport.errors import LocalProtocolError
from lucky_transport.interceptors.interceptor import Interceptor


def hooks_of(interceptors: Sequence[Interceptor], name: str) -> list[Callable[..., Any]]:
    """Return the methods `name` of those interceptors that override it, in their order."""
    default = getattr(Interceptor, name)
    return [getattr(one, name) for one in interceptors if getattr(type(one), name) is not default]


def chained(hooks: Sequence[Callable[..., Any]], last: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function that runs the hooks around `last`, the first one outermost."""
    for hook in reversed(hooks):
        last = partial(hook, last)
    return last


def result_of(future: Future[Any], timeout_s: float | None, name: str, backend: str) -> Any:
    """Return the result of an intercepted call or step that blocks; raises its error.

    It is done, unless an interceptor returned a future of its own: that is waited for, for `timeout_s` at most. Raises
    PeerTimeout after that; None: it must be done, LocalProtocolError otherwise.
    """
    if not future.done():
        if timeout_s is None:
            raise LocalProtocolError(
                f"an interceptor of {name} returned a future that is not done",
                backend=backend,
                hint="on the engine's side return what `continuation` returned, or a future with a result",
            )
        concurrent.futures.wait([future], timeout_s)
        if not future.done():
            future.cancel()
            raise deadline_error(name, timeout_s, backend)
    return future.result()

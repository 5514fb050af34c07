"""The contract of an interceptor, in the manner of gRPC's: it is given what would go on, and goes on or does not.

    class Slow(Interceptor):
        def intercept_call(self, continuation, details, request):
            began = time.perf_counter()
            outcome = continuation(details, request)
            outcome.add_done_callback(lambda done: log(details.method.name, time.perf_counter() - began))
            return outcome

One class serves the client's side, the engine's side, threads, asyncio, `begin` and steps in two halves: what goes on
returns a future, which is done when the call or step is over. The first interceptor of a list is the outermost one.

What an interceptor raises, the caller gets, as in gRPC. What a callback of a future raises is logged by
`concurrent.futures`, and changes nothing.
"""

from __future__ import annotations

import concurrent.futures
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from enum import StrEnum
from functools import partial
from typing import Any, Protocol

from numpy.typing import NDArray

from lucky_transport.call import deadline_error
from lucky_transport.deadline import Deadline
from lucky_transport.endpoint import Endpoint
from lucky_transport.errors import LocalProtocolError
from lucky_transport.messages.method import Method

__all__ = ["CallDetails", "InterceptedCall", "InterceptionPoint", "Interceptor", "Side", "StepDetails", "StreamEnd"]


class Side(StrEnum):
    """Where an interceptor stands."""

    CLIENT = "client"
    ENGINE = "engine"


@dataclass(frozen=True, slots=True)
class InterceptionPoint:
    """What an interceptor stands at. engine: the engine's name.

    transport, endpoint: how the client reaches the engine; on the engine's side "" and None, since an engine is served
    over any number of transports.
    """

    side: Side
    engine: str
    num_envs: int
    transport: str = ""
    endpoint: Endpoint | None = None


@dataclass(frozen=True, slots=True)
class CallDetails:
    """One call or stream. deadline: None for the default one. copy: as in `Transport.stream`.

    caller: the client's name, on the engine's side. An interceptor may go on with other details (`dataclasses.replace`)
    on the client's side.
    """

    point: InterceptionPoint
    method: Method
    deadline: Deadline | None = None
    copy: bool = True
    caller: str = ""


@dataclass(frozen=True, slots=True)
class StepDetails:
    """One step of all envs. deadline: None for the default one."""

    point: InterceptionPoint
    deadline: Deadline | None = None


@dataclass(frozen=True, slots=True)
class StreamEnd:
    """How a stream ended. error: None when it came to its end, Cancelled when its reader left it.

    items: those that came. dropped: those that the engine skipped because its reader was slow.
    """

    items: int
    dropped: int
    error: BaseException | None = None


class InterceptedCall(Protocol):
    """A stream as an interceptor sees it: a `Stream` or `AsyncStream` that also tells its end."""

    def add_end_callback(self, callback: Callable[[StreamEnd], object]) -> None:
        """Have `callback` called when the stream is over, at once if it is; on the thread that finds out."""
        ...


class Interceptor:
    """Stands around calls, streams and steps. What a class does not override is not intercepted, and costs nothing."""

    def intercept_call(
        self, continuation: Callable[[CallDetails, Any], Future[Any]], details: CallDetails, request: Any
    ) -> Future[Any]:
        """Return the future of a unary call's response.

        `continuation(details, request)` makes the call and returns its future: done already for a call that blocks,
        else done later. Never wait for it: under asyncio and for `begin` the caller's thread is needed for other work.
        """
        return continuation(details, request)

    def intercept_stream(
        self, continuation: Callable[[CallDetails, Any], Any], details: CallDetails, request: Any
    ) -> Any:
        """Return the stream. `continuation(details, request)` opens it and returns an `InterceptedCall`.

        On the client's side that is a `Stream`, or under asyncio an `AsyncStream`, and its like must be returned; on
        the engine's side an iterator of items.
        """
        return continuation(details, request)

    def intercept_step(
        self,
        continuation: Callable[[StepDetails, NDArray[Any], Any], Future[Any]],
        details: StepDetails,
        actions: NDArray[Any],
        control: NDArray[Any] | None,
    ) -> Future[Any]:
        """Return the future of a step's `Frame`; `actions` and `control` as in `Transport.send`.

        `continuation(details, actions, control)` steps and returns the frame's future, done already unless the step is
        in two halves (`send` and `recv`). The frame's arrays are valid until the next step. On the engine's side the
        actions are what the engine reads, and are read-only: others cannot be passed on.
        """
        return continuation(details, actions, control)


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

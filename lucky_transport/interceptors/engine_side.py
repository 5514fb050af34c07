"""Interceptors around what an engine answers: its handlers, its streams and its step, whatever transport they serve."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from typing import Any

from numpy.typing import NDArray

from lucky_transport.call import Call
from lucky_transport.engine import Buffers, CallHandler, StreamHandler
from lucky_transport.errors import LocalProtocolError
from lucky_transport.futures import completed
from lucky_transport.interceptors.interceptor import (
    CallDetails,
    InterceptionPoint,
    Interceptor,
    Side,
    StepDetails,
    chained,
    hooks_of,
    result_of,
)
from lucky_transport.interceptors.streams import InterceptedItems
from lucky_transport.messages.methods import BY_NAME
from lucky_transport.spec.batch_spec import BatchSpec
from lucky_transport.transport import Frame

#: An engine's step.
Step = Callable[[NDArray[Any] | None], None]


class EngineInterceptors:
    """Puts interceptors around the handlers, streams and step of one engine; what none stands around stays as it is."""

    def __init__(self, interceptors: Sequence[Interceptor], spec: BatchSpec) -> None:
        self._point = InterceptionPoint(Side.ENGINE, spec.engine, spec.num_envs)
        self._calls = hooks_of(interceptors, "intercept_call")
        self._streams = hooks_of(interceptors, "intercept_stream")
        self._steps = hooks_of(interceptors, "intercept_step")

    def handlers(self, handlers: Mapping[str, CallHandler]) -> Mapping[str, CallHandler]:
        """Return the handlers of unary methods by full name, each with the interceptors around it."""
        if not self._calls:
            return handlers
        return {name: self._handler(name, handler) for name, handler in handlers.items()}

    def _handler(self, name: str, handler: CallHandler) -> CallHandler:
        method = BY_NAME[name]

        def handle(request: Any, call: Call) -> Any:
            def answer(details: CallDetails, request: Any) -> Future[Any]:
                return completed(lambda: handler(request, call))

            details = CallDetails(self._point, method, call.deadline, caller=call.caller)
            future = chained(self._calls, answer)(details, request)
            return result_of(future, None, name, self._point.engine)

        return handle

    def streams(self, handlers: Mapping[str, StreamHandler]) -> Mapping[str, StreamHandler]:
        """Return the handlers of streams by full name, each with the interceptors around it."""
        if not self._streams:
            return handlers
        return {name: self._stream(name, handler) for name, handler in handlers.items()}

    def _stream(self, name: str, handler: StreamHandler) -> StreamHandler:
        method = BY_NAME[name]

        def serve(request: Any, call: Call) -> Iterator[Any]:
            def items(details: CallDetails, request: Any) -> InterceptedItems:
                return InterceptedItems(iter(handler(request, call)), lambda: call.dropped)

            details = CallDetails(self._point, method, call.deadline, caller=call.caller)
            return chained(self._streams, items)(details, request)

        return serve

    def step(self, step: Step, buffers: Callable[[], Buffers]) -> Step:
        """Return the engine's step for one driver; `buffers` returns those that show the last frame."""
        if not self._steps:
            return step
        actions = buffers().actions.view()
        actions.flags.writeable = False

        def step_now(details: StepDetails, given: NDArray[Any], control: NDArray[Any] | None) -> Future[Frame]:
            if given is not actions:
                raise LocalProtocolError(
                    "an interceptor on the engine's side went on with other actions than it was given",
                    backend=self._point.engine,
                    hint="change actions on the client's side",
                )
            return completed(lambda: _stepped(step, control, buffers))

        run, details, engine = chained(self._steps, step_now), StepDetails(self._point), self._point.engine

        def intercepted(control: NDArray[Any] | None) -> None:
            result_of(run(details, actions, control), None, "a step", engine)

        return intercepted


def _stepped(step: Step, control: NDArray[Any] | None, buffers: Callable[[], Buffers]) -> Frame:
    step(control)
    return Frame.showing(buffers())

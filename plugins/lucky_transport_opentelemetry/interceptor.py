"""Spans and metrics around typed calls, streams and steps, on the client's side and on the engine's.

Names and attributes are those of OpenTelemetry's semantic conventions for RPC of release 1.40 and later:
`rpc.system.name`, a method's full name in `rpc.method`, status codes by their names, durations in seconds. What the
conventions have no name for is in the namespace `lucky_transport`.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from concurrent.futures import CancelledError, Future
from functools import cache
from typing import Any

from opentelemetry import metrics, trace
from opentelemetry.metrics import Histogram, MeterProvider
from opentelemetry.trace import Span, SpanKind, StatusCode, TracerProvider

from lucky_transport.errors import Status, TransportError, status_of
from lucky_transport.interceptors import CallDetails, InterceptionPoint, Interceptor, Side, StepDetails, StreamEnd

__all__ = ["OpenTelemetryInterceptor", "make_interceptor"]

_SCOPE = "lucky_transport"
_SCHEMA = "https://opentelemetry.io/schemas/1.40.0"
_KINDS = {Side.CLIENT: SpanKind.CLIENT, Side.ENGINE: SpanKind.SERVER}
#: The name of a step among methods.
STEP = "lucky_transport.Engine/Step"

#: Those that the conventions advise, from 5 ms on, and smaller ones: a step in shared memory takes microseconds.
BOUNDARIES_S = (
    *(2e-6, 5e-6, 1e-5, 2e-5, 5e-5, 1e-4, 2e-4, 5e-4, 1e-3, 2e-3),
    *(0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 0.75, 1, 2.5, 5, 7.5, 10),
)


class OpenTelemetryInterceptor(Interceptor):
    """Makes a span of each call, stream and step, and measures how long they take.

    Without arguments it uses the process's own providers. spans, metrics: what it makes; a span for each step takes
    longer than a step in shared memory, so that metrics alone disturb fast steps less.

    The provider's exporters and processors belong to its user: the SDK logs what an exporter raises. What a sampler or
    processor raises when a span begins goes to the caller, as from any interceptor.
    """

    def __init__(
        self,
        *,
        tracer_provider: TracerProvider | None = None,
        meter_provider: MeterProvider | None = None,
        spans: bool = True,
        metrics: bool = True,
    ) -> None:
        self._tracer = trace.get_tracer(_SCOPE, tracer_provider=tracer_provider, schema_url=_SCHEMA) if spans else None
        self._durations = _durations(meter_provider) if metrics else {}

    def intercept_call(
        self, continuation: Callable[[CallDetails, Any], Future[Any]], details: CallDetails, request: Any
    ) -> Future[Any]:
        call = self._begin(details.point, details.method.name.removeprefix("/"))
        outcome = call.around(continuation, details, request)
        outcome.add_done_callback(call.end_with)
        return outcome

    def intercept_stream(
        self, continuation: Callable[[CallDetails, Any], Any], details: CallDetails, request: Any
    ) -> Any:
        call = self._begin(details.point, details.method.name.removeprefix("/"))
        stream = call.around(continuation, details, request)
        stream.add_end_callback(call.end_stream)
        return stream

    def intercept_step(
        self,
        continuation: Callable[[StepDetails, Any, Any], Future[Any]],
        details: StepDetails,
        actions: Any,
        control: Any,
    ) -> Future[Any]:
        step = self._begin(details.point, STEP, {"lucky_transport.num_envs": details.point.num_envs})
        outcome = step.around(continuation, details, actions, control)
        outcome.add_done_callback(step.end_with)
        return outcome

    def _begin(self, point: InterceptionPoint, method: str, more: dict[str, Any] | None = None) -> _Call:
        attributes = point_attributes(point, method)
        span = None
        if self._tracer is not None:
            span = self._tracer.start_span(method, kind=_KINDS[point.side], attributes=attributes | (more or {}))
        return _Call(point.side, span, self._durations.get(point.side), attributes)


class _Call:
    """A call, stream or step that goes on: its span, and when it began."""

    __slots__ = ("_attributes", "_began_ns", "_duration", "_side", "_span")

    def __init__(self, side: Side, span: Span | None, duration: Histogram | None, attributes: dict[str, Any]) -> None:
        self._side, self._span, self._duration, self._attributes = side, span, duration, attributes
        self._began_ns = time.perf_counter_ns()

    def around(self, continuation: Callable[..., Any], *arguments: Any) -> Any:
        """Go on, within the span; a failure that comes at once ends it."""
        try:
            if self._span is None:
                return continuation(*arguments)
            with trace.use_span(self._span, record_exception=False, set_status_on_exception=False):
                return continuation(*arguments)
        except BaseException as error:
            self._end(error)
            raise

    def end_with(self, outcome: Future[Any]) -> None:
        """End it as the future ended."""
        self._end(CancelledError() if outcome.cancelled() else outcome.exception())

    def end_stream(self, end: StreamEnd) -> None:
        """End it as the stream ended."""
        if self._span is not None:
            self._span.set_attribute("lucky_transport.stream.items", end.items)
            self._span.set_attribute("lucky_transport.stream.dropped", end.dropped)
        self._end(end.error)

    def _end(self, error: BaseException | None) -> None:
        took_s = (time.perf_counter_ns() - self._began_ns) * 1e-9
        ended = _ended_attributes(self._side, error)
        if self._duration is not None:
            self._duration.record(took_s, self._attributes | ended)
        if self._span is not None:
            self._span.set_attributes(ended)
            if "error.type" in ended:
                self._span.set_status(trace.Status(StatusCode.ERROR, str(error)))
            self._span.end()


def _durations(provider: MeterProvider | None) -> dict[Side, Histogram]:
    """Return the histogram of each side."""
    meter = metrics.get_meter(_SCOPE, meter_provider=provider, schema_url=_SCHEMA)
    texts = {
        Side.CLIENT: ("rpc.client.call.duration", "Measures the duration of outbound calls, streams and steps."),
        Side.ENGINE: ("rpc.server.call.duration", "Measures the duration of inbound calls, streams and steps."),
    }
    return {
        side: meter.create_histogram(name, "s", text, explicit_bucket_boundaries_advisory=BOUNDARIES_S)
        for side, (name, text) in texts.items()
    }


def point_attributes(point: InterceptionPoint, method: str) -> dict[str, Any]:
    """Return what is known before a call or step of `method` begins; `method` as in `rpc.method`."""
    attributes: dict[str, Any] = {
        "rpc.system.name": "grpc" if point.transport == "grpc" else _SCOPE,
        "rpc.method": method,
        "lucky_transport.engine": point.engine,
    }
    if point.side is Side.ENGINE:
        return attributes
    attributes["lucky_transport.transport"] = point.transport
    if point.endpoint is not None and point.endpoint.address:
        attributes |= _server(point.endpoint.scheme, point.endpoint.address)
    return attributes


def _server(scheme: str, address: str) -> dict[str, Any]:
    """Return the attributes of where the engine is: host and port, or the name of a socket or segment."""
    host, colon, port = address.rpartition(":")
    if scheme == "grpc+unix":
        return {"server.address": address, "network.transport": "unix"}
    if colon and port.isdecimal():
        return {"server.address": host.strip("[]"), "server.port": int(port), "network.transport": "tcp"}
    return {"server.address": address}


#: What the conventions for gRPC call an error of the server; all others are the client's own doing.
_SERVER_ERRORS = frozenset(
    (
        Status.UNKNOWN,
        Status.DEADLINE_EXCEEDED,
        Status.UNIMPLEMENTED,
        Status.INTERNAL,
        Status.UNAVAILABLE,
        Status.DATA_LOSS,
    )
)


def _ended_attributes(side: Side, error: BaseException | None) -> dict[str, Any]:
    """Return what is known when it has ended: the status, and "error.type" where this side calls it a failure."""
    if error is None:
        return {"rpc.response.status_code": Status.OK.name}
    if isinstance(error, CancelledError | asyncio.CancelledError | GeneratorExit):
        code = Status.CANCELLED
    elif isinstance(error, TransportError):
        code = status_of(error)
    else:
        return {"error.type": f"{type(error).__module__}.{type(error).__qualname__}".removeprefix("builtins.")}
    attributes = {"rpc.response.status_code": code.name}
    if side is Side.CLIENT or code in _SERVER_ERRORS:
        attributes["error.type"] = code.name
    return attributes


@cache
def make_interceptor(variant: str) -> OpenTelemetryInterceptor:
    """Return the interceptor that the setting `interceptors` names; "metrics" makes no spans."""
    return OpenTelemetryInterceptor(spans=variant != "metrics")

"""Spans and metrics around typed calls, streams and steps, on the client's side and on the engine's."""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import CancelledError, Future
from functools import cache
from typing import Any

from opentelemetry import metrics, trace
from opentelemetry.metrics import Histogram, MeterProvider
from opentelemetry.trace import Span, SpanKind, Status, StatusCode, TracerProvider

from lucky_transport.interceptors import CallDetails, InterceptionPoint, Interceptor, Side, StepDetails, StreamEnd
from lucky_transport_opentelemetry.attributes import BOUNDARIES_S, STEP, ended_attributes, point_attributes

__all__ = ["OpenTelemetryInterceptor", "make_interceptor"]

_SCOPE = "lucky_transport"
_SCHEMA = "https://opentelemetry.io/schemas/1.40.0"
_KINDS = {Side.CLIENT: SpanKind.CLIENT, Side.ENGINE: SpanKind.SERVER}


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
        ended = ended_attributes(self._side, error)
        if self._duration is not None:
            self._duration.record(took_s, self._attributes | ended)
        if self._span is not None:
            self._span.set_attributes(ended)
            if "error.type" in ended:
                self._span.set_status(Status(StatusCode.ERROR, str(error)))
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


@cache
def make_interceptor(variant: str) -> OpenTelemetryInterceptor:
    """Return the interceptor that the setting `interceptors` names; "metrics" makes no spans."""
    return OpenTelemetryInterceptor(spans=variant != "metrics")

"""Spans and metrics of calls, streams and steps, by the semantic conventions for RPC, on both sides."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

pytest.importorskip("opentelemetry.sdk", reason="opentelemetry-sdk is not installed")

from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor, SpanExporter, SpanExportResult
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, StatusCode

import lucky_transport
from lucky_transport import api
from lucky_transport.config import load_settings
from lucky_transport.endpoint import Endpoint
from lucky_transport.errors import Unimplemented
from lucky_transport.interceptors import InterceptionPoint, Side, StepDetails
from lucky_transport.messages import TelemetryFrame
from lucky_transport.messages.methods import method
from lucky_transport.process import unique_name
from lucky_transport_opentelemetry import OpenTelemetryInterceptor
from lucky_transport_opentelemetry.interceptor import point_attributes
from tests.support.scripted_engine import ScriptedEngine
from tests.support.waiting import until

GET_SCHEMA = method("AgentService/GetAgentSchema")
DRAW = method("DebugService/Draw")
TELEMETRY = method("TelemetryService/StreamTelemetry")
SCHEMA_NAME = "hazel.rpc.AgentService/GetAgentSchema"
STEP = "lucky_transport.Engine/Step"


class Sdk:
    """Providers that keep what they get in memory, and an interceptor that uses them."""

    def __init__(self, **options: Any) -> None:
        self.exporter = InMemorySpanExporter()
        self.tracers = TracerProvider()
        self.tracers.add_span_processor(SimpleSpanProcessor(self.exporter))
        self._reader = InMemoryMetricReader()
        self._meters = MeterProvider([self._reader])
        self.interceptor = OpenTelemetryInterceptor(
            tracer_provider=self.tracers, meter_provider=self._meters, **options
        )

    @property
    def spans(self) -> tuple[ReadableSpan, ...]:
        return self.exporter.get_finished_spans()

    def durations(self, metric: str) -> dict[tuple[Any, Any], int]:
        """Return (method, status) -> measurements, of one histogram."""
        data: Any = self._reader.get_metrics_data()
        points = [
            point
            for resource in data.resource_metrics
            for scope in resource.scope_metrics
            for one in scope.metrics
            if one.name == metric and one.unit == "s"
            for point in one.data.data_points
        ]
        return {
            (point.attributes["rpc.method"], point.attributes.get("rpc.response.status_code")): point.count
            for point in points
        }


@pytest.fixture
def client() -> Sdk:
    return Sdk()


@contextmanager
def connected(client: Sdk, engine: Sdk | None = None, served: Any = "toy", to: str = "shm://{}") -> Iterator[Any]:
    """Yield a transport with the interceptor of its client, and of its engine where one is given."""
    inside = [] if engine is None else [engine.interceptor]
    with (
        api.serve(served, to.format(unique_name()), interceptors=inside) as serving,
        api.open_transport(serving.endpoints[0], load_settings({"interceptors": [client.interceptor]})) as transport,
    ):
        yield transport


def test_a_call_is_a_span_and_a_duration_on_both_sides(client: Sdk) -> None:
    engine, name = Sdk(), unique_name()
    with connected(client, engine, to=f"shm://{name}") as transport:
        transport.call(GET_SCHEMA, GET_SCHEMA.request("agent_0"))
        until(lambda: engine.spans)
    (outbound,), (inbound,) = client.spans, engine.spans
    assert (outbound.name, outbound.kind) == (SCHEMA_NAME, SpanKind.CLIENT)
    assert dict(outbound.attributes or {}) == {
        "rpc.system.name": "lucky_transport",
        "rpc.method": SCHEMA_NAME,
        "rpc.response.status_code": "OK",
        "server.address": name,
        "lucky_transport.transport": "shm",
        "lucky_transport.engine": "toy",
    }
    assert outbound.status.status_code is StatusCode.UNSET
    assert (inbound.name, inbound.kind) == (SCHEMA_NAME, SpanKind.SERVER)
    assert (inbound.attributes or {})["rpc.response.status_code"] == "OK"
    assert client.durations("rpc.client.call.duration") == {(SCHEMA_NAME, "OK"): 1}
    assert engine.durations("rpc.server.call.duration") == {(SCHEMA_NAME, "OK"): 1}


@pytest.mark.parametrize("scheme", ["inproc", "shm"])
def test_a_span_of_the_caller_is_the_parent(client: Sdk, scheme: str) -> None:
    with (
        connected(client, to=scheme + "://{}") as transport,
        client.tracers.get_tracer("test").start_as_current_span("episode") as episode,
    ):
        transport.call(GET_SCHEMA, GET_SCHEMA.request("agent_0"))
    (call, _) = client.spans
    assert call.parent is not None
    assert call.parent.span_id == episode.get_span_context().span_id


def test_a_failed_call_says_which_status_it_ended_with(client: Sdk) -> None:
    engine = Sdk()
    with connected(client, engine) as transport, pytest.raises(Unimplemented) as raised:
        transport.call(DRAW, DRAW.request())
    (span,) = client.spans
    attributes = dict(span.attributes or {})
    assert (attributes["rpc.response.status_code"], attributes["error.type"]) == ("UNIMPLEMENTED", "UNIMPLEMENTED")
    assert (span.status.status_code, span.status.description) == (StatusCode.ERROR, str(raised.value))
    assert client.durations("rpc.client.call.duration") == {("hazel.rpc.DebugService/Draw", "UNIMPLEMENTED"): 1}
    assert engine.spans == ()  # the engine has no handler of it


def test_an_errors_class_is_told_where_it_has_no_status(client: Sdk) -> None:
    def divide(*_: Any) -> Any:
        return 1 // 0

    point = InterceptionPoint(Side.CLIENT, "toy", 1, "inproc", None)
    with pytest.raises(ZeroDivisionError):
        client.interceptor.intercept_step(divide, StepDetails(point), None, None)
    attributes = dict(client.spans[0].attributes or {})
    assert attributes["error.type"] == "ZeroDivisionError"
    assert "rpc.response.status_code" not in attributes


def test_a_streams_span_counts_its_items(client: Sdk) -> None:
    engine, two = Sdk(), [TelemetryFrame(frame_number=number) for number in range(2)]
    served = ScriptedEngine(streams={TELEMETRY.name: lambda request, call: iter(two)})
    with connected(client, engine, served) as transport:
        assert len(list(transport.stream(TELEMETRY, TELEMETRY.request()))) == 2
        until(lambda: engine.spans)
    for side in (client, engine):
        (span,) = side.spans
        attributes = dict(span.attributes or {})
        assert attributes["lucky_transport.stream.items"] == 2
        assert attributes["lucky_transport.stream.dropped"] == 0
        assert attributes["rpc.response.status_code"] == "OK"


def test_steps_of_an_env_are_spans_on_both_sides(client: Sdk) -> None:
    engine = Sdk()
    with (
        api.serve("toy", f"shm://{unique_name()}", num_envs=3, interceptors=[engine.interceptor]) as serving,
        lucky_transport.make(endpoint=str(serving.endpoints[0]), interceptors=[client.interceptor]) as env,
    ):
        env.reset(seed=1)
        env.step(env.action_space.sample())
        env.step_async(env.action_space.sample())
        env.step_wait()
    for side in (client, engine):
        steps = [span for span in side.spans if span.name == STEP]
        assert len(steps) == 3
        assert all((span.attributes or {})["lucky_transport.num_envs"] == 3 for span in steps)
    assert client.durations("rpc.client.call.duration")[STEP, "OK"] == 3
    assert engine.durations("rpc.server.call.duration")[STEP, "OK"] == 3


def test_metrics_alone_make_no_spans() -> None:
    sdk = Sdk(spans=False)
    with connected(sdk) as transport:
        transport.call(GET_SCHEMA, GET_SCHEMA.request("agent_0"))
    assert sdk.spans == ()
    assert sdk.durations("rpc.client.call.duration") == {(SCHEMA_NAME, "OK"): 1}


def test_what_an_exporter_raises_is_logged_and_never_the_callers(caplog: pytest.LogCaptureFixture) -> None:
    class Broken(SpanExporter):
        def export(self, spans: Any) -> SpanExportResult:
            raise OSError("the collector is gone")

    sdk = Sdk()
    sdk.tracers.add_span_processor(SimpleSpanProcessor(Broken()))
    with connected(sdk) as transport:
        assert transport.call(GET_SCHEMA, GET_SCHEMA.request("agent_0")).schema.agent_name == "agent_0"
    assert any("Exception while exporting" in record.getMessage() for record in caplog.records)


@pytest.mark.parametrize(
    ("transport", "endpoint", "expected"),
    [
        ("grpc", "grpc://127.0.0.1:50051", {"server.address": "127.0.0.1", "server.port": 50051}),
        ("grpc", "grpc://[::1]:50051", {"server.address": "::1", "server.port": 50051}),
        ("grpc", "grpc+unix:///run/x.sock", {"server.address": "/run/x.sock"}),
        ("shm", "shm://demo", {"server.address": "demo"}),
        ("inproc", "inproc:", {}),
    ],
)
def test_where_the_engine_is_follows_the_endpoint(transport: str, endpoint: str, expected: dict[str, Any]) -> None:
    found = point_attributes(InterceptionPoint(Side.CLIENT, "toy", 1, transport, Endpoint.parse(endpoint)), "a.B/C")
    assert {key: value for key, value in found.items() if key.startswith("server.")} == expected
    assert found["rpc.system.name"] == ("grpc" if transport == "grpc" else "lucky_transport")


@pytest.mark.parametrize("name", ["opentelemetry", "opentelemetry:metrics"])
def test_one_variable_turns_it_on(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """Without an SDK in this process nothing is recorded, and the program does not notice."""
    monkeypatch.setenv("LUCKY_INTERCEPTORS", name)
    with lucky_transport.make("toy", transport="inproc") as env:
        assert type(env.transport).__name__ == "InterceptedTransport"
        env.reset(seed=0)
        env.step(env.action_space.sample())
        assert env.client.agent.get_agent_schema("agent_0").schema is not None

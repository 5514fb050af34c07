"""OpenTelemetry's instrumentation of grpcio, on both sides: the spans that it makes, and whose child each is."""

import json
from contextlib import contextmanager

import grpc
from opentelemetry import trace
from opentelemetry.instrumentation.grpc import GrpcInstrumentorClient, GrpcInstrumentorServer
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from serving import add_echo, ask_echo, serving


def _traced(instrumentor):
    spans, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(spans))
    trace.set_tracer_provider(provider)
    instrumentor().instrument()
    return spans


def _plain(spans):
    for span in spans.get_finished_spans():
        parent = f"{span.parent.span_id:x}" if span.parent else ""
        yield [span.name, span.kind.name, span.status.status_code.name, parent, f"{span.context.span_id:x}"]


@contextmanager
def server(port):
    """Serve lab.Echo, traced, and the spans of this side."""
    spans = _traced(GrpcInstrumentorServer)

    def add(server):
        add_echo(server)
        tell = grpc.unary_unary_rpc_method_handler(lambda request, context: json.dumps(list(_plain(spans))).encode())
        server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("lab.Spans", {"Get": tell}),))

    with serving(port, add):
        yield


@contextmanager
def client(port):
    """Ask lab.Echo, and match the spans of both sides."""
    spans = _traced(GrpcInstrumentorClient)
    with grpc.insecure_channel(f"127.0.0.1:{port}") as channel:
        answers, small = ask_echo(channel)

        def equal():
            answered = answers()
            far = json.loads(channel.unary_unary("/lab.Spans/Get")(b"", timeout=30))
            near = {span[4]: span[0] for span in _plain(spans)}
            return {
                "echo": answered,
                "client": sorted(span[:3] for span in _plain(spans)),
                "server": sorted([*span[:3], near.get(span[3], "nobody's")] for span in far if "Echo" in span[0]),
            }

        yield equal, small, small

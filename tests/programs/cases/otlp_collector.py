"""OpenTelemetry's OTLP exporter, one span an export, and a collector that says which spans it has."""

import json
from contextlib import contextmanager

import grpc
from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import OTLPSpanExporter
from opentelemetry.proto.collector.trace.v1 import trace_service_pb2, trace_service_pb2_grpc
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor


class Collector(trace_service_pb2_grpc.TraceServiceServicer):
    """Keeps the names and attributes of spans."""

    def __init__(self):
        self.spans = []

    def Export(self, request, context):
        for resource in request.resource_spans:
            for scope in resource.scope_spans:
                for span in scope.spans:
                    attributes = {one.key: one.value.int_value for one in span.attributes}
                    self.spans.append([span.name, attributes, [event.name for event in span.events]])
        return trace_service_pb2.ExportTraceServiceResponse()

    def add(self, server):
        """Serve the collector, and what it has."""
        trace_service_pb2_grpc.add_TraceServiceServicer_to_server(self, server)
        spans = grpc.unary_unary_rpc_method_handler(lambda request, context: json.dumps(self.spans).encode())
        server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("lab.Collected", {"Spans": spans}),))


register = Collector().add


@contextmanager
def client(port):
    """Trace, and ask the collector."""
    exporter = OTLPSpanExporter(f"http://127.0.0.1:{port}", insecure=True, timeout=60)
    provider = TracerProvider(resource=Resource.create({"service.name": "program"}))
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    tracer = provider.get_tracer("lab")

    def span(number=0):
        with tracer.start_as_current_span(f"step {number}", attributes={"number": number}) as one:
            one.add_event("moved")

    def equal():
        for number in range(100):
            span(number)
        with grpc.insecure_channel(f"127.0.0.1:{port}") as channel:
            return {"spans": json.loads(channel.unary_unary("/lab.Collected/Spans")(b"", timeout=60))}

    yield equal, span, span
    provider.shutdown()

"""ddtrace's instrumentation of grpcio, on both sides: what it sends along, and what its spans are."""

import os
from contextlib import contextmanager

os.environ |= {"DD_INSTRUMENTATION_TELEMETRY_ENABLED": "false", "DD_REMOTE_CONFIGURATION_ENABLED": "false"}

import ddtrace
from ddtrace.trace import TraceFilter, tracer

ddtrace.patch(grpc=True)

import grpc
from serving import add_echo, ask_echo, serving


class _Kept(TraceFilter):
    """Keeps the spans, for there is no agent."""

    def __init__(self):
        self.spans = []

    def process_trace(self, trace):
        self.spans += [[span.name, span.resource, span.error] for span in trace]


def _add(server):
    add_echo(server)
    sent = grpc.unary_unary_rpc_method_handler(
        lambda request, context: str("x-datadog-trace-id" in dict(context.invocation_metadata())).encode()
    )
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("lab.Sent", {"Trace": sent}),))


@contextmanager
def server(port):
    """Serve lab.Echo, traced."""
    tracer.configure(trace_processors=[_Kept()])
    with serving(port, _add):
        yield


@contextmanager
def client(port):
    """Ask lab.Echo, traced."""
    kept = _Kept()
    tracer.configure(trace_processors=[kept])
    with grpc.insecure_channel(f"127.0.0.1:{port}") as channel:
        answers, small = ask_echo(channel)

        def equal():
            answered = answers()
            is_sent = channel.unary_unary("/lab.Sent/Trace")(b"", timeout=30).decode()
            return {"echo": answered, "sent": is_sent, "spans": sorted(kept.spans)}

        yield equal, small, small

"""OpenTelemetry's own instrumentation of gRPC in an unmodified program, whose stubs and server are on shared memory."""

from __future__ import annotations

import json
import secrets
import sys
from pathlib import Path

import pytest

from tests.support.fixtures.plugins_stubs_run import Launch
from tests.support.ports import free_port

pytest.importorskip("opentelemetry.sdk", reason="opentelemetry-sdk is not installed")
pytest.importorskip("opentelemetry.instrumentation.grpc", reason="opentelemetry-instrumentation-grpc is not installed")

#: Serves and calls itself at a port, and prints its spans, as [name, kind, status, trace, span, parent].
PROGRAM = """
import json
import sys
from concurrent import futures

import grpc
from opentelemetry import trace
from opentelemetry.instrumentation.grpc import GrpcInstrumentorClient, GrpcInstrumentorServer
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

exporter = InMemorySpanExporter()
provider = TracerProvider()
provider.add_span_processor(SimpleSpanProcessor(exporter))
trace.set_tracer_provider(provider)
GrpcInstrumentorClient().instrument()
GrpcInstrumentorServer().instrument()


def fail(request, context):
    context.abort(grpc.StatusCode.NOT_FOUND, "nothing here")


class Service(grpc.GenericRpcHandler):
    def service(self, details):
        if details.method == "/t.T/Echo":
            return grpc.unary_unary_rpc_method_handler(lambda request, context: request)
        if details.method == "/t.T/Count":
            return grpc.unary_stream_rpc_method_handler(lambda request, context: iter([b"1", b"2"]))
        if details.method == "/t.T/Fail":
            return grpc.unary_unary_rpc_method_handler(fail)


server = grpc.server(futures.ThreadPoolExecutor(4))
server.add_generic_rpc_handlers((Service(),))
server.add_insecure_port(sys.argv[1])
server.start()
with grpc.insecure_channel(sys.argv[1]) as channel:
    assert channel.unary_unary("/t.T/Echo")(b"hello", timeout=10) == b"hello"
    assert list(channel.unary_stream("/t.T/Count")(b"", timeout=10)) == [b"1", b"2"]
    try:
        channel.unary_unary("/t.T/Fail")(b"", timeout=10)
    except grpc.RpcError as error:
        assert error.code() is grpc.StatusCode.NOT_FOUND
server.stop(5).wait(10)
hexed = lambda context: context and f"{context.span_id:x}"
print(json.dumps([
    [span.name, span.kind.name, span.attributes["rpc.grpc.status_code"], span.context.trace_id, hexed(span.context),
     hexed(span.parent)]
    for span in exporter.get_finished_spans()
]))
"""


@pytest.mark.parametrize("transport", ["grpc", "shm"])
def test_spans_of_stubs_and_servers_are_those_over_grpc(launch: Launch, tmp_path: Path, transport: str) -> None:
    (tmp_path / "program.py").write_text(PROGRAM)
    address = f"127.0.0.1:{free_port()}"
    name = f"traced_{secrets.token_hex(4)}"
    options = ("--transport", transport, "--map", f"{address}=shm://{name}")
    done = launch(*options, command=[sys.executable, "-W", "ignore", str(tmp_path / "program.py"), address])
    assert done.returncode == 0, done.stderr
    spans = json.loads(done.stdout.splitlines()[-1])
    ours = {"shm": "3 calls over shared memory, 0 over gRPC", "grpc": "0 calls over shared memory, 3 over gRPC"}[
        transport
    ]
    assert ours in done.stderr, done.stderr
    seen = sorted((span, kind, status) for span, kind, status, *_ in spans)
    assert seen == [
        ("/t.T/Count", "CLIENT", 0),
        ("/t.T/Count", "SERVER", 0),
        ("/t.T/Echo", "CLIENT", 0),
        ("/t.T/Echo", "SERVER", 0),
        ("/t.T/Fail", "CLIENT", 5),
        ("/t.T/Fail", "SERVER", 5),
    ]
    for method in ("/t.T/Echo", "/t.T/Count", "/t.T/Fail"):  # the context travels with the call, as metadata
        client, server = (next(one for one in spans if one[:2] == [method, kind]) for kind in ("CLIENT", "SERVER"))
        assert (server[3], server[5]) == (client[3], client[4])


def test_its_launcher_does_not_keep_a_program_from_the_switch(launch: Launch) -> None:
    """Its sitecustomize comes first on PYTHONPATH, and runs no other."""
    instrument = Path(sys.executable).with_name("opentelemetry-instrument")
    if not instrument.exists():
        pytest.skip("opentelemetry-instrument is not installed")
    exporters = [f"--{signal}_exporter=none" for signal in ("traces", "metrics", "logs")]
    code = "import grpc; grpc.insecure_channel('localhost:50051').unary_unary('/t.T/Echo').future(b'').cancel()"
    name = f"otel_{secrets.token_hex(4)}"
    done = launch(
        *("--transport", "shm", "--endpoint", f"shm://{name}"),
        command=[str(instrument), *exporters, sys.executable, "-c", code],
    )
    assert done.returncode == 0, done.stderr
    assert f"localhost:50051 goes to shm://{name}" in done.stderr
    assert "1 call over shared memory, 0 over gRPC, by 1 process" in done.stderr

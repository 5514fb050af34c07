"""py-grpc-prometheus: its interceptors on both sides, and what they counted."""

import json
from contextlib import contextmanager

import grpc
from prometheus_client import REGISTRY
from py_grpc_prometheus.prometheus_client_interceptor import PromClientInterceptor
from py_grpc_prometheus.prometheus_server_interceptor import PromServerInterceptor
from serving import add_echo, ask_echo, serving


def _counted():
    samples = [sample for family in REGISTRY.collect() for sample in family.samples]
    return sorted(
        [one.name, sorted(one.labels.items()), one.value]
        for one in samples
        if one.name.startswith("grpc_") and one.name.endswith("_total") and "Echo" in one.labels.get("grpc_service", "")
    )


@contextmanager
def server(port):
    """Serve lab.Echo, counted, and the counts of this side."""

    def add(server):
        add_echo(server)
        tell = grpc.unary_unary_rpc_method_handler(lambda request, context: json.dumps(_counted()).encode())
        server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("lab.Counts", {"Get": tell}),))

    with serving(port, add, interceptors=(PromServerInterceptor(),)):
        yield


@contextmanager
def client(port):
    """Ask lab.Echo, and read the counts of both sides."""
    with grpc.insecure_channel(f"127.0.0.1:{port}") as bare:
        channel = grpc.intercept_channel(bare, PromClientInterceptor())
        answers, small = ask_echo(channel)

        def equal():
            answered = answers()
            far = json.loads(bare.unary_unary("/lab.Counts/Get")(b"", timeout=30))
            return {"echo": answered, "client": json.loads(json.dumps(_counted())), "server": far}

        yield equal, small, small

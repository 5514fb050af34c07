"""grpcio-testing's fake channel and server beside real ones: `run` leaves them as they are."""

import threading
from contextlib import contextmanager

import grpc
import grpc_testing
from grpc_health.v1 import health, health_pb2
from serving import add_echo, ask_echo

_SERVICE = health_pb2.DESCRIPTOR.services_by_name["Health"]
_CHECK = _SERVICE.methods_by_name["Check"]


register = add_echo


def _from_fake_channel():
    fake = grpc_testing.channel([_SERVICE], grpc_testing.strict_real_time())
    answers = []
    call = fake.unary_unary(
        "/grpc.health.v1.Health/Check",
        health_pb2.HealthCheckRequest.SerializeToString,
        health_pb2.HealthCheckResponse.FromString,
    )
    asking = threading.Thread(
        target=lambda: answers.append(call(health_pb2.HealthCheckRequest(service="a"), timeout=30))
    )
    asking.start()
    _, request, rpc = fake.take_unary_unary(_CHECK)
    rpc.terminate(health_pb2.HealthCheckResponse(status=1), (), grpc.StatusCode.OK, "")
    asking.join(30)
    return [request.service, answers[0].status]


def _from_fake_server():
    servicer = health.HealthServicer()
    servicer.set("a", health_pb2.HealthCheckResponse.SERVING)
    fake = grpc_testing.server_from_dictionary({_SERVICE: servicer}, grpc_testing.strict_real_time())
    rpc = fake.invoke_unary_unary(_CHECK, (), health_pb2.HealthCheckRequest(service="a"), None)
    response, _, code, _ = rpc.termination()
    return [response.status, code.name]


@contextmanager
def client(port):
    """Ask the fakes and lab.Echo."""
    with grpc.insecure_channel(f"127.0.0.1:{port}") as channel:
        answers, small = ask_echo(channel)
        yield (
            lambda: {"echo": answers(), "fake channel": _from_fake_channel(), "fake server": _from_fake_server()},
            small,
            small,
        )

"""The clients of gRPC's own services: health, reflection, channelz."""

from contextlib import contextmanager

import grpc
from grpc_channelz.v1 import channelz, channelz_pb2, channelz_pb2_grpc
from grpc_health.v1 import health, health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import proto_reflection_descriptor_database, reflection
from serving import add_echo, ask_echo


def register(server):
    """Serve all three beside lab.Echo."""
    add_echo(server)
    servicer = health.HealthServicer()
    servicer.set("lab.Echo", health_pb2.HealthCheckResponse.SERVING)
    servicer.set("lab.Other", health_pb2.HealthCheckResponse.NOT_SERVING)
    health_pb2_grpc.add_HealthServicer_to_server(servicer, server)
    reflection.enable_server_reflection((health.SERVICE_NAME, reflection.SERVICE_NAME), server)
    channelz.add_channelz_servicer(server)


@contextmanager
def client(port):
    """Ask each."""
    with grpc.insecure_channel(f"127.0.0.1:{port}") as channel:
        stub = health_pb2_grpc.HealthStub(channel)
        answers, _ = ask_echo(channel)

        def check(service="lab.Echo"):
            try:
                return stub.Check(health_pb2.HealthCheckRequest(service=service), timeout=30).status
            except grpc.RpcError as error:
                return error.code().name

        def equal():
            watch = stub.Watch(health_pb2.HealthCheckRequest(service="lab.Other"), timeout=30)
            watched = next(watch).status
            watch.cancel()
            database = proto_reflection_descriptor_database.ProtoReflectionDescriptorDatabase(channel)
            servers = channelz_pb2_grpc.ChannelzStub(channel).GetServers(channelz_pb2.GetServersRequest(), timeout=30)
            return {
                "health": [check(), check("lab.Other"), check("lab.Unknown"), watched],
                "services": sorted(database.get_services()),
                "file": str(database.FindFileContainingSymbol("grpc.health.v1.Health")),
                "channelz": [len(servers.server), servers.end],
                "echo": answers(),
            }

        yield equal, check, check

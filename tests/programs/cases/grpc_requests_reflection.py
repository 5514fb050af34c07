"""grpc-requests: a client that knows a service only by its reflection, with and without asyncio."""

import asyncio
from contextlib import contextmanager

import grpc
from grpc_health.v1 import health, health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection
from grpc_requests import Client
from grpc_requests.aio import AsyncClient
from serving import serving

_HEALTH = "grpc.health.v1.Health"


def _add(server):
    servicer = health.HealthServicer()
    servicer.set("arm", health_pb2.HealthCheckResponse.SERVING)
    health_pb2_grpc.add_HealthServicer_to_server(servicer, server)
    reflection.enable_server_reflection((_HEALTH, reflection.SERVICE_NAME), server)


def server(port):
    """Serve health with reflection."""
    return serving(port, _add)


@contextmanager
def client(port):
    """Ask by names and dicts."""
    asking = Client.get_by_endpoint(f"127.0.0.1:{port}")

    def check(service="arm"):
        try:
            return asking.request(_HEALTH, "Check", {"service": service}, timeout=30)
        except grpc.RpcError as error:
            return [error.code().name, error.details()]

    async def ask():
        found = AsyncClient(f"127.0.0.1:{port}")
        checked = await (await found.service(_HEALTH)).Check({"service": "arm"})
        async for one in await found.unary_stream(_HEALTH, "Watch", {"service": "leg"}):
            await found.channel.close()
            return [await_names, checked, one] if (await_names := sorted(await found.service_names())) else None

    def equal():
        watched = asking.unary_stream(_HEALTH, "Watch", {"service": "leg"}, timeout=30)
        return {
            "services": sorted(asking.service_names),
            "methods": {name: str(one.method_type) for name, one in asking.get_methods_meta(_HEALTH).items()},
            "checked": [check(), check("unknown")],
            "watched": next(watched),
            "asyncio": asyncio.run(ask()),
        }

    yield equal, check, check

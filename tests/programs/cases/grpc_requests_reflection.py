"""grpc-requests: a client that knows a service only by its reflection, with and without asyncio."""

import asyncio
from contextlib import contextmanager

from grpc_health.v1 import health, health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection
from grpc_requests import Client
from grpc_requests.aio import AsyncClient
from serving import answer_of

_HEALTH = "grpc.health.v1.Health"


def register(server):
    """Serve health with reflection."""
    servicer = health.HealthServicer()
    servicer.set("arm", health_pb2.HealthCheckResponse.SERVING)
    health_pb2_grpc.add_HealthServicer_to_server(servicer, server)
    reflection.enable_server_reflection((_HEALTH, reflection.SERVICE_NAME), server)


@contextmanager
def client(port):
    """Ask by names and dicts."""
    asking = Client.get_by_endpoint(f"127.0.0.1:{port}")

    def check(service="arm"):
        return answer_of(lambda: asking.request(_HEALTH, "Check", {"service": service}, timeout=30))

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

"""What lets others find out about a server: gRPC reflection (v1alpha, as luckyrobots uses it) and health.

Both are courtesies. Without their packages the server serves all the same, and says so in its log.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import Any

from google.protobuf import descriptor_pool

from lucky_transport_grpc import _pb

__all__ = ["add_discovery"]

_log = logging.getLogger("lucky_transport")
_REMEDY = "pip install 'lucky-transport[grpc]'"


def add_discovery(server: Any, services: Sequence[str]) -> Callable[[], None]:
    """Add reflection and health to a gRPC server; the result, when called, reports all services as not serving."""
    also, shut_down = _add_health(server, services)
    _add_reflection(server, [*services, *also])
    return shut_down


def _add_health(server: Any, services: Sequence[str]) -> tuple[list[str], Callable[[], None]]:
    try:
        from grpc_health.v1 import health, health_pb2, health_pb2_grpc
    except ImportError as error:
        _log.warning("grpc: no health service (%s); %s", error, _REMEDY)
        return [], lambda: None
    servicer: Any = health.HealthServicer()
    health_pb2_grpc.add_HealthServicer_to_server(servicer, server)
    serving: Any = health_pb2.HealthCheckResponse
    for name in services:
        servicer.set(name, serving.SERVING)
    return [health.SERVICE_NAME], servicer.enter_graceful_shutdown


def _add_reflection(server: Any, services: Sequence[str]) -> None:
    try:
        from grpc_reflection.v1alpha import reflection
    except ImportError as error:
        _log.warning("grpc: no reflection (%s); %s", error, _REMEDY)
        return
    pools: Any = _Pools()
    reflection.enable_server_reflection([*services, reflection.SERVICE_NAME], server, pool=pools)


class _Pools:
    """Our private pool, then the default one, where the health and reflection services themselves are described."""

    def __getattr__(self, name: str) -> Callable[..., Any]:
        def find(*arguments: Any) -> Any:
            try:
                return getattr(_pb.POOL, name)(*arguments)
            except KeyError:
                return getattr(descriptor_pool.Default(), name)(*arguments)

        return find

"""Everything that a host offers in protobuf: each method of the table, our BatchService, reflection and health.

    services = HostServices(host, house)
    services.add_to(server)              a grpc.Server, or whatever takes handlers as one does

It knows no server. Its owner adds it to one, reports clients that left, and closes it in two steps: `close` ends what
clients wait for, and when no call is under way any more, `release` gives the engine back.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from lucky_transport.agents.agents import AgentHost
from lucky_transport_grpc.agent_resets import GrpcResets
from lucky_transport_grpc.agent_steps import GrpcSteps
from lucky_transport_grpc.batch_service import BatchService
from lucky_transport_grpc.caller import Caller, ServerContext
from lucky_transport_grpc.discovery import add_discovery
from lucky_transport_grpc.routes import Routes
from lucky_transport_grpc.typed_service import typed_handlers, typed_streams

__all__ = ["HostServices"]


class HostServices:
    """The services of `host` for the callers of `house`."""

    def __init__(self, host: AgentHost, house: ServerContext) -> None:
        self._host = host
        self._house = house
        self._batches = BatchService(host.agents)
        self._not_serving: list[Callable[[], None]] = []
        direct: dict[str, Callable[[Any, Caller], Any]] = {
            "/hazel.rpc.AgentService/Step": GrpcSteps(host.agents),
            "/hazel.rpc.AgentService/ResetAgent": GrpcResets(host.agents),
        }
        unary = {
            **typed_handlers(host),
            **{path: handler for path, handler in direct.items() if path in host.agents.answered},
            **self._batches.unary,
        }
        self._routes = Routes(unary, {**typed_streams(host), **self._batches.streaming}, house)

    def add_to(self, server: Any) -> None:
        """Have `server` serve them."""
        server.add_generic_rpc_handlers((self._routes,))
        self._not_serving.append(add_discovery(server, self._routes.services(self._host)))

    def leave(self, caller: str) -> None:
        """The client of that address has gone, and the host knows: what it still holds here is free. Idempotent."""
        self._batches.leave(caller)

    def close(self) -> None:
        """Tell every attached client, and all who watch the health, that the engine closes; idempotent."""
        self._batches.close()
        for not_serving in self._not_serving:
            not_serving()

    def release(self) -> None:
        """Give the engine back if a caller of this house drives it; waits for its step in progress."""
        self._batches.release(self._house)
        self._host.agents.lease.release(self._house)

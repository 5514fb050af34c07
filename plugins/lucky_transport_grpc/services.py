"""Everything that a host offers in protobuf: each method of the table, our BatchService, reflection and health.

services = HostServices(host, server_context)
services.add_to(server)              a grpc.Server, or whatever takes handlers as one does
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

from google.protobuf import descriptor_pool

from lucky_transport.errors import TransportError
from lucky_transport.host.host import Host
from lucky_transport.host.service_switch import ServiceSwitch
from lucky_transport.messages.methods import BY_NAME
from lucky_transport.version import install_command
from lucky_transport_grpc import _pb
from lucky_transport_grpc.batch_service import BatchService
from lucky_transport_grpc.caller import Caller, ServerContext
from lucky_transport_grpc.errors import refuse
from lucky_transport_grpc.runtime import grpc
from lucky_transport_grpc.typed_service import GrpcResets, GrpcSteps, typed_handlers, typed_streams

_log = logging.getLogger("lucky_transport")
_EXTRA = "discovery"


class HostServices:
    """The services of `host` for the callers of one server.

    It knows no server. Its owner adds it to one, reports clients that left, and closes it in two steps: `close` ends
    what clients wait for, and when no call is under way any more, `release` gives the engine back.
    """

    def __init__(self, host: Host, server_context: ServerContext) -> None:
        self._host = host
        self._server_context = server_context
        self._batches = BatchService(host)
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
        self._routes = _Routes(unary, {**typed_streams(host), **self._batches.streaming}, server_context)

    def add_to(self, server: Any) -> None:
        """Have `server` serve them."""
        server.add_generic_rpc_handlers((self._routes,))
        self._not_serving.append(_add_discovery(server, self._routes.services(self._host), self._host.switch))

    def leave(self, caller: str) -> None:
        """The client of that address has gone, and the host knows: what it still holds here is free. Idempotent."""
        self._batches.leave(caller)

    def close(self) -> None:
        """Tell every attached client, and every one that watches the health, that the engine closes; idempotent."""
        self._batches.close()
        for not_serving in self._not_serving:
            not_serving()

    def release(self) -> None:
        """Give the engine back if a caller of this server drives it; waits for its step in progress."""
        self._batches.release(self._server_context)
        self._host.agents.lease.release(self._server_context)


# Reflection (v1alpha, as luckyrobots uses it) and health are courtesies: without their packages the server serves all
# the same.
def _add_discovery(server: Any, services: Sequence[str], switch: ServiceSwitch) -> Callable[[], None]:
    """Add reflection and health to a gRPC server; the result, when called, reports all services as not serving."""
    also, shut_down = _add_health(server, services, switch)
    _add_reflection(server, lambda: [*(name for name in services if switch.services.get(name, True)), *also])
    return shut_down


def _add_health(server: Any, services: Sequence[str], switch: ServiceSwitch) -> tuple[list[str], Callable[[], None]]:
    try:
        from grpc_health.v1 import health, health_pb2, health_pb2_grpc
    except Exception as error:  # not there, or beside a protobuf that it raises at
        _log.warning("grpc: no health service (%s); %s", error, install_command(_EXTRA))
        return [], lambda: None
    servicer: Any = health.HealthServicer()
    health_pb2_grpc.add_HealthServicer_to_server(servicer, server)
    states: Any = health_pb2.HealthCheckResponse

    def tell() -> None:
        for name in services:
            servicer.set(name, states.SERVING if switch.services.get(name, True) else states.NOT_SERVING)

    switch.watch(tell)
    tell()
    return [health.SERVICE_NAME], servicer.enter_graceful_shutdown


def _add_reflection(server: Any, services: Callable[[], Sequence[str]]) -> None:
    """services: returns the names of those that are on."""
    try:
        from grpc_reflection.v1alpha import reflection, reflection_pb2_grpc
    except Exception as error:  # see `_add_health`
        _log.warning("grpc: no reflection (%s); %s", error, install_command(_EXTRA))
        return
    pools: Any = _Pools()

    class Reflection(reflection_pb2_grpc.ServerReflectionServicer):
        """Lists what is on when the call begins."""

        def ServerReflectionInfo(self, request_iterator: Any, context: Any) -> Any:  # noqa: N802 - gRPC's name
            names = [*services(), reflection.SERVICE_NAME]
            return reflection.ReflectionServicer(names, pools).ServerReflectionInfo(request_iterator, context)

    reflection_pb2_grpc.add_ServerReflectionServicer_to_server(Reflection(), server)


class _Pools:
    """Our private pool, then the default one, where the health and reflection services themselves are described."""

    def __getattr__(self, name: str) -> Callable[..., Any]:
        def find(*arguments: Any) -> Any:
            try:
                return getattr(_pb.POOL, name)(*arguments)
            except KeyError:
                return getattr(descriptor_pool.Default(), name)(*arguments)

        return find


class _Routes(grpc.GenericRpcHandler):
    """All our methods. A legacy server leaves out what only we serve, as an engine that does not know us."""

    def __init__(
        self,
        unary: Mapping[str, Callable[[Any, Caller], Any]],
        streaming: Mapping[str, Callable[[Any, Caller], Iterator[Any]]],
        server_context: ServerContext,
    ) -> None:
        self._caller = partial(Caller, server=server_context)
        self._handlers: dict[str, Any] = {}
        for path, handle in unary.items():
            self._handlers[path] = self._described(grpc.unary_unary_rpc_method_handler, path, self._one(handle))
        for path, stream in streaming.items():
            self._handlers[path] = self._described(grpc.unary_stream_rpc_method_handler, path, self._many(stream))
        if server_context.legacy:
            self._handlers = {p: found for p, found in self._handlers.items() if p.startswith("/hazel.rpc.")}

    @staticmethod
    def _described(kind: Any, path: str, behaviour: Any) -> Any:
        found = _pb.methods()[path]
        return kind(behaviour, found.request.FromString, found.response.SerializeToString)

    def _one(self, handle: Callable[[Any, Caller], Any]) -> Callable[[Any, Any], Any]:
        def behaviour(request: Any, context: Any) -> Any:
            try:
                return handle(request, self._caller(context))
            except TransportError as error:
                refuse(context, error)

        return behaviour

    def _many(self, stream: Callable[[Any, Caller], Iterator[Any]]) -> Callable[[Any, Any], Iterator[Any]]:
        def behaviour(request: Any, context: Any) -> Iterator[Any]:
            try:
                yield from stream(request, self._caller(context))
            except TransportError as error:
                refuse(context, error)

        return behaviour

    def service(self, handler_call_details: Any) -> Any:
        """Return the handler of a call, None when we have none."""
        return self._handlers.get(handler_call_details.method)

    def services(self, host: Host) -> list[str]:
        """Return the full names of the services with at least one method that `host` answers."""
        answered = (path for path in self._handlers if path not in BY_NAME or host.implements(BY_NAME[path]))
        return sorted({path[1:].partition("/")[0] for path in answered})

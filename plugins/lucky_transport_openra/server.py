"""The engine end: OpenRA-RL's bridge service for the engine's sessions, beside everything that gRPC's plugin serves.

    lucky-transport serve skirmish --endpoint openra://127.0.0.1:9999
    openra://127.0.0.1:9999?map=ridge&bots=easy&rate=0&planning=1         see `lucky_transport_openra.options`

The bridge is there for every engine whose worlds speak its messages; for any other its methods answer UNIMPLEMENTED and
say why. Our own clients step every engine at the same port, through the batch service.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from lucky_transport.config import Settings
from lucky_transport.endpoint import Endpoint
from lucky_transport.errors import TransportError, Unimplemented
from lucky_transport.host.host import Host
from lucky_transport_grpc.runtime import grpc
from lucky_transport_grpc.server import GrpcServer
from lucky_transport_openra import _pb
from lucky_transport_openra.options import ServerOptions, grpc_endpoint, server_options
from lucky_transport_openra.service import BridgeService
from lucky_transport_openra.stream import GameStream
from lucky_transport_openra.wire import METHODS, BridgeCodec, refuse_bridge


def server(endpoint: Endpoint, settings: Settings) -> BridgeServer:
    """Return a server for `openra://host:port` (port 0: a free one); raises ConfigError."""
    return BridgeServer(endpoint, settings)


class BridgeServer(GrpcServer):
    """Lets OpenRA-RL's clients, and ours, play in a host's sessions."""

    def __init__(self, endpoint: Endpoint, settings: Settings) -> None:
        super().__init__(grpc_endpoint(endpoint), settings)
        self._told = endpoint
        self._options = server_options(endpoint, settings.step_timeout_s)
        self._service: BridgeService | None = None

    def start(self, host: Host) -> Endpoint:
        return self._told.with_address(super().start(host).address)

    def add_services(self, host: Host, grpc_server: Any) -> None:
        try:
            self._service = _service(host, self._options)
            handlers = _answers(self._service)
        except Unimplemented as error:
            handlers = _refusals(error)
        found = {name: METHODS[name].handler(behaviour) for name, behaviour in handlers.items()}
        grpc_server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(_pb.SERVICE.full_name, found),))

    def stop(self, grace_s: float = 1.0) -> None:
        if self._service is not None:
            self._service.close()
        super().stop(grace_s)


def _service(host: Host, options: ServerOptions) -> BridgeService:
    """Return the bridge of the host's sessions. Raises Unimplemented."""
    sessions = host.sessions
    if sessions is None:
        raise Unimplemented(f"engine {host.spec.engine!r} has no sessions", backend="openra", hint="serve skirmish")
    return BridgeService(sessions, BridgeCodec.of(sessions.worlds, host.spec.engine), options)


def _answers(service: BridgeService) -> Mapping[str, Callable[[Any, Any], Any]]:
    """Return the bridge's methods as gRPC calls them."""

    def stream(actions: Iterator[Any], context: Any) -> Iterator[Any]:
        try:
            yield from GameStream(service, actions, context).observations()
        except TransportError as error:
            refuse_bridge(context, error)

    return {**{name: _answering(handler) for name, handler in service.unary.items()}, "GameSession": stream}


def _answering(handler: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    def behaviour(request: Any, context: Any) -> Any:
        try:
            return handler(request, context)
        except TransportError as error:
            refuse_bridge(context, error)

    return behaviour


def _refusals(error: Unimplemented) -> Mapping[str, Callable[[Any, Any], Any]]:
    """Return methods that all say why the bridge is not there."""
    return dict.fromkeys(METHODS, lambda request, context: refuse_bridge(context, error))

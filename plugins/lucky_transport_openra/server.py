"""The engine end: OpenRA-RL's bridge service for the engine's sessions, beside everything that gRPC's plugin serves.

    lucky-transport serve skirmish --endpoint openra://127.0.0.1:9999
    openra://127.0.0.1:9999?map=ridge&bots=easy&rate=0&planning=1         see `lucky_transport_openra.options`

The bridge is there for every engine whose worlds speak its messages; for any other its methods answer UNIMPLEMENTED and
say why. Our own clients step every engine at the same port, through the batch service.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from typing import Any

from lucky_transport.config import Settings
from lucky_transport.deadline import Deadline
from lucky_transport.endpoint import Endpoint
from lucky_transport.errors import (
    PeerDied,
    PeerTimeout,
    SessionEnded,
    TransportError,
    Unimplemented,
    UnknownSession,
    to_wire_error,
)
from lucky_transport.host.host import Host
from lucky_transport.sessions.api import WorldSnapshot
from lucky_transport.uninterrupted import start_thread
from lucky_transport_grpc.runtime import grpc
from lucky_transport_grpc.server import GrpcServer
from lucky_transport_openra import _pb
from lucky_transport_openra.options import ServerOptions, grpc_endpoint, server_options
from lucky_transport_openra.service import BridgeService, clamped
from lucky_transport_openra.wire import METHODS, SESSION, BridgeCodec, refuse_bridge

#: How often a stream whose session shows nothing new checks that its client still listens.
_SLICE_S = 0.1
_FAST_ADVANCE = 21


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


class GameStream:
    """One call of GameSession: observations of a session that runs freely go out, actions come in.

    It ends when either side does, or with the game; a session that was not asked for by its id ends with it.
    """

    def __init__(self, service: BridgeService, actions: Iterator[Any], context: Any) -> None:
        self._service = service
        self._sessions = service.sessions
        self._actions = actions
        self._context = context
        self._named = dict(context.invocation_metadata()).get(SESSION, "")
        self._id = ""
        self._over = threading.Event()
        self._error: TransportError | None = None

    def observations(self) -> Iterator[Any]:
        """Yield the newest observation, again and again; the last one is that of the end. Raises TransportError.

        Observations that the connection had no room for in time are not made.
        """
        service, sessions = self._service, self._sessions
        self._id = self._named or service.claim()
        try:
            deadline = service.deadline(self._context)
            seen = sessions.latest(self._id, -1, deadline)
            reader = service.reader(self._id, deadline)
            if not service.options.planning:
                self._run()
            start_thread(threading.Thread(target=self._receive, name="lucky-openra-actions", daemon=True))
            yield reader.read(seen)
            while not seen.is_over and (newer := self._next(seen.ticks)) is not None:
                seen = newer
                yield reader.read(seen)
        finally:
            self._end()

    def _run(self) -> None:
        rate_hz = self._service.options.rate_hz
        self._sessions.run(self._id, 1 / self._sessions.worlds.tick_s if rate_hz is None else rate_hz)

    def _next(self, ticks: int) -> WorldSnapshot | None:
        """Return a look later than `ticks`; None when the stream is over.

        Raises SessionEnded (the world failed), and what became of an action.
        """
        while not self._over.is_set() and self._context.is_active():
            if self._service.is_closing:
                raise PeerDied("the engine is closing", backend="openra")
            try:
                return self._sessions.latest(self._id, ticks, Deadline(_SLICE_S))
            except PeerTimeout:
                continue
            except UnknownSession as error:
                raise SessionEnded(f"session {self._id} was destroyed", backend="openra") from error
        if self._error is not None:
            raise self._error
        return None

    def _receive(self) -> None:
        """Pass the caller's actions on until they end, or one of them fails."""
        try:
            for action in self._actions:
                self._obey(action)
        except (SessionEnded, UnknownSession):
            return  # the other half shows the end, or raises why there is none to show
        except grpc.RpcError:
            pass  # which is how gRPC says that the call has ended
        except TransportError as error:
            self._error = error
        except BaseException as error:
            self._error = to_wire_error(self._sessions.engine, "an action of the stream", error)
        self._over.set()

    def _obey(self, action: Any) -> None:
        message = self._service.codec.action_from_wire(action.commands)
        ticks = max((one.ticks for one in action.commands if one.action == _FAST_ADVANCE), default=0)
        if ticks:
            self._sessions.advance(self._id, clamped(ticks), [message])
        else:
            self._sessions.act(self._id, [message])
        if self._service.options.planning and not self._over.is_set():
            self._run()

    def _end(self) -> None:
        self._over.set()
        if self._named:
            with suppress(UnknownSession):
                self._sessions.run(self._id, None)
        else:
            self._service.give_up(self._id)

"""Where a server listens, and how it is told: one listener in shared memory, one loop that reads for all clients."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any

from lucky_transport.call_counts import CallCounter
from lucky_transport.config import load_settings
from lucky_transport.endpoint import Endpoint
from lucky_transport.errors import Busy, ConfigError, NotReachable, Unimplemented
from lucky_transport.limits import within_limits
from lucky_transport.rpc.server import ServerCalls
from lucky_transport.rpc.server_call import ServerCall
from lucky_transport.shm.files.server_description import ServerDescription
from lucky_transport.shm.listener.listener import Listener
from lucky_transport.shm.listener.server_loop import ServerLoop, ServerThread
from lucky_transport.shm.wait import strategy_code
from lucky_transport_grpc.runtime import grpc
from lucky_transport_stubs.greenlets import why_no_threads
from lucky_transport_stubs.server.handlers import Handlers
from lucky_transport_stubs.server.servicing import Servicing
from lucky_transport_stubs.words.credentials import INSECURE, PortSecurity, port_security
from lucky_transport_stubs.words.options import received_too_long

#: Starts to answer a call.
Begin = Callable[[ServerCall], None]
#: What counts the calls of a port, by their method; None where they are not counted.
Counters = Mapping[str, CallCounter] | None

#: What `add_insecure_port` returns: callers need the name, there are no port numbers in shared memory.
PORT = 1
#: What callers get when the server ends: gRPC's text.
CLOSE_MESSAGE = "Cancelling all calls"


def server_loop_at(address: str, begin: Begin, max_receive_bytes: int) -> ServerLoop:
    """Listen at "shm://name", or beside others at "shm://name?shared=GROUP"; LUCKY_WAIT says how it waits.

    Returns the loop that reads for all clients; `begin` starts to answer a call. Raises RuntimeError for a name that is
    taken, for addresses of other kinds and where a limit of this process or its runtime directory forbids to listen.
    """
    scheme, found, name = address.partition("://")
    if not found or scheme.lower() != "shm" or not name:
        raise Unimplemented(
            f"Failed to bind to address {address}: this server listens in shared memory only",
            backend="shm",
            hint='add_insecure_port("shm://name"); a grpc.server beside it can serve the same servicers over a network',
        )
    settings, endpoint = load_settings(), Endpoint.parse(address)
    failed = f"Failed to bind to address shm://{endpoint.address}"
    if why := why_no_threads():
        raise Unimplemented(f"{failed}: {why}", backend="shm", hint="serve over gRPC")
    try:
        with within_limits("it cannot listen", "shm"):
            listener = Listener(
                endpoint.address,
                group=endpoint.option("shared"),
                strategy=strategy_code(settings.wait),
            )
            refusal = received_too_long("SERVER")
            calls = partial(ServerCalls, begin=begin, max_message_bytes=max_receive_bytes, refusal=refusal)
            return ServerLoop(listener, calls)
    except (Busy, ConfigError, NotReachable) as error:
        raise Busy(f"{failed}: {error}", backend="shm", hint=error.hint) from error


class AddsHandlersAndPorts:
    """What servers of threads and of asyncio have in common before they start.

    counters_at: returns what counts the calls of a port at an address, which is added after it. target_of: returns
    where gRPC serves the same as a port at an address, "" for nowhere. counts: the folder where its calls are counted,
    "" for none. is_relay: what it serves is there, not here.
    """

    counters_at: Callable[[str], Counters] = staticmethod(lambda address: None)
    counts: str = ""
    is_relay: bool = False
    target_of: Callable[[str], str] = staticmethod(lambda address: "")
    _handlers: Handlers

    def add_generic_rpc_handlers(self, generic_rpc_handlers: Iterable[grpc.GenericRpcHandler]) -> None:
        """Serve what these handlers know. Raises AttributeError for one that has no `service` method."""
        self._handlers.add_generic_rpc_handlers(generic_rpc_handlers)

    def add_registered_method_handlers(self, service_name: str, method_handlers: Mapping[str, Any]) -> None:
        """Serve these methods of a service."""
        self._handlers.add_registered_method_handlers(service_name, method_handlers)

    def add_insecure_port(self, address: str) -> int:
        """Listen at "shm://name" (too); returns 1, for there are no port numbers in shared memory.

        Raises RuntimeError, as gRPC does, for a name that is taken; also for addresses of other kinds.
        """
        return self._add_port(address, INSECURE)

    def add_secure_port(self, address: str, server_credentials: grpc.ServerCredentials) -> int:
        """As `add_insecure_port`; handlers are told what gRPC's local credentials say of a connection.

        Callers are processes of this user, and no certificate is asked for. Raises RuntimeError for credentials that
        are known to ask for one, AttributeError for what are none.
        """
        return self._add_port(address, port_security(server_credentials, address))

    def _add_port(self, address: str, security: PortSecurity) -> int:
        raise NotImplementedError

    def _description(self, address: str) -> ServerDescription:
        """Return what the port at an address says of itself."""
        name, methods = Endpoint.parse(address).address, tuple(self._handlers.listed)
        return ServerDescription(
            name, os.getpid(), methods, self.target_of(address), self.counts, is_relay=self.is_relay
        )


def open_port(
    address: str,
    servicing: Servicing,
    max_receive_bytes: int,
    on_end: Callable[[], None],
    security: PortSecurity = INSECURE,
    counters: Counters = None,
) -> ServerThread:
    """Listen at "shm://name" and return the thread that answers there, not started. Raises the errors of
    `server_loop_at`.

    on_end: called when it has ended. security: what its handlers are told. counters: of its calls.
    """

    def begin(call: ServerCall) -> None:
        if counters is not None:
            counters[call.path].add()
        servicing.begin(call, port, security)

    loop = server_loop_at(address, begin, max_receive_bytes)
    name = f"grpc server {address}"
    port = ServerThread(loop, name, close_message=CLOSE_MESSAGE, slots=servicing.slots, on_end=on_end)
    return port

"""A gRPC server whose callers come through shared memory: a `grpc.Server`.

    server = lucky_transport_stubs.server(ThreadPoolExecutor(8))
    add_GreeterServicer_to_server(Greeter(), server)
    server.add_insecure_port("shm://demo")
    server.start()

One thread per port reads for all its callers; methods run in the user's thread pool, as with grpc.server, or on the
reading thread where they are marked inline. What a caller or a servicer can see is what grpc.server does; what differs
is listed in the README. A server that is not stopped leaves nothing behind: it stops when it is dropped and when
the program ends.
"""

from __future__ import annotations

import atexit
import logging
import threading
import weakref
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import Executor
from types import SimpleNamespace
from typing import Any

from lucky_transport.fork import on_child
from lucky_transport.shm.listener.server_loop import ServerThread
from lucky_transport_grpc.runtime import grpc
from lucky_transport_stubs.grpc_inside import ServerBase, ServerStage, appears_as
from lucky_transport_stubs.server.admission import Admission
from lucky_transport_stubs.server.handlers import Handlers
from lucky_transport_stubs.server.port import PORT, AddsHandlersAndPorts, open_port
from lucky_transport_stubs.server.servicing import Servicing
from lucky_transport_stubs.words.credentials import PortSecurity
from lucky_transport_stubs.words.options import (
    check_default_compression,
    log_ignored,
    max_receive_bytes,
    max_send_bytes,
)

_log = logging.getLogger("grpc._server")


def server(
    thread_pool: Executor,
    handlers: Iterable[grpc.GenericRpcHandler] | None = None,
    interceptors: Sequence[grpc.ServerInterceptor] | None = None,
    options: Sequence[tuple[str, Any]] | None = None,
    maximum_concurrent_rpcs: int | None = None,
    compression: grpc.Compression | None = None,
    xds: bool = False,
) -> Server:
    """Return a server that is not started; the arguments are those of `grpc.server`.

    `compression` and `xds` change nothing here; the log says so of `xds`. Raises AttributeError for a handler that is
    none, TypeError and ValueError for a compression that is none.
    """
    check_default_compression(compression)
    log_ignored((*(options or ()), *((("xds", xds),) if xds else ())))
    admission = Admission(maximum_concurrent_rpcs)
    found = Handlers(handlers or (), interceptors or ())
    servicing = Servicing(found, thread_pool, admission, max_send_bytes(options or ()))
    return Server(servicing, max_receive_bytes(options or ()))


class _Termination:
    """Knows when a server's last port has ended; `event` is set then."""

    def __init__(self) -> None:
        self.event = threading.Event()
        self._lock = threading.Lock()
        self._open = 0

    def port_opened(self) -> None:
        with self._lock:
            self._open += 1

    def port_ended(self) -> None:
        with self._lock:
            self._open -= 1
            if not self._open:
                self.event.set()


@appears_as(ServerBase)
class Server(AddsHandlersAndPorts, ServerBase):
    """Made by `server`."""

    def __init__(self, servicing: Servicing, max_receive_bytes: int) -> None:
        self._lock = threading.RLock()  # first of all: pickle refuses it, as it does grpc's
        self._servicing = servicing
        self._handlers = servicing.handlers
        self._max_receive_bytes = max_receive_bytes
        self._ports: dict[ServerThread, str] = {}  # each with its address
        self._is_started = False
        self._termination = _Termination()

    @property
    def _state(self) -> Any:
        """What programs read in gRPC's own server: its handlers, and how far its life is."""
        stage = ServerStage.GRACE if self._servicing.admission.is_refusing else ServerStage.STARTED
        if not self._is_started or self._termination.event.is_set():
            stage = ServerStage.STOPPED
        return SimpleNamespace(generic_handlers=self._handlers.generic_handlers, stage=stage)

    # -- before the start ---------------------------------------------------------------------------------------------

    def add_registered_method_handlers(self, service_name: str, method_handlers: Mapping[str, Any]) -> None:
        """Serve these methods of a service; of a server that has started the log says that it takes no more."""
        if self._state.stage is ServerStage.STARTED:
            _log.warning("Cannot register method handlers once server has started")
        else:
            super().add_registered_method_handlers(service_name, method_handlers)

    def _add_port(self, address: str, security: PortSecurity) -> int:
        with self._lock:
            on_end = self._termination.port_ended
            counters = self.counters_at(address)
            port = open_port(address, self._servicing, self._max_receive_bytes, on_end, security, counters)
            self._ports[port] = address
            _all_ports.add(port)
            if self._is_started:
                self._start(port)
        return PORT

    # -- life ---------------------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Begin to answer. Raises ValueError the second time."""
        with self._lock:
            if self._is_started:
                raise ValueError("Cannot start already-started server!")
            self._is_started = True
            for port in self._ports:
                self._start(port)

    def _start(self, port: ServerThread) -> None:
        self._termination.port_opened()
        try:
            port.describe(self._description(self._ports[port]))
            port.start()
        except BaseException:  # it has ended
            self._termination.port_ended()
            raise

    def stop(self, grace: float | None) -> threading.Event:
        """Refuse new calls; return what is set once the calls under way have ended, which they must in `grace` seconds.

        Without a grace they are ended here and now. No effect before the start; of several graces the shortest counts.
        """
        with self._lock:
            if not self._is_started:
                ended = threading.Event()
                ended.set()
                return ended
            ports = tuple(self._ports)
        self._servicing.admission.is_refusing = True
        for port in ports:
            port.stop(grace or 0.0)
            if grace is None:
                port.close()
        if grace is None or not ports:
            self._termination.event.set()
        return self._termination.event

    def wait_for_termination(self, timeout: float | None = None) -> bool:
        """Wait until the server has stopped; True when it has not after `timeout` seconds."""
        return not self._termination.event.wait(timeout)

    def __del__(self) -> None:
        """Stop, without waiting, a server that is no longer referenced."""
        for port in self._ports:
            port.stop(0.0)
        if not self._ports:
            self._termination.event.set()


_all_ports: weakref.WeakSet[ServerThread] = weakref.WeakSet()
on_child(_all_ports.clear)  # they are the parent's to close


@atexit.register
def _close_all() -> None:
    for port in tuple(_all_ports):
        port.close()

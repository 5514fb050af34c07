"""The engine end of the gRPC transport: one server at one address. `services` is what it serves."""

from __future__ import annotations

import contextlib
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from lucky_transport.config import Settings
from lucky_transport.endpoint import Endpoint
from lucky_transport.errors import NotReachable
from lucky_transport.host.driver_lease import IDLE_S
from lucky_transport.host.host import Host
from lucky_transport.serving import Server
from lucky_transport.uninterrupted import start_thread
from lucky_transport_grpc.address import SocketFile, bind_failure, service_of, target_of
from lucky_transport_grpc.caller import ServerContext, is_gone
from lucky_transport_grpc.runtime import grpc
from lucky_transport_grpc.services import MAX_STREAMS, HostServices

#: Every stream holds a thread, and so does every call that waits for the engine; they are made when they are needed.
_MAX_WORKERS = 512 + MAX_STREAMS
#: How long a port that gRPC closes may stay taken, and how often that is looked at.
_CLOSING_S, _CLOSING_POLL_S = 1.0, 0.001

_OPTIONS = (
    ("grpc.so_reuseport", 0),  # else a second server on the same port silently gets half of the calls
    ("grpc.max_receive_message_length", -1),
    ("grpc.max_send_message_length", -1),
    ("grpc.max_concurrent_streams", 1 << 20),
    ("grpc.server.max_pending_requests", 1 << 16),  # the default sheds calls beyond 1,000 pending ones, at random
    ("grpc.server.max_pending_requests_hard_limit", 1 << 17),
    ("grpc.server_max_unrequested_time_in_server", 300),  # seconds; the default drops what waited 30
    ("grpc.keepalive_permit_without_calls", 1),  # a client that asks often whether we live is no attacker: by default
    ("grpc.http2.min_recv_ping_interval_without_data_ms", 100),  # one that asks twice in 5 minutes is cut off
    ("grpc.http2.max_ping_strikes", 0),
)


def server(endpoint: Endpoint, settings: Settings) -> GrpcServer:
    """Return a server for `grpc://host:port` (port 0: a free one) or `grpc+unix:///path`; raises ConfigError."""
    return GrpcServer(endpoint, settings)


class GrpcServer(Server):
    """Lets gRPC clients drive a host.

    `idle_s`: see `lucky_transport.host.driver_lease`. `legacy` makes it an engine that does not know us: it has no
    BatchService and ignores our metadata.
    """

    def __init__(self, endpoint: Endpoint, settings: Settings, *, idle_s: float = IDLE_S, legacy: bool = False) -> None:
        service_of(endpoint)  # an option for clients: checked here, so that a slip shows where it was made
        self._target = target_of(endpoint)
        self._endpoint = endpoint
        self._longest_s = settings.step_timeout_s
        self._idle_s = idle_s
        self._legacy = legacy
        self._socket = SocketFile(endpoint) if endpoint.scheme == "grpc+unix" else None
        self._running: _Running | None = None

    def start(self, host: Host) -> Endpoint:
        pool = ThreadPoolExecutor(_MAX_WORKERS, thread_name_prefix="lucky-grpc")
        grpc_server = grpc.server(pool, options=_OPTIONS)
        server_context = ServerContext(
            self._longest_s,
            self._idle_s,
            lambda client: is_gone(client, port),
            legacy=self._legacy,
        )
        services = HostServices(host, server_context)
        services.add_to(grpc_server)
        self.add_services(host, grpc_server)
        with contextlib.ExitStack() as undo:
            if self._socket is not None:
                self._socket.prepare()
                undo.callback(self._socket.remove)
            port = self._bind(grpc_server)
            undo.callback(self._close_port, grpc_server, port)
            if self._socket is not None:
                self._socket.protect()
            grpc_server.start()
            undo.pop_all()
        self._running = _Running(grpc_server, pool, services)
        if self._socket is not None:
            return self._endpoint
        return self._endpoint.with_address(self._at(port))

    def add_services(self, host: Host, grpc_server: Any) -> None:
        """Add what is served beside our services; for subclasses, called before the server listens."""

    def _bind(self, grpc_server: Any) -> int:
        # An address that is taken is an error, never shared and never stolen.
        # It is asked first: where it is taken, gRPC writes lines of its own to stderr before it says so
        failure = "" if self._socket is not None else bind_failure(self._target)
        port = 0
        if not failure:
            try:
                port = grpc_server.add_insecure_port(self._target)
                failure = "" if port else "the address cannot be bound"
            except RuntimeError as error:
                failure = str(error)
        if failure:
            raise NotReachable(
                f"cannot serve at {self._endpoint}: {failure}",
                backend="grpc",
                hint="another process has it, or it is not an address of this machine; port 0 takes a free one",
            )
        return port

    def _close_port(self, grpc_server: Any, port: int) -> None:
        """Close the port of a server whose start failed; gRPC does so by itself only for one that was started."""
        with contextlib.suppress(RuntimeError, ValueError):  # no thread can be started; it was started
            grpc_server.start()
        with contextlib.suppress(RuntimeError):
            grpc_server.stop(0)
        end = time.monotonic() + _CLOSING_S
        with contextlib.suppress(OSError):
            while self._socket is None and bind_failure(self._at(port)) and time.monotonic() < end:
                time.sleep(_CLOSING_POLL_S)  # a thread of gRPC's own closes it

    def _at(self, port: int) -> str:
        """Return the host of the target with that port."""
        return f"{self._target.rpartition(':')[0]}:{port}"

    def stop(self, grace_s: float = 1.0) -> None:
        if self._running is not None:
            self._running.stop(grace_s)
            self._running = None
            if self._socket is not None:
                self._socket.remove()


class _Running:
    """A started server and what has to end with it."""

    def __init__(self, grpc_server: Any, pool: ThreadPoolExecutor, services: HostServices) -> None:
        self._grpc_server = grpc_server
        self._pool = pool
        self._services = services

    def stop(self, grace_s: float) -> None:
        self._services.close()  # attached clients end first, then calls under way
        with contextlib.suppress(RuntimeError):  # no thread can be started: the port is closed all the same
            self._grpc_server.stop(grace_s).wait(grace_s + 1.0)
            # An engine that hangs in a step keeps its thread and its lock: waiting for them is bounded.
            ending = threading.Thread(target=self._end, name="lucky-grpc-stop", daemon=True)
            start_thread(ending)
            ending.join(grace_s + 1.0)

    def _end(self) -> None:
        self._services.release()
        self._pool.shutdown(wait=True)

"""Servers of a switched program: gRPC's own server, and beside it one whose callers come through shared memory.

Both have the same handlers, interceptors and thread pool. A port that the switch names is served over shared memory
too, or only there; all others are gRPC's alone.
"""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from functools import partial
from typing import Any
from urllib.parse import urlencode

import grpc

from lucky_transport.call_counts import CallCounter, CallCounters, Calls
from lucky_transport.config import load_launch
from lucky_transport.errors import TransportError
from lucky_transport.lazy_dict import LazyDict
from lucky_transport_stubs.grpc_inside import AioServerBase, ServerBase, ServerStage, appears_as
from lucky_transport_stubs.run.switch import Served, Switch
from lucky_transport_stubs.run.targets import parse_target, with_port
from lucky_transport_stubs.words.credentials import why_no_port

#: What a server of ours raises where it cannot serve; the program's own server can all the same.
_CANNOT_SERVE = (TransportError, RuntimeError, OSError)


class Ports:
    """The ports of one server, and its counts. shares: whether others may serve them too, as gRPC's option says."""

    def __init__(self, switch: Switch, counters: CallCounters | None, shares: bool = True) -> None:
        self._switch = switch
        self._shares = shares
        self._counters = counters
        self._held: list[socket.socket] = []
        self._bound: list[str] = []
        self._served: dict[str, Served] = {}  # by the place where we listen

    def count(self, method: str) -> None:
        """Count a call of a method that has come in over gRPC, which does not say to which of several ports."""
        what = "the port" if len(self._bound) == 1 else "these ports"
        self._counter(Served(", ".join(self._bound), "", f"calls that came to {what}"), method).add()

    def counters_at(self, place: str) -> Mapping[str, CallCounter]:
        """Return what counts the calls that come in at a place in shared memory, by their method."""
        return LazyDict(partial(self._counter, self._served[place]))

    def target_of(self, place: str) -> str:
        """Return where gRPC serves the same as a place in shared memory, "" for nowhere."""
        served = self._served.get(place)
        return "" if served is None or served.only else served.address

    def _counter(self, served: Served, method: str) -> CallCounter:
        assert self._counters is not None
        return self._counters.counter(Calls(served.address, served.endpoint, served.why, method, role="server"))

    def add(
        self, address: str, bind: Callable[[], int], over_shm: Callable[[str], int], refusal: str | None = None
    ) -> int:
        """Serve at an address, which `bind` binds over gRPC, and return its port number.

        over_shm: adds a port "shm://name" to the server of ours. refusal: why the port cannot be served over shared
        memory, empty where it can. Raises what `bind` raises, and RuntimeError where a port is to be served over shared
        memory only and its name is taken.
        """
        asked = self._switch.serve(address)
        if asked.only and not refusal:
            port = self._hold(address)
            served = self._switch.serve(with_port(address, port))
            self._serve(served, over_shm)
        else:
            port = bind()
            served = self._switch.serve(with_port(address, port)) if port else asked
            self._bound.append(served.address)
            served = self._beside(served, over_shm, refusal or "")
        self._switch.tell(served)
        if self._counters is not None:
            self._counter(served, "").open()
        return port

    def _serve(self, served: Served, over_shm: Callable[[str], int]) -> None:
        place = self._place(served)
        self._served.setdefault(place, served)  # before a call can come in
        over_shm(place)

    def _beside(self, served: Served, over_shm: Callable[[str], int], refusal: str) -> Served:
        """Serve a port that gRPC serves over shared memory as well; return what came of it."""
        if not served.endpoint:
            return served
        if not refusal:
            try:
                self._serve(served, over_shm)
            except _CANNOT_SERVE as error:
                refusal = str(error)
        return served.stays(refusal) if refusal else served

    def stay(self, error: Exception) -> None:
        """Say that these ports are gRPC's alone after all. Raises `error` where one is shared memory's alone."""
        if any(served.only for served in self._served.values()):
            raise error
        for served in self._served.values():
            self._switch.tell(served.stays(str(error)))

    def _place(self, served: Served) -> str:
        """Return the endpoint to listen at: servers at one port of one host share it, as gRPC's share the port."""
        group = ",".join(str(place) for place in parse_target(served.address) if place.port)
        return f"{served.endpoint}?{urlencode({'shared': group})}" if self._shares and group else served.endpoint

    def _hold(self, address: str) -> int:
        """Return the number of a port that gRPC does not bind; 0 becomes one that is free for as long as we live."""
        host, _, port = address.rpartition(":")
        if not port.isdecimal() or int(port):
            return int(port) if port.isdecimal() else 1  # as gRPC returns for a unix socket
        family = socket.AF_INET6 if "[" in host else socket.AF_INET
        held = socket.socket(family)  # bound, never listening: a caller over TCP is refused
        self._held.append(held)
        held.bind(("::" if "[" in host else "0.0.0.0", 0))
        return held.getsockname()[1]

    def close(self) -> None:
        """Give back the numbers that were held."""
        while self._held:
            self._held.pop().close()


@appears_as(threading.Event)
class _BothEnded(threading.Event):
    """Set when both events are."""

    def __init__(self, *events: threading.Event) -> None:
        super().__init__()
        self._events = events

    def is_set(self) -> bool:
        return all(event.is_set() for event in self._events)

    def wait(self, timeout: float | None = None) -> bool:
        until = None if timeout is None else time.monotonic() + timeout
        return all(event.wait(None if until is None else max(0.0, until - time.monotonic())) for event in self._events)


class _Switched:
    """`real`, gRPC's server, and `ours`, of this plugin, as one."""

    _real: Any = None  # of a copy that is being made

    def __init__(self, real: Any, ours: Any, ports: Ports) -> None:
        self._real = real
        self._ours = ours
        self._ports = ports

    def __getattr__(self, name: str) -> Any:
        return getattr(self._real, name)

    def __del__(self) -> None:
        with suppress(RuntimeError):  # its loop has ended: gRPC's server says so when it is collected itself
            self._real.__del__()
        self._ours.__del__()

    def add_generic_rpc_handlers(self, generic_rpc_handlers: Iterable[grpc.GenericRpcHandler]) -> None:
        handlers = tuple(generic_rpc_handlers)
        self._real.add_generic_rpc_handlers(handlers)
        self._ours.add_generic_rpc_handlers(handlers)

    def add_registered_method_handlers(self, service_name: str, method_handlers: Mapping[str, Any]) -> None:
        self._real.add_registered_method_handlers(service_name, method_handlers)
        self._ours.add_registered_method_handlers(service_name, method_handlers)

    def add_insecure_port(self, address: str) -> int:
        return self._ports.add(
            address, lambda: self._real.add_insecure_port(address), lambda name: self._ours.add_insecure_port(name)
        )

    def add_secure_port(self, address: str, server_credentials: grpc.ServerCredentials) -> int:
        return self._ports.add(
            address,
            lambda: self._real.add_secure_port(address, server_credentials),
            lambda name: self._ours.add_secure_port(name, server_credentials),
            why_no_port(server_credentials),
        )


@appears_as(ServerBase)
class SwitchedServer(_Switched, grpc.Server):
    """A `grpc.Server` of a switched program."""

    def start(self) -> None:
        self._real.start()
        try:
            self._ours.start()
        except _CANNOT_SERVE as error:
            self._ours.stop(None)
            self._ports.stay(error)

    def add_registered_method_handlers(self, service_name: str, method_handlers: Mapping[str, Any]) -> None:
        self._real.add_registered_method_handlers(service_name, method_handlers)
        if self._state.stage is not ServerStage.STARTED:  # or gRPC's has refused them, and said so
            self._ours.add_registered_method_handlers(service_name, method_handlers)

    def stop(self, grace: float | None) -> threading.Event:
        both = _BothEnded(self._real.stop(grace), self._ours.stop(grace))
        self._ports.close()
        return both

    def wait_for_termination(self, timeout: float | None = None) -> bool:
        until = None if timeout is None else time.monotonic() + timeout
        if self._real.wait_for_termination(timeout):
            return True
        return self._ours.wait_for_termination(None if until is None else max(0.0, until - time.monotonic()))


@appears_as(AioServerBase)
class SwitchedAioServer(_Switched, grpc.aio.Server):
    """A `grpc.aio.Server` of a switched program."""

    async def start(self) -> None:
        await self._real.start()
        try:
            await self._ours.start()
        except _CANNOT_SERVE as error:
            await self._ours.stop(None)
            self._ports.stay(error)

    async def stop(self, grace: float | None) -> None:
        # One after the other, in no task of ours: a program may end its loop as soon as it learns of the termination,
        # and what stands behind its `await server.stop()` runs then as over gRPC.
        until = None if grace is None else time.monotonic() + grace
        self._ours.refuse(grace)
        await self._real.stop(grace)
        await self._ours.stop(None if until is None else max(0.0, until - time.monotonic()))
        self._ports.close()

    async def wait_for_termination(self, timeout: float | None = None) -> bool:
        until = None if timeout is None else time.monotonic() + timeout
        if await self._real.wait_for_termination(timeout):
            return True
        return await self._ours.wait_for_termination(None if until is None else max(0.0, until - time.monotonic()))


class _Counting(grpc.ServerInterceptor):
    """Counts the calls of a server, each when it comes in; in front of the program's own interceptors."""

    def __init__(self, count: Callable[[str], None]) -> None:
        self._count = count

    def intercept_service(self, continuation: Callable[[Any], Any], handler_call_details: Any) -> Any:
        self._count(handler_call_details.method)
        return continuation(handler_call_details)


class _AioCounting(grpc.aio.ServerInterceptor):
    """The same for a server of grpc.aio."""

    def __init__(self, count: Callable[[str], None]) -> None:
        self._count = count

    async def intercept_service(self, continuation: Any, handler_call_details: Any) -> Any:
        self._count(handler_call_details.method)
        return await continuation(handler_call_details)


def make_server(
    original: Callable[..., Any],
    over_shm: Callable[..., Any],
    given: Mapping[str, Any],
    switch: Switch,
    counters: CallCounters | None,
) -> SwitchedServer | SwitchedAioServer:
    """Return the server of a switched program; given: what it gave to `original`, by name.

    Raises what `original` raises for wrong arguments.
    """
    is_aio = original.__module__.startswith("grpc.aio")
    options = {name.decode() if isinstance(name, bytes) else name: value for name, value in given.get("options") or ()}
    ports = Ports(switch, counters, bool(options.get("grpc.so_reuseport", True)))
    real_given, ours = dict(given), over_shm(**given)
    if counters is not None:
        counting = (_AioCounting if is_aio else _Counting)(ports.count)
        real_given["interceptors"] = (counting, *(given.get("interceptors") or ()))
        ours.counters_at, ours.counts = ports.counters_at, load_launch().folder
    ours.target_of = ports.target_of
    real = original(**real_given)
    return (SwitchedAioServer if is_aio else SwitchedServer)(real, ours, ports)

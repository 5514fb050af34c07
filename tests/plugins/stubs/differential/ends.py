"""Both ends for a case: servers, and channels to them, of one implementation or the other.

A case meets the implementation only here: it gets `Ends` and never names one. What a case started has ended when its
`Ends` are closed, however the case ended.
"""

import itertools
import tempfile
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from typing import Any, Self

import grpc

import lucky_transport_stubs
from lucky_transport.process import unique_name

SERVICE = "differential.Service"
ARITIES = ("unary_unary", "unary_stream", "stream_unary", "stream_stream")

Options = Sequence[tuple[str, Any]]
Methods = dict[str, Any]


@dataclass(frozen=True)
class Implementation:
    """One implementation of gRPC's API; `address(folder)` is a new one at which its server can listen.

    The channels of the secure factories have credentials, by that name.
    """

    name: str
    address: Callable[[str], str]
    server: Callable[..., Any]
    channel: Callable[..., Any]
    aio_server: Callable[..., Any]
    aio_channel: Callable[..., Any]
    secure_channel: Callable[..., Any]
    aio_secure_channel: Callable[..., Any]


_numbers = itertools.count()

#: gRPC's server sometimes never ends after a request that it could not read: it answers such a call twice.
_STOP_S = 1.0

REAL = Implementation(
    name="grpc",
    address=lambda folder: f"unix:{folder}/{next(_numbers)}",
    server=grpc.server,
    channel=grpc.insecure_channel,
    aio_server=grpc.aio.server,
    aio_channel=grpc.aio.insecure_channel,
    secure_channel=grpc.secure_channel,
    aio_secure_channel=grpc.aio.secure_channel,
)

OURS = Implementation(
    name="ours",
    address=lambda folder: f"shm://{unique_name()}",
    server=lucky_transport_stubs.server,
    channel=lucky_transport_stubs.channel,
    aio_server=lucky_transport_stubs.aio_server,
    aio_channel=lucky_transport_stubs.aio_channel,
    secure_channel=lucky_transport_stubs.channel,
    aio_secure_channel=lucky_transport_stubs.aio_channel,
)


def path(method: str = "Method") -> str:
    """Return the path of a method of the service that cases serve."""
    return f"/{SERVICE}/{method}"


def method_handler(arity: str, behaviour: Callable[..., Any], **codec: Any) -> Any:
    """Return gRPC's handler object for a behaviour; bytes go in and out unless `codec` says otherwise."""
    return getattr(grpc, f"{arity}_rpc_method_handler")(behaviour, **codec)


def generic_handler(methods: Methods, service: str = SERVICE) -> Any:
    """Return the handler of a service with these methods: handlers by name, or behaviours by "arity Name"."""
    handlers: dict[str, Any] = {}
    for title, one in methods.items():
        arity, _, name = title.rpartition(" ")
        handlers[name] = method_handler(arity, one) if arity else one
    return grpc.method_handlers_generic_handler(service, handlers)


def add_port(server: Any, target: str, credentials: Any) -> int:
    """Have the server listen there, with these credentials unless they are None; return the port's number."""
    if credentials is None:
        return server.add_insecure_port(target)
    return server.add_secure_port(target, credentials)


@dataclass(frozen=True)
class Served:
    """A server that listens at `target`."""

    server: Any
    target: str


class Made:
    """What both ends of threads and of asyncio have; `open_gates` comes first at their end."""

    method: Callable[..., Any]
    _folder: str

    def __init__(self, implementation: Implementation) -> None:
        super().__init__()
        self._implementation = implementation
        self._gates: list[Any] = []
        self.addresses: list[str] = []

    def address(self) -> str:
        """Return an address at which nobody listens, for `serve` or for a channel to nowhere."""
        self.addresses.append(self._implementation.address(self._folder))
        return self.addresses[-1]

    def open_gates(self) -> None:
        """Let every handler go on."""
        for gate in self._gates:
            gate.set()

    def __getattr__(self, arity: str) -> Callable[..., Any]:
        """`unary_unary(behaviour)` is `method("unary_unary", behaviour)`; likewise for the other arities."""
        if arity not in ARITIES:
            raise AttributeError(arity)
        return partial(self.method, arity)


class Ends(Made, ExitStack):
    """Servers and channels for one case, as a context."""

    def __enter__(self) -> Self:
        self._folder = self.enter_context(tempfile.TemporaryDirectory())
        return self

    def __exit__(self, *error: Any) -> None:
        self.open_gates()
        super().__exit__(*error)

    def gate(self) -> threading.Event:
        """Return an event for a handler to wait on; it is set at the end, so that no handler outlives the case."""
        self._gates.append(threading.Event())
        return self._gates[-1]

    def server(self, *handlers: Any, workers: int = 8, **arguments: Any) -> Any:
        """Return a server that is not started yet."""
        pool = ThreadPoolExecutor(workers)
        self.callback(pool.shutdown)
        server = self._implementation.server(pool, handlers=handlers, **arguments)
        self.callback(lambda: server.stop(0).wait(_STOP_S))
        return server

    def serve(
        self, methods: Methods, *, address: str | None = None, credentials: Any = None, **arguments: Any
    ) -> Served:
        """Serve these methods, at a new address unless one is given, with the credentials of a server or without."""
        server = self.server(generic_handler(methods), **arguments)
        return Served(server, self.begin_at(server, address or "", credentials))

    def begin_at(self, server: Any, target: str = "", credentials: Any = None) -> str:
        """Start a server that listens there, or at a new address; return which it is."""
        add_port(server, target := target or self.address(), credentials)
        server.start()
        return target

    def connect(self, target: str, options: Options = (), **arguments: Any) -> Any:
        """Return a channel to a target; one with credentials is a secure one."""
        make = self._implementation.secure_channel if "credentials" in arguments else self._implementation.channel
        channel = make(target, options=options, **arguments)
        self.callback(channel.close)
        return channel

    def method(
        self, arity: str, behaviour: Callable[..., Any], *, channel_options: Options = (), **arguments: Any
    ) -> Any:
        """Serve one method with these arguments of a server; return its multi-callable on a new channel."""
        served = self.serve({"Method": method_handler(arity, behaviour)}, **arguments)
        return getattr(self.connect(served.target, channel_options), arity)(path())

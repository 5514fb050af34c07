"""Servers, clients and raw stubs for the tests of this folder; whatever a test started is gone when it ends."""

import importlib.util
import threading
from collections.abc import Callable, Generator
from contextlib import ExitStack
from typing import Any

import numpy as np
import pytest

from lucky_transport.config import Settings
from lucky_transport.endpoint import Endpoint
from lucky_transport.engine import Engine
from lucky_transport.serving import Serving
from lucky_transport.transport import Transport
from tests.support.scripted_engine import ScriptedEngine
from tests.support.waiting import PATIENCE_S, until

if importlib.util.find_spec("grpc") is not None:
    import lucky_transport_grpc.runtime

#: What `serve` is.
Serve = Callable[..., Serving]


@pytest.fixture(autouse=True)
def no_thread_is_left() -> Generator[None]:
    yield
    until(lambda: not [t for t in threading.enumerate() if t.name.startswith("lucky-grpc")])


@pytest.fixture
def server() -> Callable[..., Any]:
    """Make a GrpcServer of this endpoint, to be started with a host."""
    from lucky_transport_grpc.server import GrpcServer

    def make(endpoint: str = "grpc://127.0.0.1:0", settings: Settings | None = None, **options: Any) -> Any:
        return GrpcServer(Endpoint.parse(endpoint), settings or Settings(), **options)

    return make


@pytest.fixture
def serve(server: Callable[..., Any]) -> Generator[Serve]:
    """Serve an engine (a toy with these options by default) with a `server` of these arguments."""
    with ExitStack() as stack:

        def start(
            engine: Engine | None = None,
            num_envs: int = 2,
            *,
            endpoint: str = "grpc://127.0.0.1:0",
            settings: Settings | None = None,
            idle_s: float = 10.0,
            legacy: bool = False,
            **toy: Any,
        ) -> Serving:
            made = server(endpoint, settings, idle_s=idle_s, legacy=legacy)
            return stack.enter_context(Serving(engine or ScriptedEngine(num_envs, **toy), [made]))

        yield start


@pytest.fixture
def connect(serve: object) -> Generator[Callable[..., Transport]]:
    """Connect to what `serve` returned (or to an endpoint), through a service, with these settings."""
    from lucky_transport_grpc import client

    with ExitStack() as stack:

        def open_transport(target: Serving | Endpoint, service: str = "auto", **settings: Any) -> Transport:
            at = target.endpoints[0] if isinstance(target, Serving) else target
            endpoint = Endpoint(at.scheme, at.address, (("service", service),))
            return stack.enter_context(client.connect(endpoint, Settings(**settings)))

        yield open_transport


class Stub:
    """A client that knows the protocol and nothing else; each has a connection of its own."""

    def __init__(self, address: str) -> None:
        import grpc

        self.channel = grpc.insecure_channel(address, options=(("grpc.use_local_subchannel_pool", 1),))

    def _method(self, path: str) -> tuple[Any, Any]:
        from lucky_transport_grpc import _pb

        path = path if path.startswith("/") else f"/hazel.rpc.AgentService/{path}"
        found = _pb.methods()[path]
        return self.channel.unary_unary(path, found.request.SerializeToString, found.response.FromString), found.request

    def call(self, method: str, metadata: Any = (), timeout_s: float = PATIENCE_S, **fields: Any) -> Any:
        """Return the response to `method` ("Step" or a full path) with these request fields."""
        callable_, request = self._method(method)
        return callable_(request(**fields), timeout=timeout_s, metadata=metadata)

    def start(self, method: str, metadata: Any = (), timeout_s: float | None = PATIENCE_S, **fields: Any) -> Any:
        """Return the call under way."""
        callable_, request = self._method(method)
        return callable_.future(request(**fields), timeout=timeout_s, metadata=metadata)

    def stream(self, path: str, metadata: Any = (), **fields: Any) -> Any:
        """Return the items of a stream."""
        from lucky_transport_grpc import _pb

        found = _pb.methods()[path]
        begin = self.channel.unary_stream(path, found.request.SerializeToString, found.response.FromString)
        return begin(found.request(**fields), metadata=metadata)


@pytest.fixture
def stub(serve: object) -> Generator[Callable[[Serving], Stub]]:
    """Open a `Stub` for what `serve` returned."""
    with ExitStack() as stack:

        def open_stub(serving: Serving) -> Stub:
            opened = Stub(serving.endpoints[0].address)
            stack.callback(opened.channel.close)
            return opened

        yield open_stub


@pytest.fixture
def raw(serve: Serve, stub: Callable[[Serving], Stub]) -> Stub:
    """A `Stub` for a toy of two envs."""
    return stub(serve())

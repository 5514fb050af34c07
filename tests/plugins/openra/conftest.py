"""Servers, clients and raw stubs for the tests of this folder; whatever a test started is gone when it ends."""

import importlib.util
import threading
from collections.abc import Callable, Generator, Mapping
from contextlib import ExitStack
from typing import Any

import pytest

from lucky_transport import api
from lucky_transport.config import Settings
from lucky_transport.endpoint import Endpoint
from lucky_transport.engine import Engine
from lucky_transport.serving import Serving
from lucky_transport.world import World
from lucky_transport_openra.skirmish.messages import Command, Order, Orders
from tests.support.waiting import PATIENCE_S, until

if importlib.util.find_spec("grpc") is not None:
    import lucky_transport_grpc.runtime

#: What `serve` is.
Serve = Callable[..., Serving]


@pytest.fixture(autouse=True)
def no_thread_is_left() -> Generator[None]:
    yield
    names = ("lucky-grpc", "lucky-openra", "session")
    until(lambda: not [t for t in threading.enumerate() if t.name.startswith(names)])


@pytest.fixture
def serve() -> Generator[Serve]:
    """Serve skirmishes on the smallest map (or another engine) over the bridge, with these options of the endpoint.

    worlds: options of the engine, where it is the skirmish.
    """
    with ExitStack() as stack:

        def start(
            engine: str | Engine = "skirmish", *, worlds: Mapping[str, Any] | None = None, **options: Any
        ) -> Serving:
            query = "&".join(f"{key}={value}" for key, value in {"map": "arena", **options}.items())
            given = {"bots": "none", **(worlds or {})} if engine == "skirmish" else {}
            endpoint = f"openra://127.0.0.1:0?{query}"
            return stack.enter_context(api.serve(engine, endpoint, options=given))

        yield start


def order(action: Order, **what: Any) -> Any:
    """Return a command as the bridge carries it."""
    from lucky_transport_openra import _pb

    return _pb.Command(action=int(action), **what)


class Stub:
    """A client that knows the protocol and nothing else."""

    def __init__(self, address: str, **options: Any) -> None:
        import grpc

        from lucky_transport_openra.wire import METHODS

        given = {"grpc.use_local_subchannel_pool": 1, **{f"grpc.{key}": value for key, value in options.items()}}
        self.channel = grpc.insecure_channel(address, options=tuple(given.items()))
        self._methods = METHODS

    def call(self, name: str, timeout_s: float = PATIENCE_S, **fields: Any) -> Any:
        """Return the response to the method with these request fields."""
        method = self._methods[name]
        return method.stub(self.channel)(method.request(**fields), timeout=timeout_s)

    def stream(self, actions: Any, timeout_s: float | None = 2 * PATIENCE_S) -> Any:
        """Return a call of GameSession under way."""
        return self._methods["GameSession"].stub(self.channel)(actions, timeout=timeout_s)

    def ready(self, **fields: Any) -> str:
        """Return the id of a new session that can be played."""
        session_id = self.call("CreateSession", **fields).session_id
        until(lambda: self.call("GetState", session_id=session_id).phase == "playing")
        return session_id


@pytest.fixture
def stub(serve: object) -> Generator[Callable[..., Stub]]:
    """Open a `Stub` for what `serve` returned, with these channel options (without "grpc.")."""
    with ExitStack() as stack:

        def open_stub(serving: Serving, **options: Any) -> Stub:
            opened = Stub(serving.endpoints[0].address, **options)
            stack.callback(opened.channel.close)
            return opened

        yield open_stub


def held(serving: Serving) -> Any:
    """Return the sessions of a served engine."""
    return serving.host.sessions


@pytest.fixture
def client(serve: Serve, stub: Callable[..., Stub]) -> Stub:
    """A `Stub` for skirmishes that do nothing by themselves."""
    return stub(serve())


@pytest.fixture
def door(serve: Serve, sessions: Callable[..., Any]) -> Any:
    """`BridgeSessions` for such skirmishes."""
    return sessions(serve())


@pytest.fixture
def sessions(serve: object) -> Generator[Callable[..., Any]]:
    """Open `BridgeSessions` for what `serve` returned (or an endpoint), with these settings."""
    from lucky_transport_openra.bridge_sessions import BridgeSessions

    with ExitStack() as stack:

        def open_sessions(where: Serving | Endpoint, retry: Any = None, **settings: Any) -> Any:
            endpoint = where.endpoints[0] if isinstance(where, Serving) else where
            opened = BridgeSessions(endpoint, Settings(**settings), retry)
            stack.callback(opened.close)
            return opened

        yield open_sessions


# games without any server


WORLDS: Any = api.make_engine("skirmish").worlds


def new_world(map_name: str = "arena", seed: int | None = 1, **options: Any) -> Any:
    """Return a game on the smallest map without an opponent who does anything, unless the options say otherwise."""
    return WORLDS.create(map_name, seed, {"bots": "none", **options})


def say(world: World, order: Order, **what: Any) -> None:
    """Give a world one order."""
    world.act([Orders([Command(order, **what)])])


def go_on(world: World, ticks: int) -> list[str]:
    """Let a world go on by so many ticks, and return what happened."""
    happened: list[str] = []
    for _ in range(ticks):
        if world.is_over:
            break
        happened += world.tick()
    return happened

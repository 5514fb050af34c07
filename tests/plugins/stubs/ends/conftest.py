"""Both ends over shared memory, for what no case of `differential` compares; what a test starts is gone at its end."""

import asyncio
import gc
import os
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Iterator
from concurrent.futures import Executor
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from tests.support.forked_programs import Program, Programs
from tests.support.resources import STUB_THREADS, connections_of, rings, threads_of
from tests.support.waiting import PATIENCE_S, until_none_left

pytest.importorskip("grpc", reason="grpcio is not installed: pip install 'lucky-transport[grpc]'")

import grpc

from lucky_transport.rpc import completion_thread
from lucky_transport.shm.files.socket_path import remove_stale_sockets

from ..differential.aio_ends import AioEnds
from ..differential.conftest import sockets
from ..differential.ends import OURS, Ends, generic_handler, path


@pytest.fixture(autouse=True)
def nothing_is_left() -> Iterator[None]:
    """Nothing of a test may be left: no connection, no memory of rings, no thread, no file."""
    gc.collect()
    mapped, threads, mine = rings(), set(threads_of(*STUB_THREADS)), f"lucky_{os.getpid()}_"
    yield

    def left() -> Collection[object]:
        gc.collect()
        memory = ["rings"] * (rings() - mapped)
        return [*sockets(), *connections_of(mine), *memory, *(set(threads_of(*STUB_THREADS)) - threads)]

    until_none_left(left)


class Client:
    """A channel, with a multi-callable for each method: `client.unary_unary("Echo")(b"x", timeout=1)`."""

    def __init__(self, channel: Any) -> None:
        self.channel = channel

    def __getattr__(self, arity: str) -> Callable[[str], Any]:
        return lambda name: getattr(self.channel, arity)(path(name))


class OurEnds(Ends):
    """Ends of threads."""

    def dial(self: Any, target: Any, **arguments: Any) -> Client:
        """Return a client of a server, or of one that will listen at a target."""
        return Client(self.connect(getattr(target, "target", target), **arguments))

    def bound(self: Any, methods: dict[str, Any]) -> tuple[Any, str]:
        """Return a server that is not started, so it does not answer, and its address."""
        server = self.server(generic_handler(methods))
        server.add_insecure_port(target := self.address())
        return server, target

    def over(self, pool: Executor, methods: dict[str, Any], **arguments: Any) -> Client:
        """Return a client of a new server whose handlers run in this pool."""
        server = OURS.server(pool, handlers=(generic_handler(methods),), **arguments)
        self.callback(lambda: server.stop(None).wait(PATIENCE_S))
        return self.dial(self.begin_at(server))

    def pair(self, methods: dict[str, Any], **arguments: Any) -> Client:
        """Return a client of a new server with these methods."""
        return self.dial(self.serve(methods, **arguments))


class OurAioEnds(AioEnds):
    """Ends of asyncio; the methods are those of `OurEnds`."""

    dial, bound = OurEnds.dial, OurEnds.bound

    async def pair(self, methods: dict[str, Any], **arguments: Any) -> Client:
        return self.dial(await self.serve(methods, **arguments))


@pytest.fixture
def ends() -> Iterator[OurEnds]:
    with OurEnds(OURS) as opened:
        yield opened


@pytest.fixture
def aio() -> OurAioEnds:
    return OurAioEnds(OURS)


@pytest.fixture(autouse=True)
def _short_patience(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(completion_thread, "_IDLE_S", 0.05)  # how long one that has nothing to do stays


class Service:
    """Methods of threads. `asked`: set when Wait is called. `released`: lets it answer. `over`: set when the caller of
    Wait or Linger has left.
    """

    def __init__(self, ends: Ends) -> None:
        self.asked, self.released, self.over = ends.gate(), ends.gate(), ends.gate()
        self.methods: dict[str, Any] = {
            "unary_unary Echo": lambda request, context: request,
            "unary_unary Wait": self._wait,
            "unary_stream Count": lambda request, context: (b"%d" % number for number in range(int(request))),
            "unary_stream Linger": self._linger,
            "stream_unary Join": lambda requests, context: b"".join(requests),
            "stream_stream Relay": lambda requests, context: requests,
        }

    def _wait(self, request: bytes, context: Any) -> bytes:
        context.add_callback(self.over.set)
        self.asked.set()
        self.released.wait(PATIENCE_S)
        return request

    def _linger(self, request: bytes, context: Any) -> Iterator[bytes]:
        context.add_callback(self.over.set)
        yield request
        self.over.wait(PATIENCE_S)


class Held:
    """Methods of asyncio that are held until `release`; they note how often they began and ended."""

    def __init__(self) -> None:
        self.begun = self.ended = 0
        self.release = asyncio.Event()
        self.methods: dict[str, Any] = {"unary_unary Hold": self._hold, "unary_stream HoldStream": self._stream}

    async def _hold(self, request: bytes, context: Any) -> bytes:
        self.begun += 1
        try:
            await self.release.wait()
            return b"done"
        finally:
            self.ended += 1

    async def _stream(self, request: bytes, context: Any) -> AsyncIterator[bytes]:
        yield b"first"
        await self._hold(request, context)


@pytest.fixture
def service(ends: OurEnds) -> Service:
    return Service(ends)


@pytest.fixture
def stub(ends: OurEnds, service: Service) -> Client:
    """A client of a service that is served."""
    return ends.pair(service.methods, workers=16)


_SERVER = """
import sys
from tests.plugins.stubs.ends.conftest import OURS, OurEnds, Service
with OurEnds(OURS) as ends:
    server = ends.serve(Service(ends).methods, address=sys.argv[1], workers=16).server
    print("ready", flush=True)
    server.wait_for_termination()
"""


@pytest.fixture
def run(forks: Programs) -> Iterator[Callable[..., Program]]:
    """Start programs, with their arguments; they are killed with the test."""
    with ExitStack() as stack:
        yield lambda code, *arguments: stack.enter_context(forks.start(["-c", code, *arguments]))
    remove_stale_sockets()  # a killed server leaves its socket


@pytest.fixture
def spawn(run: Callable[..., Program]) -> Callable[[str], Program]:
    """Serve `Service` at an address by a process of its own."""

    def start(target: str) -> Program:
        program = run(_SERVER, target)
        assert program.stdout.readline() == "ready\n"
        return program

    return start


def failure(call: Callable[[], Any]) -> Any:
    """Call, and return the error that comes: `failure(lambda: method(b"")).code()`."""
    with pytest.raises(grpc.RpcError) as raised:
        call()
    return raised.value


async def aio_echo(request: bytes, context: Any) -> bytes:
    return request


#: A method of asyncio.
ECHO: dict[str, Any] = {"unary_unary Echo": aio_echo}


async def code_of(call: Awaitable[Any]) -> str:
    """Await what must fail as an RPC, and return the name of its code."""
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await call
    return caught.value.code().name

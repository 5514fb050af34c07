"""Asyncio servers and channels over shared memory for one test; whatever it started is gone when it ends."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AsyncExitStack
from typing import Any

import pytest

from tests.support.fixtures.plugins_stubs import Client, nothing_is_left

pytest.importorskip("grpc", reason="grpcio is not installed: pip install 'lucky-transport[grpc]'")

import lucky_transport_stubs
from lucky_transport.process import unique_name
from lucky_transport.shm.files.socket_path import remove_stale_sockets
from lucky_transport_grpc.runtime import grpc

#: A server in a process of its own, for tests that kill it.
SERVER = """
import asyncio, sys
import lucky_transport_stubs
from lucky_transport_grpc.runtime import grpc

async def echo(request, context):
    return request

async def wait(request, context):
    await asyncio.Event().wait()

async def stream(request, context):
    yield b"first"
    await asyncio.Event().wait()

async def main():
    server = lucky_transport_stubs.aio_server()
    server.add_generic_rpc_handlers([grpc.method_handlers_generic_handler("t.Test", {
        "Echo": grpc.unary_unary_rpc_method_handler(echo),
        "Wait": grpc.unary_unary_rpc_method_handler(wait),
        "Stream": grpc.unary_stream_rpc_method_handler(stream),
    })])
    server.add_insecure_port(sys.argv[1])
    await server.start()
    print("ready", flush=True)
    await server.wait_for_termination()

asyncio.run(main())
"""


class Held:
    """Handlers that are held until `release`; they note how often they began and ended."""

    def __init__(self) -> None:
        self.begun = self.ended = 0
        self.release = asyncio.Event()

    async def hold(self, request: bytes, context: Any) -> bytes:
        self.begun += 1
        try:
            await self.release.wait()
            return b"done"
        finally:
            self.ended += 1

    async def stream(self, request: bytes, context: Any) -> AsyncIterator[bytes]:
        yield b"first"
        await self.hold(request, context)

    async def both(self, requests: AsyncIterator[bytes], context: Any) -> AsyncIterator[bytes]:
        async for request in requests:
            yield request
        await self.hold(b"", context)

    @property
    def methods(self) -> dict[str, Any]:
        return {
            "unary_unary Hold": self.hold,
            "unary_stream HoldStream": self.stream,
            "stream_stream HoldBoth": self.both,
        }


class Ends(AsyncExitStack):
    """Both ends, made on the loop that runs the test, and closed with it."""

    def __init__(self, handlers_of: Callable[[Mapping[str, Any]], Any]) -> None:
        super().__init__()
        self._handlers_of = handlers_of

    def held(self) -> Held:
        """Return handlers that are held."""
        return Held()

    def server(self, methods: Mapping[str, Any], **arguments: Any) -> Any:
        """Return a server of "t.Test" that is not started; behaviours, or handlers, by "arity Name"."""
        server = lucky_transport_stubs.aio_server(handlers=(self._handlers_of(methods),), **arguments)
        self.push_async_callback(server.stop, None)
        return server

    async def serve(self, methods: Mapping[str, Any], *, target: str = "", **arguments: Any) -> Any:
        """Return a server that is started; `target` is where it listens."""
        server = self.server(methods, **arguments)
        server.target = target or address()
        server.add_insecure_port(server.target)
        await server.start()
        return server

    def dial(self, target: Any, **arguments: Any) -> Client:
        """Return a client of a server, or of whoever will listen at a target."""
        channel = lucky_transport_stubs.aio_channel(getattr(target, "target", target), **arguments)
        self.push_async_callback(channel.close)
        return Client(channel)

    async def pair(self, methods: Mapping[str, Any], **arguments: Any) -> Client:
        """Return a client of a server with these methods."""
        return self.dial(await self.serve(methods, **arguments))


@pytest.fixture
def ends(handlers_of: Any) -> Ends:
    return Ends(handlers_of)


def address() -> str:
    """Return an address at which nobody listens."""
    return f"shm://{unique_name()}"


@pytest.fixture(name="address")
def _address() -> Callable[[], str]:
    return address


@pytest.fixture
def spawn() -> Any:
    """Start a server in a process of its own; it is killed with the test."""
    processes: list[subprocess.Popen[str]] = []

    def start(target: str) -> subprocess.Popen[str]:
        process = subprocess.Popen([sys.executable, "-c", SERVER, target], stdout=subprocess.PIPE, text=True)
        processes.append(process)
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        return process

    yield start
    for process in processes:
        process.kill()
        process.communicate()
    remove_stale_sockets()  # a killed server leaves its socket


@pytest.fixture
def error_of() -> Callable[[Awaitable[Any]], Awaitable[tuple[str, str]]]:
    """Await what must fail as an RPC, and return (the name of its code, its details)."""

    async def fail(call: Awaitable[Any]) -> tuple[str, str]:
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await call
        return caught.value.code().name, caught.value.details() or ""

    return fail

"""The server program of a pair: it answers with what it was asked, so that only the way there is measured.

    python -m lucky_transport_migration.bench.stubs.server PATH sync|asyncio|uvloop ADDRESS ITEM_BYTES READY

It writes its target into the file READY when it serves, and ends when its stdin does.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from importlib import import_module
from pathlib import Path
from typing import Any

import grpc
import grpc.aio
from google.protobuf.wrappers_pb2 import BytesValue, StringValue, UInt64Value

from lucky_transport import inline
from lucky_transport.registry import load
from lucky_transport_migration.bench.measuring import NUMBER_BYTES
from lucky_transport_migration.bench.stubs.echo_stub import EchoServicer, add_EchoServicer_to_server

#: Options of channels and servers: messages of any length, where gRPC takes 4 MiB.
ANY_LENGTH = (("grpc.max_receive_message_length", -1), ("grpc.max_send_message_length", -1))
_WORKERS = 16
_GRACE_S = 5.0
_OF_GRPC = {
    "server": grpc.server,
    "aio_server": grpc.aio.server,
    "channel": grpc.insecure_channel,
    "aio_channel": grpc.aio.insecure_channel,
}


def made(path: str, name: str, *arguments: Any, **options: Any) -> Any:
    """Make a channel or server of real gRPC, or of shm our own; each is what its constructor gives.

    Raises MissingExtra and BrokenPlugin besides their own errors.
    """
    ours = path == "shm"
    cls = load(f"lucky_transport_stubs:{name}", owner="bench --suite stubs", extra="grpc") if ours else _OF_GRPC[name]
    return cls(*arguments, **options)


def item_number(item: BytesValue) -> int:
    """Return which of its stream an item is, from 0."""
    return int.from_bytes(item.value[:NUMBER_BYTES], "little")


class Echo(EchoServicer):
    """A servicer for grpc.server and for ours; `item_bytes`: of an item of Watch."""

    def __init__(self, item_bytes: int) -> None:
        self._padding = bytes(item_bytes - NUMBER_BYTES)

    def Ask(self, request: StringValue, context: Any) -> StringValue:  # noqa: N802 - as the stub calls it
        return StringValue(value=request.value)

    @inline
    def AskInline(self, request: StringValue, context: Any) -> StringValue:  # noqa: N802 - as the stub calls it
        return StringValue(value=request.value)

    def Send(self, request: BytesValue, context: Any) -> BytesValue:  # noqa: N802 - as the stub calls it
        return BytesValue(value=request.value)

    def Watch(self, request: UInt64Value, context: Any) -> Iterator[BytesValue]:  # noqa: N802 - as the stub calls it
        for number in range(request.value):
            yield BytesValue(value=number.to_bytes(NUMBER_BYTES, "little") + self._padding)


class AioEcho(EchoServicer):
    """A servicer for grpc.aio.server and for ours of asyncio, which are asked one method."""

    async def Ask(self, request: StringValue, context: Any) -> StringValue:  # noqa: N802 - as the stub calls it
        return StringValue(value=request.value)

    AskInline = Send = Watch = Ask


def _serve(path: str, address: str, ready: Path, item_bytes: int) -> None:
    with ThreadPoolExecutor(_WORKERS) as pool:
        server = made(path, "server", pool, options=ANY_LENGTH)
        add_EchoServicer_to_server(Echo(item_bytes), server)
        port = server.add_insecure_port(address)
        server.start()
        ready.write_text(_target(address, port))
        sys.stdin.read()
        server.stop(0).wait(_GRACE_S)


async def _serve_aio(path: str, address: str, ready: Path) -> None:
    server = made(path, "aio_server")
    add_EchoServicer_to_server(AioEcho(), server)
    port = server.add_insecure_port(address)
    await server.start()
    ready.write_text(_target(address, port))
    await asyncio.to_thread(sys.stdin.read)
    await server.stop(0)


def _target(address: str, port: int) -> str:
    return f"127.0.0.1:{port}" if address == "127.0.0.1:0" else address


if __name__ == "__main__":
    path, flavour, address, size, file = sys.argv[1:]
    if flavour == "sync":
        _serve(path, address, Path(file), int(size))
    else:
        import_module(flavour).run(_serve_aio(path, address, Path(file)))

"""A service as protoc's plugin for grpc would generate it, whose messages are text, and how the programs are started.

python threads.py hello_world server 127.0.0.1:50051
python threads.py hello_world client 127.0.0.1:50051
"""

import asyncio
import inspect
import sys
from collections.abc import Callable
from typing import Any

import grpc

ARITIES = {
    "Say": "unary_unary",
    "List": "unary_stream",
    "Collect": "stream_unary",
    "Talk": "stream_stream",
}


def encode(text: str | bytes) -> bytes:
    """Return a message as it travels; grpc.aio has encoded text itself."""
    return text if isinstance(text, bytes) else text.encode()


class ChatStub:
    """The client's end."""

    Say: Any
    List: Any
    Collect: Any
    Talk: Any

    def __init__(self, channel: Any, service: str = "chat.Chat") -> None:
        for name, arity in ARITIES.items():
            make = getattr(channel, arity)
            method = make(f"/{service}/{name}", request_serializer=encode, response_deserializer=bytes.decode)
            setattr(self, name, method)


def add_chat_servicer(servicer: Any, server: Any, service: str = "chat.Chat") -> None:
    """Add the methods that a servicer has."""
    handlers = {
        name: getattr(grpc, f"{arity}_rpc_method_handler")(
            getattr(servicer, name), request_deserializer=bytes.decode, response_serializer=encode
        )
        for name, arity in ARITIES.items()
        if hasattr(servicer, name)
    }
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(service, handlers),))
    if hasattr(server, "add_registered_method_handlers"):
        server.add_registered_method_handlers(service, handlers)


def main(**programs: tuple[Callable[[str], Any], Callable[[str], Any]]) -> None:
    """Run the end of a program that the command line names: NAME, "server" or "client", ADDRESS."""
    name, end, address = sys.argv[1:]
    done = programs[name][end == "client"](address)
    if inspect.iscoroutine(done):
        asyncio.run(done)


def say(*words: object) -> None:
    """Print a line at once."""
    print(*words, flush=True)

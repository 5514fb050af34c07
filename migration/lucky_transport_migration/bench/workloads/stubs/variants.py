"""The ways by which a stub reaches a servicer.

    grpc-tcp     real gRPC over loopback TCP
    grpc-unix    real gRPC over a unix socket
    shm          our drop-in channel and server over shared memory

Of a way nothing but the longest message is configured: each channel and each server is what its constructor gives.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import grpc
import grpc.aio

from lucky_transport.process import unique_name
from lucky_transport.registry import load

__all__ = ["ANY_LENGTH", "StubVariant", "free_address", "target_of", "way_of"]

_PLUGIN = "lucky_transport_stubs"
#: Options of channels and servers: messages of any length, where gRPC takes 4 MiB.
ANY_LENGTH = (("grpc.max_receive_message_length", -1), ("grpc.max_send_message_length", -1))


@dataclass(frozen=True, slots=True)
class StubVariant:
    """How a program makes channels and servers."""

    server: Callable[..., Any]
    aio_server: Callable[..., Any]
    channel: Callable[..., Any]
    aio_channel: Callable[..., Any]


def way_of(path: str) -> StubVariant:
    """Return the way called `path`. What is made by it raises MissingExtra and BrokenPlugin besides its own errors."""
    if path == "shm":
        return StubVariant(_ours("server"), _ours("aio_server"), _ours("channel"), _ours("aio_channel"))
    return StubVariant(grpc.server, grpc.aio.server, grpc.insecure_channel, grpc.aio.insecure_channel)


def _ours(name: str) -> Callable[..., Any]:
    """Return what makes one of ours; the plugin is found by name, and only then imported."""

    def make(*arguments: Any, **named: Any) -> Any:
        return load(f"{_PLUGIN}:{name}", owner="bench --suite stubs", extra="grpc")(*arguments, **named)

    return make


def free_address(path: str, directory: Path) -> str:
    """Return an address of that way without a listener; a socket's file lies in `directory`."""
    if path == "shm":
        return f"shm://{unique_name()}"
    return f"unix:{directory / 'server.sock'}" if path == "grpc-unix" else "127.0.0.1:0"


def target_of(address: str, port: int) -> str:
    """Return where to connect to, from the address that was asked for and the port that `add_insecure_port` gave."""
    return f"127.0.0.1:{port}" if address == "127.0.0.1:0" else address

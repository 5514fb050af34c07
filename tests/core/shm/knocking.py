"""Strangers that knock at a listener, and a listener that is served until something is so."""

from __future__ import annotations

import select
import socket
import time
from collections.abc import Callable
from pathlib import Path

from lucky_transport.shm.listener.listener import Listener
from lucky_transport.shm.listener.memfd_pipe import MemfdPipe

__all__ = ["advance_until", "hung_up", "knock"]


def knock(path: Path) -> socket.socket:
    """Connect and say nothing."""
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    connection.settimeout(10)
    connection.connect(str(path))
    return connection


def advance_until(listener: Listener, done: Callable[[], bool]) -> list[MemfdPipe]:
    """Serve the listener until `done()`; ten seconds at most."""
    until = time.monotonic() + 10
    pipes: list[MemfdPipe] = []
    while not done():
        assert time.monotonic() < until
        pipes.extend(listener.advance())
        time.sleep(0.001)
    return pipes


def hung_up(connection: socket.socket) -> bool:
    """True when the other side closed the connection."""
    readable, _, _ = select.select([connection], [], [], 0)
    try:
        return bool(readable) and connection.recv(4096) == b""
    except ConnectionResetError:
        return True

"""Peers at the other end of a pipe: an engine of ours at a name of its own, and scripted ones of a few plain lines."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable, Generator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from lucky_transport import api
from lucky_transport.process import unique_name
from lucky_transport.shm.files import file_watch
from lucky_transport_pipe.address import path_of
from lucky_transport_pipe.instance import Instance
from tests.support.waiting import PATIENCE_S

_INSTANCE = partial(Instance, timeout_s=PATIENCE_S)


class Peer:
    """A plain socket that speaks lines: what a peer that is not ours does, and nothing more."""

    def __init__(self, connection: socket.socket) -> None:
        connection.settimeout(PATIENCE_S)
        self.connection = connection
        self._rest = b""

    def send(self, *lines: str, end: str = "\n") -> None:
        self.connection.sendall("".join(line + end for line in lines).encode())

    def read_raw(self) -> bytes:
        """Return the next line with its end; b"" when the other side has closed."""
        while b"\n" not in self._rest:
            data = self.connection.recv(65536)
            if not data:
                return b""
            self._rest += data
        line, _, self._rest = self._rest.partition(b"\n")
        return line + b"\n"

    def read(self) -> str:
        return self.read_raw().decode().rstrip("\r\n")

    def read_until(self, last: str) -> list[str]:
        """Return the lines up to and with `last`."""
        lines = [self.read()]
        while lines[-1] != last:
            assert lines[-1], f"the pipe was closed after {lines}"
            lines.append(self.read())
        return lines

    def close(self) -> None:
        self.connection.close()

    def __enter__(self) -> Peer:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()


@pytest.fixture
def name() -> Generator[str]:
    """A pipe's name that no other test has; nothing of it may be left on the disk."""
    chosen = unique_name()
    yield chosen
    path = Path(path_of(chosen))
    left = [each.name for each in path.parent.glob(path.name + "*")]
    for each in left:
        (path.parent / each).unlink()
    assert left == []


@pytest.fixture
def serving(name: str, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Any]:
    """Returns an engine of ours that comes to the pipe, as a context; keywords are options of its endpoint.

    It looks for a client only where it is told of a file.
    """
    monkeypatch.setattr(file_watch, "_LONGEST_S", 10 * PATIENCE_S)

    def serve(engine: Any = "cartpole", **query: Any) -> Any:
        options = "&".join(f"{key}={value}" for key, value in query.items())
        return api.serve(engine, f"pipe://{name}{'?' + options if options else ''}")

    return serve


@pytest.fixture
def come(name: str) -> Callable[[], Peer]:
    """Returns the connection of a scripted engine that connects to the pipe once a client offers it."""

    def come_to() -> Peer:
        until = time.monotonic() + PATIENCE_S
        while True:
            connection = socket.socket(socket.AF_UNIX)
            try:
                connection.connect(path_of(name))
                return Peer(connection)
            except (FileNotFoundError, ConnectionRefusedError):
                connection.close()
                assert time.monotonic() < until, f"no client offered {name}"
                time.sleep(0.005)

    return come_to


@pytest.fixture
def offering(name: str) -> Callable[[], Any]:
    """Returns a scripted client as a context: the connection of the engine that came."""

    @contextmanager
    def offer() -> Generator[Peer]:
        path = path_of(name)
        with socket.socket(socket.AF_UNIX) as listener:
            listener.settimeout(PATIENCE_S)
            listener.bind(path)
            listener.listen(1)
            try:
                connection, _ = listener.accept()
            finally:
                Path(path).unlink(missing_ok=True)
        with Peer(connection) as peer:
            yield peer

    return offer


@pytest.fixture
def playing(name: str, come: Callable[[], Peer]) -> Callable[..., Any]:
    """Returns an instance of ours, or what `make` makes of the name, and the scripted engine at its other end."""

    @contextmanager
    def play(make: Callable[[str], Any] = _INSTANCE) -> Generator[tuple[Any, Peer]]:
        with ThreadPoolExecutor(1) as pool:
            coming = pool.submit(come)
            with make(name) as instance, coming.result() as engine:
                yield instance, engine

    return play

"""The engine's end: one thread waits for clients, one more serves each connection.

A client opens two connections, "step" and "call", so that commands are answered while a step is under way.
"""

from __future__ import annotations

import contextlib
import itertools
import tempfile
import threading
from multiprocessing.connection import Client, Connection, Listener
from pathlib import Path
from typing import Any

import numpy as np

from lucky_transport.call import Call
from lucky_transport.config import Settings
from lucky_transport.deadline import Deadline
from lucky_transport.endpoint import Endpoint
from lucky_transport.engine import Buffers
from lucky_transport.errors import NotReachable, TransportError, Unimplemented
from lucky_transport.host.host import Host, Lease
from lucky_transport.messages.methods import BY_NAME
from lucky_transport.serving import Server

_POLL_S = 0.02
_numbers = itertools.count(1)


def address_of(endpoint: Endpoint) -> str:
    """Return the socket's path."""
    return str(Path(tempfile.gettempdir()) / f"mailbox_{endpoint.address}.sock")


def server(endpoint: Endpoint, settings: Settings) -> MailboxServer:
    """Return a server at `mailbox://name`."""
    return MailboxServer(endpoint)


class MailboxServer(Server):
    """Serves one host to any number of clients."""

    def __init__(self, endpoint: Endpoint) -> None:
        self._endpoint = endpoint
        self._stopping = threading.Event()
        self._threads: list[threading.Thread] = []
        self._listener: Listener | None = None

    def start(self, host: Host) -> Endpoint:
        try:
            self._listener = Listener(address_of(self._endpoint), family="AF_UNIX")
        except OSError as error:
            raise NotReachable(f"{self._endpoint} is taken: {error}", backend="mailbox") from error
        self._start(self._accept, self._listener, host)
        return self._endpoint

    def _start(self, target: Any, *arguments: Any) -> None:
        thread = threading.Thread(target=target, args=arguments, daemon=True)
        self._threads.append(thread)
        thread.start()

    def _accept(self, listener: Listener, host: Host) -> None:
        while not self._stopping.is_set():
            with contextlib.suppress(OSError):
                self._start(self._serve, listener.accept(), host)

    def _serve(self, connection: Connection, host: Host) -> None:
        driver = _Driver(host)
        with connection, contextlib.suppress(EOFError, OSError):
            connection.send(host.spec.to_json())
            while not self._stopping.is_set():
                if connection.poll(_POLL_S):
                    connection.send(driver.answer(*connection.recv()))
        driver.release()

    def stop(self, grace_s: float = 1.0) -> None:
        if self._listener is None or self._stopping.is_set():
            return
        self._stopping.set()
        with contextlib.suppress(OSError):
            Client(address_of(self._endpoint), family="AF_UNIX").close()  # wakes accept()
        for thread in list(self._threads):
            thread.join(grace_s + 5 * _POLL_S)
        self._listener.close()


class _Driver:
    """What one connection may do with the host."""

    def __init__(self, host: Host) -> None:
        self._host = host
        self._buffers = Buffers.allocate(host.spec)
        self._lease: Lease | None = None
        self._name = f"mailbox client {next(_numbers)}"

    def answer(self, kind: str, number: int, *arguments: Any) -> tuple[Any, ...]:
        """Return (number, "frame" | "response", ...) or (number, "error", wire code, text)."""
        try:
            return (number, *(self._step(*arguments) if kind == "step" else self._call(*arguments)))
        except TransportError as error:
            return number, "error", error.wire_code, str(error)

    def _step(self, actions: Any, control: Any) -> tuple[Any, ...]:
        if self._lease is None:
            self._lease = self._host.drive(self._name, self._buffers)
        np.copyto(self._buffers.actions, actions)
        self._lease.step(control)
        out = self._buffers
        return "frame", out.observations, out.rewards, out.terminated, out.truncated, out.signals

    def _call(self, name: str, request: Any, timeout_s: float) -> tuple[Any, ...]:
        if name not in BY_NAME:
            raise Unimplemented(f"engine {self._host.spec.engine!r} does not know {name}", backend="mailbox")
        call = Call(self._name, Deadline(timeout_s), between_steps=self._host.between_steps)
        return "response", self._host.call(BY_NAME[name], request, call)

    def release(self) -> None:
        """Let somebody else drive."""
        if self._lease is not None:
            self._lease.release()
        self._host.leave(self._name)

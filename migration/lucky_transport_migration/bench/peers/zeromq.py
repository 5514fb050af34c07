"""ZeroMQ as a peer: a PAIR of sockets over ipc."""

from __future__ import annotations

from pathlib import Path
from typing import Self

import numpy as np
import zmq

from lucky_transport.errors import PeerTimeout
from lucky_transport_migration.bench.peers.wire import PATIENCE_S, Bytes, Offer

__all__ = ["ZeroMq"]


class ZeroMq:
    """Messages are copied in and out, which is faster than ZeroMQ's own zero-copy at these sizes."""

    def __init__(self, address: str, largest: int, *, binds: bool) -> None:
        self._context = zmq.Context()
        self._socket = self._context.socket(zmq.PAIR)
        self._socket.setsockopt(zmq.LINGER, 0)
        self._socket.setsockopt(zmq.RCVTIMEO, int(PATIENCE_S * 1000))
        self._socket.setsockopt(zmq.SNDTIMEO, int(PATIENCE_S * 1000))
        (self._socket.bind if binds else self._socket.connect)(address)
        self._out = np.zeros(largest, np.uint8)
        self._message: Bytes = self._out

    @classmethod
    def offer(cls, directory: Path, largest: int) -> Offer:
        address = f"ipc://{directory / 'zeromq'}"
        return Offer(cls(address, largest, binds=True), address)

    @classmethod
    def accept(cls, address: str, largest: int) -> Self:
        return cls(address, largest, binds=False)

    def blank(self, nbytes: int) -> Bytes:
        self._message = self._out[:nbytes]
        return self._message

    def send(self) -> None:
        self._socket.send(self._message, copy=True)

    def receive(self, nbytes: int) -> Bytes:
        try:
            return np.frombuffer(self._socket.recv(), np.uint8)
        except zmq.Again as error:
            raise PeerTimeout(f"ZeroMQ: nothing came within {PATIENCE_S:g} s", backend="bench") from error

    def close(self) -> None:
        self._socket.close()
        self._context.term()

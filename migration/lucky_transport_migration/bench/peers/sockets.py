"""A connected pair of raw unix sockets as a peer."""

from __future__ import annotations

import socket
import struct
from pathlib import Path
from typing import Self

import numpy as np

from lucky_transport_migration.bench.peers.wire import PATIENCE_S, Bytes, Offer

__all__ = ["RawSocket"]

_BUFFER_BYTES = 4 << 20  # asked of the kernel, which grants what its limits allow
_TIMEVAL = struct.pack("ll", int(PATIENCE_S), 0)


def _pair() -> tuple[socket.socket, socket.socket]:
    """Return both ends; a receive that lasts longer than PATIENCE_S fails, without a look before each one."""
    ends = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
    for end in ends:
        end.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, _TIMEVAL)
        end.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, _TIMEVAL)
        for option in (socket.SO_SNDBUF, socket.SO_RCVBUF):
            end.setsockopt(socket.SOL_SOCKET, option, _BUFFER_BYTES)
    return ends


class RawSocket:
    """An end with a buffer each way, as long as the longest message.

    The length is known to both ends, so nothing but the bytes travels; the kernel wakes the receiver.
    """

    def __init__(self, end: socket.socket, largest: int) -> None:
        self._socket = end
        self._out = np.zeros(largest, np.uint8)
        self._in = np.zeros(largest, np.uint8)
        self._message: Bytes = self._out

    @classmethod
    def offer(cls, directory: Path, largest: int) -> Offer:
        ours, theirs = _pair()
        descriptor = theirs.detach()
        return Offer(cls(ours, largest), str(descriptor), (descriptor,))

    @classmethod
    def accept(cls, address: str, largest: int) -> Self:
        return cls(socket.socket(fileno=int(address)), largest)

    def blank(self, nbytes: int) -> Bytes:
        self._message = self._out[:nbytes]
        return self._message

    def send(self) -> None:
        self._socket.sendall(self._message)

    def receive(self, nbytes: int) -> Bytes:
        message = self._in[:nbytes]
        got = self._some(message)
        while got < nbytes:
            got += self._some(message[got:])
        return message

    def _some(self, place: Bytes) -> int:
        got = self._socket.recv_into(place)
        if not got:
            raise EOFError("the other end of the socket is gone")
        return got

    def close(self) -> None:
        self._socket.close()

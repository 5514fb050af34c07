"""The messages that a client and a listener exchange before the client gets a pipe.

    client    "LRRV" · u16 version · u16 features
    engine    "LRRV" · u16 version · u16 features · u32 status · u32 ring bytes · UTF-8 reason
              with status 0: memory, the engine's event descriptor and the client's, in this order

Each side sends one message (SOCK_SEQPACKET keeps them apart). The status is 0, or the wire code of the error that
refuses the client.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from enum import IntFlag

from lucky_transport.errors import RemoteProtocolError

__all__ = ["CLIENT_HELLO_BYTES", "LONGEST_SERVER_HELLO", "VERSION", "ClientHello", "PeerFeature", "ServerHello"]

VERSION = 1
LONGEST_SERVER_HELLO = 1024

_MAGIC = b"LRRV"
_GREETING = struct.Struct("<4sHH")
_ANSWER = struct.Struct("<4sHHII")
CLIENT_HELLO_BYTES = _GREETING.size


class PeerFeature(IntFlag):
    """What a side does."""

    PARKS = 1  # it may sleep, so it must be woken


@dataclass(frozen=True, slots=True)
class ClientHello:
    """What the client says."""

    features: PeerFeature
    version: int = VERSION

    def to_bytes(self) -> bytes:
        """Return the message."""
        return _GREETING.pack(_MAGIC, self.version, self.features)

    @classmethod
    def of(cls, message: bytes) -> ClientHello:
        """Read the message; raises RemoteProtocolError when it is none."""
        if len(message) != _GREETING.size or message[:4] != _MAGIC:
            raise RemoteProtocolError(f"{message[:16]!r} ({len(message)} bytes) is no greeting", backend="shm")
        _, version, features = _GREETING.unpack(message)
        return cls(PeerFeature(features & PeerFeature.PARKS), version)


@dataclass(frozen=True, slots=True)
class ServerHello:
    """What the engine says."""

    features: PeerFeature
    status: int
    ring_bytes: int
    reason: str = ""
    version: int = VERSION

    def to_bytes(self) -> bytes:
        """Return the message; a long reason is cut."""
        head = _ANSWER.pack(_MAGIC, self.version, self.features, self.status, self.ring_bytes)
        return head + self.reason.encode()[: LONGEST_SERVER_HELLO - len(head)]

    @classmethod
    def of(cls, message: bytes) -> ServerHello:
        """Read the message; raises RemoteProtocolError when it is none."""
        if len(message) < _ANSWER.size or message[:4] != _MAGIC:
            raise RemoteProtocolError(
                f"{message[:16]!r} ({len(message)} bytes) is no answer to a greeting",
                backend="shm",
                hint="something else listens there",
            )
        _, version, features, status, size = _ANSWER.unpack_from(message)
        reason = message[_ANSWER.size :].decode(errors="replace")
        return cls(PeerFeature(features & PeerFeature.PARKS), status, size, reason, version)

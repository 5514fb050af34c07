"""What a client and a listener exchange before the client gets a pipe: a message each, and two rings.

    client    "LRRV" · u16 version · u16 features
    engine    "LRRV" · u16 version · u16 features · u32 status · u32 ring bytes · UTF-8 reason
              with status 0: the descriptor of the memory
              with the feature ARENAS, which the client must have named, u32 arena bytes stands before the reason

    memory    byte 0      park word of the engine: it waits for what the client writes; behind it the client's CPU
              byte 128    park word of the client; behind it the engine's CPU
              byte 256    ring, client to engine; then ring, engine to client
              behind      with ARENAS, at multiples of 64 KiB: the arena of each ring, in the same order

From then on a side sends a byte over the socket for a record that the other one sleeps for, as its park word says. The
rings have memory for their first records; a side that writes further has more first (`RingWriter`'s `backed`). A
side that does not know arenas neither offers nor asks for them; its long messages travel in fragments. A listener
with the feature RELAY carries calls on to another server: clients tell it which of them wait for that one. Each side
sends one message (SOCK_SEQPACKET keeps them apart). The status is 0, or the wire code of the error that refuses the
client. The memory is sealed, so that neither side can cut it short.
"""

from __future__ import annotations

import errno
import fcntl
import os
import stat
import struct
from typing import NamedTuple

from lucky_transport.errors import NoSpace, RemoteProtocolError
from lucky_transport.shm.arena import LARGEST_ARENA, PAGE
from lucky_transport.shm.files.mapping import Mapping, map_file
from lucky_transport.shm.ring import CACHE_LINE, ring_bytes

#: 1 had an eventfd per direction, by which a peer could make the other side block.
VERSION = 2
LONGEST_SERVER_HELLO = 1024

_MAGIC = b"LRRV"
_CLIENT_HELLO = struct.Struct("<4sHH")
_SERVER_HELLO = struct.Struct("<4sHHII")
_ARENA = struct.Struct("<I")
CLIENT_HELLO_BYTES = _CLIENT_HELLO.size
#: The features of a side: it may sleep, so it must be woken (every side does); it knows arenas; it is a relay.
_PARKS, _ARENAS, _RELAY = 1, 2, 4

#: Rings smaller than a page are no use, larger ones a lie.
_SMALLEST_RING, _LARGEST_RING = 4096, 1 << 28
#: Neither side can shrink the memory, which would be SIGBUS on the other, or remove the seals.
_SEALS = fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SEAL


class ClientHello(NamedTuple):
    """What the client says."""

    version: int = VERSION
    arenas: bool = True

    def to_bytes(self) -> bytes:
        """Return the message."""
        return _CLIENT_HELLO.pack(_MAGIC, self.version, _PARKS | _ARENAS * self.arenas)

    @classmethod
    def of(cls, message: bytes) -> ClientHello:
        """Read the message; raises RemoteProtocolError when it is none."""
        if len(message) != _CLIENT_HELLO.size or message[:4] != _MAGIC:
            raise RemoteProtocolError(f"{message[:16]!r} ({len(message)} bytes) is no hello of a client", backend="shm")
        _, version, features = _CLIENT_HELLO.unpack(message)
        return cls(version, bool(features & _ARENAS))


class ServerHello(NamedTuple):
    """What the engine says; `arena_bytes` is 0 for a client that knows no arenas. is_relay: calls go on from there."""

    status: int
    ring_bytes: int
    reason: str = ""
    version: int = VERSION
    arena_bytes: int = 0
    is_relay: bool = False

    def to_bytes(self) -> bytes:
        """Return the message; a long reason is cut."""
        features = _PARKS | _ARENAS * bool(self.arena_bytes) | _RELAY * self.is_relay
        head = _SERVER_HELLO.pack(_MAGIC, self.version, features, self.status, self.ring_bytes)
        if self.arena_bytes:
            head += _ARENA.pack(self.arena_bytes)
        return head + self.reason.encode()[: LONGEST_SERVER_HELLO - len(head)]

    @classmethod
    def of(cls, message: bytes) -> ServerHello:
        """Read the message; raises RemoteProtocolError when it is none."""
        if len(message) < _SERVER_HELLO.size or message[:4] != _MAGIC:
            raise RemoteProtocolError(
                f"{message[:16]!r} ({len(message)} bytes) is no hello of an engine",
                backend="shm",
                hint="something else listens there",
            )
        _, version, features, status, size = _SERVER_HELLO.unpack_from(message)
        rest = message[_SERVER_HELLO.size :]
        arena_bytes = 0
        if features & _ARENAS and len(rest) >= _ARENA.size:
            [arena_bytes] = _ARENA.unpack_from(rest)
            rest = rest[_ARENA.size :]
        return cls(status, size, rest.decode(errors="replace"), version, arena_bytes, bool(features & _RELAY))


#: Bytes of each ring that have memory from the start: most connections carry no more, and memory takes long to get.
FIRST_BYTES = 1 << 13


class RingPair(NamedTuple):
    """Two rings of `size` data bytes each in one mapping, and where they and their park words lie.

    arena_bytes: of the arena of each ring, 0 without any.
    """

    mapping: Mapping
    size: int
    arena_bytes: int = 0

    park_engine = 0
    park_client = CACHE_LINE
    to_engine = 2 * CACHE_LINE

    @property
    def to_client(self) -> int:
        """Byte where the ring from engine to client begins."""
        return self.to_engine + ring_bytes(self.size)

    @property
    def arena_to_engine(self) -> int:
        """Byte where the arena from client to engine begins."""
        return _page(total_bytes(self.size))

    @property
    def arena_to_client(self) -> int:
        """Byte where the arena from engine to client begins."""
        return self.arena_to_engine + self.arena_bytes


def _page(size: int) -> int:
    return (size + PAGE - 1) & -PAGE


def total_bytes(size: int, arena_bytes: int = 0) -> int:
    """Return the bytes of a pair whose rings have `size` data bytes, and arenas of `arena_bytes`."""
    rings = 2 * CACHE_LINE + 2 * ring_bytes(size)
    return _page(rings) + 2 * arena_bytes if arena_bytes else rings


def make_pair(size: int, arena_bytes: int = 0) -> tuple[RingPair, int]:
    """Return a new pair with empty rings and its descriptor, sealed; raises NoSpace when there is no memory.

    The rings have memory for their first records, the arenas none.
    """
    fd = os.memfd_create("lucky_rings", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    try:
        total = total_bytes(size, arena_bytes)
        os.ftruncate(fd, total)
        fcntl.fcntl(fd, fcntl.F_ADD_SEALS, _SEALS)
        pair = RingPair(map_file(fd, total, "the memory of a pipe"), size, arena_bytes)
        first = ring_bytes(min(size, FIRST_BYTES))
        os.posix_fallocate(fd, 0, pair.to_engine + first)
        os.posix_fallocate(fd, pair.to_client, first)
        return pair, fd
    except OSError as error:
        os.close(fd)
        if error.errno not in (errno.ENOSPC, errno.ENOMEM):
            raise
        raise NoSpace(f"no memory for two rings of {size} bytes", backend="shm", hint="close other clients") from error
    except BaseException:
        os.close(fd)
        raise


def receive_pair(fd: int, size: int, arena_bytes: int = 0) -> RingPair:
    """Map the pair that a peer sent, with `size` data bytes per ring and arenas of `arena_bytes` by its own account.

    `fd` stays open.

    Raises RemoteProtocolError when it is not sealed memory of the right size.
    """
    if not _SMALLEST_RING <= size <= _LARGEST_RING or size & (size - 1):
        raise RemoteProtocolError(
            f"the peer offers rings of {size} bytes, expected a power of two from {_SMALLEST_RING} to {_LARGEST_RING}",
            backend="shm",
        )
    if arena_bytes % PAGE or arena_bytes > LARGEST_ARENA:
        raise RemoteProtocolError(
            f"the peer offers arenas of {arena_bytes} bytes, expected a multiple of {PAGE} up to {LARGEST_ARENA}",
            backend="shm",
        )
    status, total = os.fstat(fd), total_bytes(size, arena_bytes)
    if not stat.S_ISREG(status.st_mode) or status.st_size != total:
        beside = f" with arenas of {arena_bytes}" if arena_bytes else ""
        raise RemoteProtocolError(
            f"the peer sent {status.st_size} bytes for two rings of {size}{beside}, expected {total} of memory",
            backend="shm",
        )
    try:
        seals = fcntl.fcntl(fd, fcntl.F_GET_SEALS)
    except OSError:
        seals = 0  # a file, not a memfd
    if seals & _SEALS != _SEALS:
        raise RemoteProtocolError(
            f"the peer's memory has the seals {seals:#x}, expected at least {_SEALS:#x}", backend="shm"
        )
    return RingPair(map_file(fd, total, "the memory of a pipe"), size, arena_bytes)

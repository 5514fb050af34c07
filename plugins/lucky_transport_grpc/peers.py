"""What the kernel knows of a client that says nothing about itself: is it connected, and which program is it?

gRPC's Python server tells of calls, not of connections, so the kernel's table of TCP sockets is read when another
client wants to drive. Where it cannot be read, or the peer has no TCP port, the client may still be there and its
program is not known.
"""

from __future__ import annotations

import ipaddress
import os
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from urllib.parse import unquote

from lucky_transport.shm.liveness import start_time

__all__ = ["is_gone", "program_of"]

_TABLES = ("/proc/net/tcp", "/proc/net/tcp6")
_ESTABLISHED = "01"
#: The kernel writes a table out in pieces; a socket that moves between two of them is missed or listed twice.
_READINGS = 3


def is_gone(peer: str, port: int, tables: tuple[str, ...] = _TABLES) -> bool:
    """True when the client at `peer` (as gRPC writes it, "ipv4:127.0.0.1:40132") has no connection to our `port`."""
    found = _address(peer)
    if found is None:
        return False
    for _ in range(_READINGS):
        rows = _rows(tables)
        if not rows or any(_is_between(row, port, found[1]) for row in rows):
            return False
    return True


def program_of(peer: str, port: int, tables: tuple[str, ...] = _TABLES) -> str:
    """Return the process on this host, as "pid:start time", that made the connection of `peer` to our `port`.

    Returns "" when it is not known: the client is on another host, or its process belongs to another user.
    """
    found = _address(peer)
    if found is None:
        return ""
    for _ in range(_READINGS):
        rows = (row for row in _rows(tables) if len(row) > 9 and _is_between(row, found[1], port))
        inodes = {row[9] for row in rows if _host(row[1]) == found[0]}
        if len(inodes) == 1:
            return _maker(f"socket:[{inodes.pop()}]")
    return ""


def _maker(socket: str) -> str:
    """Return the oldest process that has the socket open: a forked child has its parent's connections too."""
    holders = [(start_time(pid), pid) for pid in _processes() if socket in _open_files(pid)]
    started, pid = min((one for one in holders if one[0]), default=(0, 0))  # 0: it has ended meanwhile
    return f"{pid}:{started}" if started else ""


def _processes() -> Iterator[int]:
    return (int(name) for name in os.listdir("/proc") if name.isdecimal())


def _open_files(pid: int) -> Iterator[str]:
    """Yield what the open files of a process are; nothing where they cannot be read."""
    folder = f"/proc/{pid}/fd"
    try:
        names = os.listdir(folder)
    except OSError:  # another user's, or it has ended
        return
    for name in names:
        with suppress(OSError):  # closed meanwhile
            yield os.readlink(f"{folder}/{name}")


def _address(peer: str) -> tuple[str, int] | None:
    """Return the host and port of a peer as gRPC writes it, "ipv6:%5B::1%5D:40132"; None for any other peer."""
    kind, _, address = peer.partition(":")
    host, _, port = unquote(address).rpartition(":")
    if kind not in ("ipv4", "ipv6") or not port.isdecimal():
        return None
    return _plain(host.strip("[]")), int(port)


def _plain(host: str) -> str:
    """Return one spelling of an address; an IPv4 address in IPv6's clothes is that IPv4 address."""
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return host
    mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
    return str(mapped or address)


def _host(column: str) -> str:
    """Return the address of a column like 0100007F:1F90: 32-bit words in the machine's own order of bytes."""
    digits = column.rpartition(":")[0]
    words = (int(digits[at : at + 8], 16).to_bytes(4, sys.byteorder) for at in range(0, len(digits), 8))
    return _plain(str(ipaddress.ip_address(b"".join(words))))


def _rows(tables: tuple[str, ...]) -> list[list[str]]:
    """Return the rows of the tables that are there; none where one cannot be read."""
    try:
        rows = [line.split() for table in tables if Path(table).exists() for line in _lines(table)]
    except OSError:
        return []
    return [row for row in rows if len(row) > 3]


def _lines(table: str) -> list[str]:
    return Path(table).read_text(encoding="ascii").splitlines()[1:]


def _is_between(row: list[str], local_port: int, remote_port: int) -> bool:
    return row[3] == _ESTABLISHED and _ports(row) == (local_port, remote_port)


def _ports(row: list[str]) -> tuple[int, int]:
    """Return a row's local and remote port: columns like 0100007F:1F90."""
    return int(row[1].rpartition(":")[2], 16), int(row[2].rpartition(":")[2], 16)

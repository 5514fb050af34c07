"""What the kernel knows of a client that says nothing about itself: is it connected?

gRPC's Python server tells of calls, not of connections, so the kernel's table of TCP sockets is read when another
client comes. Where it cannot be read, or the peer has no TCP port, the client may still be there.
"""

from __future__ import annotations

from pathlib import Path

_TABLES = ("/proc/net/tcp", "/proc/net/tcp6")
_ESTABLISHED = "01"
#: The kernel writes a table out in pieces; a socket that moves between two of them is missed or listed twice.
_READINGS = 3


def is_gone(peer: str, port: int, tables: tuple[str, ...] = _TABLES) -> bool:
    """True when the client at `peer` (as gRPC writes it, "ipv4:127.0.0.1:40132") has no connection to our `port`."""
    kind, _, address = peer.partition(":")
    theirs = address.rpartition(":")[2]
    if kind not in ("ipv4", "ipv6") or not theirs.isdecimal():
        return False
    for _ in range(_READINGS):
        rows = _rows(tables)
        if not rows or any(_is_between(row, port, int(theirs)) for row in rows):
            return False
    return True


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

"""Whether a client that cannot say goodbye is still connected.

gRPC's Python server tells calls, not connections. The kernel knows: its table of TCP sockets is read when somebody else
wants to drive, so that a legacy client which ended a moment ago does not keep the engine busy.

Rule 1: where the table cannot be read, or the peer has no TCP port, the answer is that it may still be there.
"""

from __future__ import annotations

from pathlib import Path

__all__ = ["is_gone"]

_TABLES = ("/proc/net/tcp", "/proc/net/tcp6")
_ESTABLISHED = "01"


def is_gone(peer: str, port: int, tables: tuple[str, ...] = _TABLES) -> bool:
    """True when the client at `peer` (as gRPC writes it, "ipv4:127.0.0.1:40132") has no connection to our `port`."""
    kind, _, address = peer.partition(":")
    client_port = address.rpartition(":")[2]
    if kind not in ("ipv4", "ipv6") or not client_port.isdecimal():
        return False
    try:
        rows = [line.split() for table in tables if Path(table).exists() for line in _lines(table)]
    except OSError:
        return False
    ends = (port, int(client_port))
    return bool(rows) and not any(row[3] == _ESTABLISHED and _ports(row) == ends for row in rows if len(row) > 3)


def _lines(table: str) -> list[str]:
    return Path(table).read_text(encoding="ascii").splitlines()[1:]


def _ports(row: list[str]) -> tuple[int, int]:
    """Return a row's local and remote port: columns like 0100007F:1F90."""
    return int(row[1].rpartition(":")[2], 16), int(row[2].rpartition(":")[2], 16)

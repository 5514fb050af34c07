"""The caller of a call to the server, and what its metadata asks for."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from lucky_transport.call import Call
from lucky_transport.deadline import Deadline
from lucky_transport.errors import LocalProtocolError
from lucky_transport.host.driver_lease import IDLE_S, Driver
from lucky_transport.host.host import Host
from lucky_transport_grpc.metadata import AFTER_RESET, CLIENT, DROPPED, SEQ, TERMS

#: The client's own clock ends a call at its deadline; ours is this much later, so that it never speaks first.
_GRACE_S = 0.1
#: After `channel.close()` gRPC needs so long at most, on a busy machine, until the connection has ended.
_PATIENCE_S = 0.5
#: gRPC's Python server tells of calls, not of connections, so the kernel's tables of TCP sockets are read. It writes a
#: table out in pieces; a socket that moves between two of them is missed or listed twice.
_TABLES = ("/proc/net/tcp", "/proc/net/tcp6")
_ESTABLISHED, _READINGS = "01", 3
#: A call whose deadline is further away than this has none: gRPC then says some far date.
_NEVER_S = 1e8
#: The largest number of an exchange.
_LARGEST = (1 << 63) - 1


@dataclass(frozen=True, slots=True, eq=False)
class ServerContext:
    """What holds for all callers of one server.

    `longest_s`: how long a unary call without a deadline may wait. `idle_s`, `is_gone`: when a client that did not
    attach may be replaced. `legacy`: our metadata is not read, as by an engine that does not know us. `kind`: what
    callers are called before their names, in texts.
    """

    longest_s: float = 60.0
    idle_s: float = IDLE_S
    is_gone: Callable[[str], bool] = lambda client: False
    legacy: bool = False
    kind: str = "grpc client "


class Caller:
    """One call's context: `key` tells callers apart."""

    __slots__ = (
        "_context",
        "_server",
        "after_reset",
        "all_terms",
        "key",
        "seq",
        "timeout_s",
    )

    def __init__(self, context: Any, server: ServerContext) -> None:
        """`timeout_s` is how long the call may wait: until its deadline, `server.longest_s` at most.

        Raises LocalProtocolError for metadata that makes no sense.
        """
        given: dict[str, Any] = {}
        if not server.legacy:
            given = {key: value for key, value in context.invocation_metadata() if key.startswith("lucky-")}
        self._context = context
        self._server = server
        # Legacy clients of one unix socket share its address and so count as one.
        self.key: str = given.get(CLIENT) or context.peer()
        self.seq = _number(given, SEQ)
        self.after_reset = given.get(AFTER_RESET) == "1"
        self.all_terms = given.get(TERMS) == "all"
        self.timeout_s = min(context.time_remaining(), server.longest_s)

    @property
    def driver(self) -> Driver:
        """The caller as a driver of the host."""
        server = self._server
        return Driver(
            self.key,
            f"{server.kind}{self.key}",
            server.idle_s,
            partial(server.is_gone, self.key),
            server,
            _PATIENCE_S,
            self._is_over,
        )

    def _is_over(self) -> bool:
        return not self._context.is_active()

    def call(self, host: Host, *, stream: bool) -> Call:
        """Return the call as its handler sees it; it is over as soon as gRPC says so. A stream has no time limit."""
        left_s = self._context.time_remaining() if stream else self.timeout_s
        deadline = None if left_s is None or left_s > _NEVER_S else Deadline(left_s + _GRACE_S)
        metadata = tuple(
            (key, value)
            for key, value in self._context.invocation_metadata()
            if not key.startswith("lucky-") and key != "user-agent"
        )
        call = Call(self.key, deadline, metadata, between_steps=host.between_steps)
        if not self._context.add_callback(call.end):
            call.end()
        return call

    def report_dropped(self, count: int) -> None:
        """Tell the caller, at the end of a stream, how many items were skipped."""
        if count:
            self._context.set_trailing_metadata(((DROPPED, str(count)),))

    def on_end(self, callback: Callable[[], None]) -> None:
        """Have `callback` called when the call is over, however it ends, at once where it is; it must not block."""
        if not self._context.add_callback(callback):
            callback()


def _number(given: dict[str, Any], key: str) -> int:
    value = given.get(key)
    if value is None:
        return 0
    if not (isinstance(value, str) and value.isdecimal() and 1 <= int(value) <= _LARGEST):
        raise LocalProtocolError(f"metadata {key}: {value!r}", backend="grpc", hint=f"expected 1 to {_LARGEST}")
    return int(value)


def is_gone(peer: str, port: int, tables: tuple[str, ...] = _TABLES) -> bool:
    """True when the client at `peer` (as gRPC writes it, "ipv4:127.0.0.1:40132") has no connection to our `port`.

    Where the tables cannot be read, or the peer has no TCP port, the client may still be there.
    """
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

"""The gRPC servers in shared memory: what they offer, who is connected and what was called, without asking them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from lucky_transport import call_counts
from lucky_transport.shm.files.liveness import STOPPED, process_name
from lucky_transport.shm.files.server_description import ServerDescription, described

_CONNECTED = "03"
#: So many names of servers that are gone are told.
_MOST_NAMES = 3


@dataclass(frozen=True, slots=True)
class ServerReport:
    """A gRPC server at shm://name: of `lucky-transport run`, of a program that made it, or a relay.

    state: "ok", "stopped" (by a signal) or "stale" (it is gone). methods: full names of those that its handlers list.
    target: where gRPC serves the same, "" for nowhere. calls: method -> calls over shared memory and over gRPC;
    None where they are not counted. peers: connected clients, None where they cannot be counted.
    is_relay: the server is at `target`, and this carries calls to it.
    """

    name: str
    pid: int
    process: str
    state: str
    methods: tuple[str, ...] = ()
    target: str = ""
    calls: dict[str, tuple[int, int]] | None = None
    peers: int | None = None
    is_relay: bool = False

    @property
    def services(self) -> list[str]:
        """The services of the methods, by name."""
        return sorted({method.strip("/").rpartition("/")[0] for method in (*self.methods, *(self.calls or ()))})

    @property
    def transports(self) -> str:
        """Where callers find it: "shm", or "shm + grpc"; "relay" of what is at `target` alone."""
        if self.is_relay:
            return "relay"
        return "shm + grpc" if self.target else "shm"

    @property
    def total(self) -> int | None:
        """All calls, None where they are not counted."""
        return None if self.calls is None else sum(map(sum, self.calls.values()))

    def plain(self) -> dict[str, Any]:
        """Return it as JSON values."""
        calls = None if self.calls is None else {name: {"shm": a, "grpc": b} for name, (a, b) in self.calls.items()}
        return asdict(self) | {"services": self.services, "transports": self.transports, "calls": calls}


def find(proc: Path = Path("/proc")) -> list[ServerReport]:
    """Return the servers of this user on this host, those that live first, then by name."""
    connections = connections_to(proc)
    found = [
        _report(description, pid, None if connections is None else connections[str(socket)])
        for socket, description, pid in described()
    ]
    return sorted(found, key=lambda one: (one.state == "stale", one.name, one.pid))


def of_name(name: str) -> list[ServerReport]:
    """Return the servers at shm://name, those that live first."""
    return [one for one in find() if one.name == name]


def stale_sentence(found: Sequence[ServerReport]) -> str:
    """Return what there is to say of those servers whose process is gone, "" where there are none."""
    names = list(dict.fromkeys(one.name for one in found if one.state == "stale"))
    if not names:
        return ""
    shown = ", ".join(names[:_MOST_NAMES]) + (", ..." if len(names) > _MOST_NAMES else "")
    return f"Servers whose process is gone: {shown}; `lucky-transport doctor --fix` removes what they left."


def _report(description: ServerDescription, pid: int | None, peers: int | None) -> ServerReport:
    one = description
    known = ServerReport(one.name, one.pid, "gone", "stale", one.methods, one.target, is_relay=one.is_relay)
    if pid is None:
        return known
    process = process_name(pid)
    state = "stopped" if process.endswith(STOPPED) else "ok"
    return replace(known, process=process, state=state, calls=_calls(description), peers=peers)


def _calls(description: ServerDescription) -> dict[str, tuple[int, int]] | None:
    """Return method -> calls over shared memory and over gRPC, None where they are not counted."""
    if not description.counts or not Path(description.counts).is_dir():
        return None
    try:
        processes = call_counts.read(Path(description.counts))
    except (OSError, ValueError, TypeError, KeyError):
        return None
    here = f"shm://{description.name}"
    calls: dict[str, tuple[int, int]] = dict.fromkeys(description.methods, (0, 0))
    for row in (row for one in processes if one.pid == description.pid for row in one.calls):
        if row.role == "server" and row.method:
            shm, grpc = calls.get(row.method, (0, 0))
            if row.endpoint == here:
                calls[row.method] = shm + row.count, grpc
            elif not row.endpoint and description.target in row.target.split(", "):
                calls[row.method] = shm, grpc + row.count
    return calls


def connections_to(proc: Path = Path("/proc")) -> Counter[str] | None:
    """Return unix socket's path -> how many clients are connected to it; None where /proc does not tell."""
    found: Counter[str] = Counter()
    try:
        lines = (proc / "net" / "unix").read_text().splitlines()[1:]
    except OSError:
        return None
    for line in lines:
        row = line.split(maxsplit=7)
        if len(row) == 8 and row[5] == _CONNECTED:
            found[row[7]] += 1
    return found

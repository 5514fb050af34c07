"""The peers by name: what each is called and what makes its ends.

    unix-socket   a raw unix socket, both sides blocking
    iceoryx2      iceoryx2, publish and subscribe, polled

What is not installed is a note in the result, never a silent gap.
"""

from __future__ import annotations

from lucky_transport.errors import MissingExtra
from lucky_transport.registry import load
from lucky_transport_migration.bench.peers.wire import Wire

__all__ = ["AT_A_RATE", "IN_PLACE", "PEERS", "find_wire", "missing_peers"]

_HERE = "lucky_transport_migration.bench.peers"

_WIRES = {
    "unix-socket": f"{_HERE}.sockets:RawSocket",
    "iceoryx2": f"{_HERE}.iceoryx:Iceoryx",
}
#: All of them, in the order of a report.
PEERS = tuple(_WIRES)
#: Measured at a fixed rate too: it sleeps between steps, and what polls never does.
AT_A_RATE = "unix-socket"
#: Those whose client reads the frame where it lies.
IN_PLACE = frozenset({"iceoryx2"})


def find_wire(name: str) -> type[Wire]:
    """Return the class of a peer's ends. Raises MissingExtra where its library is not installed."""
    return load(_WIRES[name], owner=f"peer {name!r}", extra="peers")


def missing_peers() -> dict[str, str]:
    """Return the peers that cannot be measured here, each with the reason."""
    missing: dict[str, str] = {}
    for name in _WIRES:
        try:
            find_wire(name)
        except MissingExtra as error:
            missing[name] = str(error)
    return missing

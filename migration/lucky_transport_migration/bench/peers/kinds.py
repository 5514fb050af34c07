"""The peers by name: what each is called and what makes its ends.

    unix-socket          a raw unix socket, both sides blocking
    unix-socket-polled   a raw unix socket, both sides asking again and again
    mp-pipe              multiprocessing.Pipe, as bytes
    zeromq               ZeroMQ, a PAIR over ipc
    iceoryx2             iceoryx2, publish and subscribe, polled
    async-vector-env     Gymnasium's AsyncVectorEnv: one worker process per env

What is not installed is a note in the result, never a silent gap.
"""

from __future__ import annotations

from lucky_transport.errors import MissingExtra
from lucky_transport.registry import load
from lucky_transport_migration.bench.peers.wire import Wire

__all__ = ["AT_A_RATE", "IN_PLACE", "PEERS", "VECTOR_ENV", "find_wire", "missing_peers"]

_HERE = "lucky_transport_migration.bench.peers"

_WIRES = {
    "unix-socket": f"{_HERE}.sockets:RawSocket",
    "unix-socket-polled": f"{_HERE}.sockets:PolledSocket",
    "mp-pipe": f"{_HERE}.sockets:MultiprocessingPipe",
    "zeromq": f"{_HERE}.zeromq:ZeroMq",
    "iceoryx2": f"{_HERE}.iceoryx:Iceoryx",
}
#: Measured as VectorEnv.step, not as an exchange.
VECTOR_ENV = "async-vector-env"
#: All of them, in the order of a report.
PEERS = (*_WIRES, VECTOR_ENV)
#: Measured at a fixed rate too: the others that sleep are woken as this one is, and those that poll never sleep.
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

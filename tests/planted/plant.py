"""A planted difference, the transport that plants it, and what both offer beside an engine, as a plugin does."""

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lucky_transport.config import Settings
from lucky_transport.deadline import Deadline
from lucky_transport.endpoint import Endpoint
from lucky_transport.hookspecs import EngineInfo, TransportInfo, hookimpl
from lucky_transport.messages.methods import Method
from lucky_transport.serving import Server
from lucky_transport.transport import ForwardingTransport, Frame, Stream, Transport

#: The environment variable that names the plant; without it the transport passes everything on.
PLANT = "PLANT"


@dataclass(frozen=True)
class Plant:
    """One difference.

    over: makes the transport that has it, from the one that has not. words: what the report of each tool in `found`
    says of it (see `tools.TOOLS`). unseen: tool -> the words with which its report, which finds everything equal, says
    that this is not looked at. A tool in neither does not meet it. given: tool -> arguments of its function in `tools`.
    """

    name: str
    over: Callable[[Transport], Transport]
    words: tuple[str, ...] = ()
    found: tuple[str, ...] = ()
    unseen: Mapping[str, tuple[str, ...]] = field(default_factory=dict[str, tuple[str, ...]])
    given: Mapping[str, Mapping[str, Any]] = field(default_factory=dict[str, Mapping[str, Any]])


class PlantedTransport(ForwardingTransport):
    """Passes everything on to `inner`; a plant overrides what it changes.

    exchange: the number of the exchange under way, from 1. control: its control bytes.
    """

    def __init__(self, inner: Transport) -> None:
        super().__init__(inner)
        self.inner = inner
        self.exchange = 0
        self.control: NDArray[np.uint8] | None = None

    def send(self, actions: NDArray[Any], control: NDArray[np.uint8] | None = None) -> None:
        self.inner.send(actions, control)
        self.exchange += 1
        self.control = None if control is None else control.copy()

    def recv(self, deadline: Deadline | None = None) -> Frame:
        frame = self.inner.recv(deadline)
        arrays = {name: getattr(frame, name).copy() for name in Frame.__slots__ if name not in ("seq", "any_ended")}
        mine = Frame(**arrays, seq=frame.seq, any_ended=frame.any_ended)
        self.change(mine)
        return mine

    def change(self, frame: Frame) -> None:
        """Change a frame, which is a copy."""

    def call(self, method: Method, request: Any, deadline: Deadline | None = None) -> Any:
        return self.inner.call(method, request, deadline)

    def stream(self, method: Method, request: Any, deadline: Deadline | None = None, *, copy: bool = True) -> Stream:
        return self.inner.stream(method, request, deadline, copy=copy)


@hookimpl
def lucky_transport_transports() -> list[TransportInfo]:
    return [
        TransportInfo(
            name="planted",
            schemes=("planted",),
            client="tests.planted.plant:connect",
            server="tests.planted.plant:server",
            summary="shared memory with a planted difference",
            local_endpoint="planted://{name}",
        )
    ]


@hookimpl
def lucky_transport_engines() -> list[EngineInfo]:
    return [EngineInfo("moving", "tests.planted.moving_engine:make_engine", "its world moves between two items")]


def planted(inner: Transport) -> Transport:
    """Return `inner` with the difference that PLANT names."""
    from tests.planted.call_plants import CALL_PLANTS
    from tests.planted.step_plants import STEP_PLANTS

    plants = {plant.name: plant.over for plant in (*STEP_PLANTS, *CALL_PLANTS)}
    return plants[os.environ[PLANT]](inner) if PLANT in os.environ else PlantedTransport(inner)


def connect(endpoint: Endpoint, settings: Settings) -> Transport:
    """Return a client over shm with that difference."""
    from lucky_transport_shm.client import connect as connect_shm

    found = planted(connect_shm(endpoint._replace(scheme="shm"), settings))
    found.name = "planted"
    return found


def server(endpoint: Endpoint, settings: Settings) -> Server:
    """Return shm's server, at an endpoint of this scheme."""
    from lucky_transport_shm.server import ShmServer

    class PlantedServer(ShmServer):
        def start(self, host: object) -> Endpoint:
            return super().start(host)._replace(scheme="planted")  # type: ignore[arg-type]

    return PlantedServer(endpoint._replace(scheme="shm"), settings)

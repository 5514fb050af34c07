"""What the planted transport and the engine beside it offer, as a plugin does."""

from __future__ import annotations

import os

from lucky_transport.config import Settings
from lucky_transport.endpoint import Endpoint
from lucky_transport.hookspecs import EngineInfo, TransportInfo, hookimpl
from lucky_transport.serving import Server
from lucky_transport.transport import Transport


@hookimpl
def lucky_transport_transports() -> list[TransportInfo]:
    return [
        TransportInfo(
            name="planted",
            schemes=("planted",),
            client="tests.planted.plugin:connect",
            server="tests.planted.plugin:server",
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
    from tests.planted.plant import PLANT, PlantedTransport
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

"""A host of a plain engine, and the transports over which a host is tried."""

from collections.abc import Generator

import pytest

from lucky_transport.engines.toy import ToyEngine
from lucky_transport.host.host import Host


@pytest.fixture
def host() -> Generator[Host]:
    """A host of a plain toy engine with three envs."""
    host = Host(ToyEngine(3))
    yield host
    host.close()


@pytest.fixture(params=["inproc", "shm", "grpc"])
def transport(request: pytest.FixtureRequest) -> str:
    """The name of a transport."""
    if request.param != "inproc":
        pytest.importorskip(f"lucky_transport_{request.param}.server")
    return request.param

"""A host of a plain engine, and the transports over which a host is tried."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any, ClassVar

import pytest

from lucky_transport.engines.toy import ToyEngine
from lucky_transport.host.host import Host


class Parrots:
    """Foreign services of one method, which answers with its payload twice; `made` are all since it was emptied."""

    made: ClassVar[list[Parrots]] = []

    def __init__(self, host: object = None) -> None:
        self.left: list[str] = []
        self.closed = False
        self.made.append(self)

    def handler(self, path: str) -> Any:
        return (lambda call: call.finish(call.payload * 2)) if path == "/zoo.Parrot/Say" else None

    def leave(self, caller: str) -> None:
        self.left.append(caller)

    def close(self) -> None:
        self.closed = True


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

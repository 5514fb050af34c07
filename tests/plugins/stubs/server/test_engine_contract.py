"""Our own gRPC client keeps the whole contract of a transport when its channel goes through shared memory.

The engine is served at shm://name alone; the client is the one of `lucky_transport_grpc`, unchanged.
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from typing import Any

import pytest

pytest.importorskip("grpc", reason="grpcio is not installed: pip install 'lucky-transport[grpc]'")

import lucky_transport_stubs
from lucky_transport import api
from lucky_transport.endpoint import Endpoint
from lucky_transport.engine import Engine
from lucky_transport.process import unique_name
from lucky_transport.testing.contract import TransportContract
from lucky_transport.testing.stepping_contract import SteppingContract
from lucky_transport.testing.streams_contract import StreamsContract
from lucky_transport.testing.suite import TransportSuite
from lucky_transport.transport import Capabilities
from lucky_transport_grpc import connection
from lucky_transport_grpc.runtime import grpc


class Redirected:
    """The grpc package, but for its channels: they go to the segment that their target's host names."""

    def insecure_channel(self, target: str, options: Any) -> Any:
        return lucky_transport_stubs.channel(f"shm://{target.partition(':')[0]}", options)

    def __getattr__(self, name: str) -> Any:
        return getattr(grpc, name)


class OverSharedMemory(TransportSuite):
    """A pair whose client believes that the engine is at grpc://name:1."""

    declares = Capabilities(streams=True, sessions=True)
    service = ""

    @pytest.fixture(autouse=True)
    def _redirected(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(connection, "grpc", Redirected())

    @contextmanager
    def serve(self, engine: str | Engine = "toy", num_envs: int = 4, **options: Any) -> Generator[Endpoint]:
        name = unique_name()
        with api.serve(engine, f"shm://{name}", num_envs=num_envs, options=options):
            yield Endpoint.parse(f"grpc://{name}:1?service={self.service}")

    def change_services(self, endpoint: Endpoint, **changes: Any) -> None:
        super().change_services(Endpoint.parse(f"shm://{endpoint.address.partition(':')[0]}"), **changes)


@pytest.mark.exhaustive
class TestBatchService(OverSharedMemory, TransportContract):
    service = "batch"


@pytest.mark.exhaustive
class TestAgentService(OverSharedMemory, SteppingContract, StreamsContract):
    service = "agent"
    hot_path_excludes_steps = False
    carries_parts = False

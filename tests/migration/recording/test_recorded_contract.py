"""A recorded transport keeps the contract of transports: who uses it does not notice."""

from __future__ import annotations

from pathlib import Path

import pytest

from lucky_transport import api
from lucky_transport.endpoint import Endpoint
from lucky_transport.testing.contract import TransportContract
from lucky_transport.transport import Capabilities, Transport
from lucky_transport_migration.recording.reading import Recording
from lucky_transport_migration.recording.recorded_transport import recorded_endpoint


@pytest.mark.exhaustive
class TestRecorded(TransportContract):
    declares = Capabilities(zero_copy=True, streams=True, sessions=True, images=True)
    endpoint = "shm://{name}"

    @pytest.fixture(autouse=True)
    def _folder(self, tmp_path: Path) -> None:
        self.file = tmp_path / "run.jsonl.gz"

    def connect(self, endpoint: Endpoint) -> Transport:
        return api.open_transport(recorded_endpoint(str(endpoint), self.file))

    def test_its_file_can_be_read_to_the_end(self) -> None:
        with self.open_client() as client:
            self.check_alive(client)
            client.step(client.actions)
        assert len(list(Recording(self.file).entries())) == 2

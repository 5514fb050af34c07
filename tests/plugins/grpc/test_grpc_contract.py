"""The gRPC transport keeps the contract: through the batch service, agent by agent, over TCP and a unix socket."""

from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("grpc", reason="grpcio is not installed: pip install 'lucky-transport[grpc]'")

from lucky_transport import api
from lucky_transport.endpoint import Endpoint
from lucky_transport.engine import RESET, Engine
from lucky_transport.errors import EngineFailed
from lucky_transport.testing.contract import TransportContract
from lucky_transport.testing.failure_contract import FailureContract
from lucky_transport.testing.stepping_contract import SteppingContract
from lucky_transport.testing.suite import zeros
from lucky_transport.transport import Capabilities


class TestBatchService(TransportContract):
    declares = Capabilities(streams=True, sessions=True)
    endpoint = "grpc://127.0.0.1:0?service=batch"


@pytest.mark.exhaustive
class TestAgentService(TransportContract):
    declares = Capabilities(streams=True, sessions=True)
    endpoint = "grpc://127.0.0.1:0?service=agent"
    carries_parts = False
    hot_path_excludes_steps = False

    def test_a_failing_engine_raises_what_the_reference_raises_and_can_be_stepped_again(self) -> None:
        """Each agent's Step is an exchange of its own: the ninth is in the third step of four agents."""
        with self.open_client(fail_at=9) as client, self.open_reference("toy", 4) as reference:
            for _ in range(2):
                self.check_same_step(client, reference)
            with pytest.raises(EngineFailed, match="asked to fail at step 9"):
                client.step(zeros(client))
            self.check_same_step(client, reference, RESET)


@pytest.mark.exhaustive
class TestUnixSocket(SteppingContract, FailureContract):
    declares = Capabilities(streams=True, sessions=True)

    @pytest.fixture(autouse=True)
    def _folder(self, tmp_path: Path) -> None:
        self.folder = tmp_path

    @contextmanager
    def serve(self, engine: str | Engine = "toy", num_envs: int = 4, **options: Any) -> Generator[Endpoint]:
        endpoint = f"grpc+unix://{self.folder}/engine.sock"
        with api.serve(engine, endpoint, num_envs=num_envs, options=options) as serving:
            yield serving.endpoints[0]

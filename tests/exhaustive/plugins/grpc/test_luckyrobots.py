"""The real luckyrobots client against a toy in this process, beside our own; tests/exhaustive/interop has its flows."""

# pyright: basic, reportMissingImports=false
# Reason: luckyrobots ships no types, and is installed only where its compatibility is tested.

from collections.abc import Callable, Generator
from typing import Any

import pytest

pytest.importorskip("grpc", reason="grpcio is not installed: pip install 'lucky-transport[grpc]'")

import grpc

from lucky_transport.serving import Serving
from lucky_transport.testing.suite import zeros
from tests.plugins.grpc.conftest import Serve

try:
    import luckyrobots
except Exception as error:  # its generated code refuses older protobuf and grpcio with classes of its own
    pytest.skip(f"luckyrobots cannot be imported: {type(error).__name__}: {error}", allow_module_level=True)

Open = Callable[..., Any]


@pytest.fixture
def client(serve: Serve) -> Generator[Open]:
    """Open luckyrobots' own client for what `serve` returned."""
    opened: list[Any] = []

    def open_client(serving: Serving) -> Any:
        found = luckyrobots.LuckyEngineClient(
            host="127.0.0.1", port=int(serving.endpoints[0].address.rpartition(":")[2])
        )
        found.connect()
        opened.append(found)
        return found

    yield open_client
    for each in opened:
        each.close()


def test_both_clients_work_in_one_process_against_one_engine(
    serve: Serve, client: Open, connect: Any, refused: Any
) -> None:
    serving = serve(idle_s=0.0)
    theirs, ours = client(serving), connect(serving)
    assert theirs.reset_agent().success
    before = theirs.step([0.5, 0.5]).observation
    frame = ours.step(zeros(ours))
    assert frame.observations[0].tolist() != before
    error = refused(theirs.step, [0.5, 0.5])
    assert error.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
    assert "is driven by grpc client of pid" in error.details()
    assert theirs.get_agent_schema().schema.observation_size == 8

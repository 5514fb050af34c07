"""The real luckyrobots client against a toy in this process, beside our own; tests/exhaustive/interop has its flows."""

# pyright: basic, reportMissingImports=false
# Reason: luckyrobots ships no types, and is installed only where its compatibility is tested.

from collections.abc import Callable, Generator
from typing import Any

import numpy as np
import pytest

pytest.importorskip("grpc", reason="grpcio is not installed: pip install 'lucky-transport[grpc]'")

import grpc

from lucky_transport.engine import RESET
from lucky_transport.messages import SetActionGroupResponse
from lucky_transport.serving import Serving
from lucky_transport.testing.suite import every, open_reference
from tests.support.scripted_engine import ScriptedEngine

try:
    import luckyrobots
except Exception as error:  # its generated code refuses older protobuf and grpcio with classes of its own
    pytest.skip(f"luckyrobots cannot be imported: {type(error).__name__}: {error}", allow_module_level=True)

Serve = Callable[..., Serving]
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


def test_resetting_and_stepping_gives_the_references_numbers(serve: Serve, client: Open) -> None:
    theirs = client(serve(num_envs=1, seed=3))
    assert theirs.reset_agent().success
    with open_reference("toy", 1, seed=3) as reference:
        reference.step(np.zeros((1, 2)), every(reference, RESET))
        generator = np.random.default_rng(0)
        for number in range(20):
            action = generator.uniform(-1, 1, 2).astype(np.float32)
            found, expected = theirs.step(action.tolist()), reference.step(action[None])
            assert found.observation == expected.observations[0].tolist()
            assert found.reward_signals == {"alive": 1.0, "centred": float(expected.signals[1, 0])}
            assert found.frame_number == number + 2
            assert (found.terminated, found.truncated) == (bool(expected.terminated[0]), bool(expected.truncated[0]))


def test_what_an_engine_has_not_is_unimplemented_and_a_handler_gets_what_it_has(
    serve: Serve, client: Open, refused: Any
) -> None:
    taken: list[Any] = []

    def take(request: Any) -> SetActionGroupResponse:
        taken.append((request.group.group_name, request.group.actions, request.group.action_indices))
        return SetActionGroupResponse(True)

    plain = client(serve())
    assert refused(plain.set_action_group, "legs", [0.5], [1]).code() is grpc.StatusCode.UNIMPLEMENTED
    assert refused(plain.get_mujoco_info, "agent_0").code() is grpc.StatusCode.UNIMPLEMENTED
    grouped = ScriptedEngine(services={"/hazel.rpc.AgentService/SetActionGroup": take})
    assert client(serve(grouped)).set_action_group("legs", [0.5], [1])
    assert taken == [("legs", [0.5], [1])]


def test_both_clients_work_in_one_process_against_one_engine(
    serve: Serve, client: Open, connect: Any, zeros: Any, refused: Any
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

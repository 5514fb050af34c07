"""What a Step response of an engine of others has too much of, or lacks."""

from __future__ import annotations

from typing import Any

import pytest

pytest.importorskip("google.protobuf", reason="protobuf is not installed: pip install 'lucky-transport[grpc]'")

from lucky_transport.engine import Buffers
from lucky_transport.engines.toy import ToyEngine
from lucky_transport.errors import RemoteProtocolError
from lucky_transport_grpc import _pb
from lucky_transport_grpc.agent_rows import AgentRows

SPEC = ToyEngine(3, obs_size=2).spec
RESPONSE: Any = _pb.message_class("hazel.rpc.StepResponse")


def _response(**changes: Any) -> Any:
    plain = {
        "success": True,
        "observation": {"observations": [0.5, -0.5]},
        "reward_signals": {"alive": 1.0, "centred": -0.25},
        "termination_flags": {"out_of_range": True, "time_out": False},
        "terminated": True,
    }
    return RESPONSE(**plain | changes)


@pytest.fixture
def rows() -> AgentRows:
    return AgentRows(SPEC, Buffers.allocate(SPEC))


def test_terms_the_engine_sends_beside_those_of_the_spec_are_left_out(rows: AgentRows) -> None:
    rows.take_step(0, _response(reward_signals={"alive": 1.0, "centred": 0.0, "energy": 9.0}))
    assert rows.frame().rewards[0] == 1.0


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        (
            {"reward_signals": {"alive": 1.0}},
            r"agent_1: the Step carries no term 'centred'; it has rewards \['alive'\]",
        ),
        ({"termination_flags": {}}, "agent_1: the Step carries no term 'out_of_range'"),
        ({"observation": {"observations": [1.0]}}, "agent_1: 1 observation values, expected 2 as in its schema"),
        ({"observation": {}}, "agent_1: 0 observation values"),
    ],
)
def test_what_a_response_lacks_is_named(rows: AgentRows, changes: dict[str, Any], text: str) -> None:
    with pytest.raises(RemoteProtocolError, match=text):
        rows.take_step(1, _response(**changes))

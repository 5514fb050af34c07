"""ResetAgent over protobuf: what gRPC adds to `lucky_transport.agents.reset`.

Calls of one batch (metadata) are gathered and become one exchange.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from lucky_transport.agents.agents import Agents
from lucky_transport.agents.reset import AgentReset
from lucky_transport.messages import SimulationContract
from lucky_transport_grpc import _pb
from lucky_transport_grpc.batcher import Batcher
from lucky_transport_grpc.caller import Caller
from lucky_transport_grpc.codec import decode

__all__ = ["GrpcResets"]


class GrpcResets:
    """The ResetAgent of one server."""

    def __init__(self, agents: Agents) -> None:
        self._agents = agents
        self._response: Any = _pb.message_class("hazel.rpc.ResetAgentResponse")
        self.gathering: Batcher[AgentReset, str] = Batcher("ResetAgent")

    def __call__(self, request: Any, caller: Caller) -> Any:
        """Answer one ResetAgent; a refusal goes into the response, as luckyrobots expects it."""
        contract = None
        if request.HasField("simulation_contract"):
            contract = decode(request.simulation_contract, SimulationContract)
        reset = self._agents.resets.read(request.agent_name, contract)

        def run(resets: Sequence[AgentReset]) -> list[str]:
            return self._agents.resets.run(resets, caller.driver, caller.timeout_s)

        refusal = self.gathering.join(reset, caller, run) if caller.batch else run([reset])[0]
        return self._response(success=not refusal, message=refusal)

"""Step and ResetAgent over protobuf: what gRPC adds to `lucky_transport.host.agents`. Calls of one batch (metadata) are
gathered and become one exchange.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from lucky_transport.host.agent_reset import AgentReset
from lucky_transport.host.agent_step import AgentStep, StepOptions, StepResponses
from lucky_transport.host.agents import Agents
from lucky_transport.messages import GetCameraFrameRequest, NamedImageFrame, SimulationContract
from lucky_transport_grpc import _pb
from lucky_transport_grpc.batcher import Batcher
from lucky_transport_grpc.caller import Caller
from lucky_transport_grpc.codec import decode, encode


class GrpcSteps:
    """The Step of one server.

    Requests are read and responses made as protobuf, without messages of the core in between: legacy programs make one
    such call per agent and step.
    """

    def __init__(self, agents: Agents) -> None:
        self._agents = agents
        response: Any = _pb.message_class("hazel.rpc.StepResponse")
        frame: Any = _pb.message_class("hazel.rpc.AgentFrame")
        picture = _pb.message_class("hazel.rpc.NamedImageFrame")
        self._replies = StepResponses(agents.lease, response, frame, lambda one: encode(one, NamedImageFrame, picture))
        self.gathering: Batcher[AgentStep, Any] = Batcher("Step")

    def __call__(self, request: Any, caller: Caller) -> Any:
        """Answer one Step."""
        agents = self._agents
        cameras = [decode(one, GetCameraFrameRequest) for one in request.camera_requests]
        step = agents.steps.read(request, cameras, marked=caller.after_reset)
        terms = agents.terms.every if caller.all_terms else agents.terms.of(caller.key)
        options = StepOptions(caller.seq, caller.after_reset)

        def run(steps: Sequence[AgentStep]) -> list[Any]:
            return agents.steps.run(steps, caller.driver, caller.timeout_s, self._replies, terms, options)

        return self.gathering.join(step, caller, run) if caller.batch else run([step])[0]


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

"""Step and ResetAgent over protobuf: what gRPC adds to `lucky_transport.host.agents`."""

from __future__ import annotations

from typing import Any

from lucky_transport.host.agent_step import StepOptions, StepResponses
from lucky_transport.host.agents import Agents
from lucky_transport.messages import GetCameraFrameRequest, NamedImageFrame, SimulationContract
from lucky_transport_grpc import _pb
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

    def __call__(self, request: Any, caller: Caller) -> Any:
        """Answer one Step."""
        agents = self._agents
        cameras = [decode(one, GetCameraFrameRequest) for one in request.camera_requests]
        step = agents.steps.read(request, cameras, marked=caller.after_reset)
        terms = agents.terms.every if caller.all_terms else agents.terms.of(caller.key)
        options = StepOptions(caller.seq, caller.after_reset)
        return agents.steps.run(step, caller.driver, caller.timeout_s, self._replies, terms, options)


class GrpcResets:
    """The ResetAgent of one server."""

    def __init__(self, agents: Agents) -> None:
        self._agents = agents
        self._response: Any = _pb.message_class("hazel.rpc.ResetAgentResponse")

    def __call__(self, request: Any, caller: Caller) -> Any:
        """Answer one ResetAgent; a refusal goes into the response, as luckyrobots expects it."""
        contract = None
        if request.HasField("simulation_contract"):
            contract = decode(request.simulation_contract, SimulationContract)
        reset = self._agents.resets.read(request.agent_name, contract)
        refusal = self._agents.resets.run(reset, caller.driver, caller.timeout_s)
        return self._response(success=not refusal, message=refusal)

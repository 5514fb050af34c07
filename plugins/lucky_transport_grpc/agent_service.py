"""Step over protobuf: what gRPC adds to `lucky_transport.agents.step`.

Calls of one batch (metadata) are gathered and become one exchange. Requests are read and responses are made as
protobuf, without our own messages in between: legacy programs make one such call per agent and step.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from lucky_transport.agents.agents import Agents
from lucky_transport.agents.step import AgentStep, StepOptions, StepResponses
from lucky_transport.messages import GetCameraFrameRequest, NamedImageFrame
from lucky_transport_grpc import _pb
from lucky_transport_grpc.batcher import Batcher
from lucky_transport_grpc.caller import Caller
from lucky_transport_grpc.codec import decode, encode

__all__ = ["GrpcSteps"]


class GrpcSteps:
    """The Step of one server."""

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

"""Every method of the table: protobuf in, the host's handler, protobuf out; Step has no message of ours."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from typing import Any

from lucky_transport.errors import Busy, EngineFailed
from lucky_transport.host.agent_step import StepOptions, StepResponses
from lucky_transport.host.agents import Agents
from lucky_transport.host.host import Host
from lucky_transport.messages import GetCameraFrameRequest, NamedImageFrame, SimulationContract
from lucky_transport.messages.methods import METHODS, Method
from lucky_transport_grpc import _pb
from lucky_transport_grpc.caller import Caller
from lucky_transport_grpc.codec import decode, encode

#: Streams that one server serves at a time: each holds a thread as long as it lives, and calls must always find one.
MAX_STREAMS = 256


def typed_handlers(host: Host) -> Mapping[str, Callable[[Any, Caller], Any]]:
    """Return a handler per unary method that exists on this wire, by path."""
    return {row.name: _handler(host, row) for row in METHODS if row.stream is None and row.name in _pb.methods()}


def typed_streams(host: Host) -> Mapping[str, Callable[[Any, Caller], Iterator[Any]]]:
    """Return a handler per server stream that exists on this wire, by path."""
    free = threading.Semaphore(MAX_STREAMS)
    rows = [row for row in METHODS if row.stream is not None and row.name in _pb.methods()]
    return {row.name: _stream(host, row, free) for row in rows}


def _handler(host: Host, row: Method) -> Callable[[Any, Caller], Any]:
    response = _pb.methods()[row.name].response

    def handle(request: Any, caller: Caller) -> Any:
        call = caller.call(host, stream=False)
        return _encode(row, host.call(row, decode(request, row.request), call), response)

    return handle


def _stream(host: Host, row: Method, free: threading.Semaphore) -> Callable[[Any, Caller], Iterator[Any]]:
    response = _pb.methods()[row.name].response

    def items(request: Any, caller: Caller) -> Iterator[Any]:
        if not free.acquire(blocking=False):
            raise Busy(
                f"engine {host.spec.engine!r} serves {MAX_STREAMS} streams over gRPC already",
                backend="grpc",
                hint="end one first",
            )
        call = caller.call(host, stream=True)
        try:
            with closing(host.stream(row, decode(request, row.request), call)) as found:
                for item in found:
                    yield _encode(row, item, response)
        finally:
            caller.report_dropped(call.dropped)
            free.release()

    return items


def _encode(row: Method, message: Any, response: Any) -> Any:
    if type(message) is not row.response:
        raise EngineFailed(
            f"the engine's answer to {row.name} is {type(message).__name__}, expected {row.response.__name__}"
        )
    try:
        return encode(message, row.response, response)
    except (TypeError, ValueError, AttributeError) as error:
        raise EngineFailed(f"the engine's answer to {row.name} is no {row.response.__name__}: {error}") from error


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

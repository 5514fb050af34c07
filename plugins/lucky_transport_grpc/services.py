"""Everything that a host offers in protobuf: each method of the table, our BatchService, reflection and health.

services = HostServices(host, server_context)
services.add_to(server)              a grpc.Server, or whatever takes handlers as one does
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from functools import partial
from typing import Any

from google.protobuf import descriptor_pool

from lucky_transport.errors import Busy, EngineFailed, TransportError
from lucky_transport.foreign_code import import_problem
from lucky_transport.host.agent_step import StepOptions, StepResponses
from lucky_transport.host.agents import Agents
from lucky_transport.host.host import Host
from lucky_transport.host.service_switch import ServiceSwitch
from lucky_transport.messages import GetCameraFrameRequest, NamedImageFrame, SimulationContract
from lucky_transport.messages.methods import BY_NAME, METHODS, Method
from lucky_transport.version import install_command
from lucky_transport_grpc import _pb
from lucky_transport_grpc.batch_service import BatchService
from lucky_transport_grpc.caller import Caller, ServerContext
from lucky_transport_grpc.codec import decode, encode
from lucky_transport_grpc.errors import refuse
from lucky_transport_grpc.runtime import grpc

_log = logging.getLogger("lucky_transport")
_EXTRA = "discovery"


class HostServices:
    """The services of `host` for the callers of one server.

    It knows no server. Its owner adds it to one, reports clients that left, and closes it in two steps: `close` ends
    what clients wait for, and when no call is under way any more, `release` gives the engine back.
    """

    def __init__(self, host: Host, server_context: ServerContext) -> None:
        self._host = host
        self._server_context = server_context
        self._batches = BatchService(host)
        self._not_serving: list[Callable[[], None]] = []
        direct: dict[str, Callable[[Any, Caller], Any]] = {
            "/hazel.rpc.AgentService/Step": GrpcSteps(host.agents),
            "/hazel.rpc.AgentService/ResetAgent": GrpcResets(host.agents),
        }
        unary = {
            **typed_handlers(host),
            **{path: handler for path, handler in direct.items() if path in host.agents.answered},
            **self._batches.unary,
        }
        self._routes = _Routes(unary, {**typed_streams(host), **self._batches.streaming}, server_context)

    def add_to(self, server: Any) -> None:
        """Have `server` serve them."""
        server.add_generic_rpc_handlers((self._routes,))
        self._not_serving.append(_add_discovery(server, self._routes.services(self._host), self._host.switch))

    def leave(self, caller: str) -> None:
        """The client of that address has gone, and the host knows: what it still holds here is free. Idempotent."""
        self._batches.leave(caller)

    def close(self) -> None:
        """Tell every attached client, and every one that watches the health, that the engine closes; idempotent."""
        self._batches.close()
        for not_serving in self._not_serving:
            not_serving()

    def release(self) -> None:
        """Give the engine back if a caller of this server drives it; waits for its step in progress."""
        self._batches.release(self._server_context)
        self._host.agents.lease.release(self._server_context)


# Reflection (v1alpha, as luckyrobots uses it) and health are courtesies: without their packages the server serves all
# the same.
def _add_discovery(server: Any, services: Sequence[str], switch: ServiceSwitch) -> Callable[[], None]:
    """Add reflection and health to a gRPC server; the result, when called, reports all services as not serving."""
    also, shut_down = _add_health(server, services, switch)
    _add_reflection(server, lambda: [*(name for name in services if switch.services.get(name, True)), *also])
    return shut_down


def _add_health(server: Any, services: Sequence[str], switch: ServiceSwitch) -> tuple[list[str], Callable[[], None]]:
    if why := import_problem("grpc_health.v1.health"):
        _log.warning("grpc: no health service (%s); %s", why, install_command(_EXTRA))
        return [], lambda: None
    from grpc_health.v1 import health, health_pb2, health_pb2_grpc

    servicer: Any = health.HealthServicer()
    health_pb2_grpc.add_HealthServicer_to_server(servicer, server)
    states: Any = health_pb2.HealthCheckResponse

    def tell() -> None:
        for name in services:
            servicer.set(name, states.SERVING if switch.services.get(name, True) else states.NOT_SERVING)

    switch.watch(tell)
    tell()
    return [health.SERVICE_NAME], servicer.enter_graceful_shutdown


def _add_reflection(server: Any, services: Callable[[], Sequence[str]]) -> None:
    """services: returns the names of those that are on."""
    if why := import_problem("grpc_reflection.v1alpha.reflection"):
        _log.warning("grpc: no reflection (%s); %s", why, install_command(_EXTRA))
        return
    from grpc_reflection.v1alpha import reflection, reflection_pb2_grpc

    pools: Any = _Pools()

    class Reflection(reflection_pb2_grpc.ServerReflectionServicer):
        """Lists what is on when the call begins."""

        def ServerReflectionInfo(self, request_iterator: Any, context: Any) -> Any:  # noqa: N802 - gRPC's name
            names = [*services(), reflection.SERVICE_NAME]
            return reflection.ReflectionServicer(names, pools).ServerReflectionInfo(request_iterator, context)

    reflection_pb2_grpc.add_ServerReflectionServicer_to_server(Reflection(), server)


class _Pools:
    """Our private pool, then the default one, where the health and reflection services themselves are described."""

    def __getattr__(self, name: str) -> Callable[..., Any]:
        def find(*arguments: Any) -> Any:
            try:
                return getattr(_pb.POOL, name)(*arguments)
            except KeyError:
                return getattr(descriptor_pool.Default(), name)(*arguments)

        return find


class _Routes(grpc.GenericRpcHandler):
    """All our methods. A legacy server leaves out what only we serve, as an engine that does not know us."""

    def __init__(
        self,
        unary: Mapping[str, Callable[[Any, Caller], Any]],
        streaming: Mapping[str, Callable[[Any, Caller], Iterator[Any]]],
        server_context: ServerContext,
    ) -> None:
        self._caller = partial(Caller, server=server_context)
        self._handlers: dict[str, Any] = {}
        for path, handle in unary.items():
            self._handlers[path] = self._described(grpc.unary_unary_rpc_method_handler, path, self._one(handle))
        for path, stream in streaming.items():
            self._handlers[path] = self._described(grpc.unary_stream_rpc_method_handler, path, self._many(stream))
        if server_context.legacy:
            self._handlers = {p: found for p, found in self._handlers.items() if p.startswith("/hazel.rpc.")}

    @staticmethod
    def _described(kind: Any, path: str, behaviour: Any) -> Any:
        found = _pb.methods()[path]
        return kind(behaviour, found.request.FromString, found.response.SerializeToString)

    def _one(self, handle: Callable[[Any, Caller], Any]) -> Callable[[Any, Any], Any]:
        def behaviour(request: Any, context: Any) -> Any:
            try:
                return handle(request, self._caller(context))
            except TransportError as error:
                refuse(context, error)

        return behaviour

    def _many(self, stream: Callable[[Any, Caller], Iterator[Any]]) -> Callable[[Any, Any], Iterator[Any]]:
        def behaviour(request: Any, context: Any) -> Iterator[Any]:
            try:
                yield from stream(request, self._caller(context))
            except TransportError as error:
                refuse(context, error)

        return behaviour

    def service(self, handler_call_details: Any) -> Any:
        """Return the handler of a call, None when we have none."""
        return self._handlers.get(handler_call_details.method)

    def services(self, host: Host) -> list[str]:
        """Return the full names of the services with at least one method that `host` answers."""
        answered = (path for path in self._handlers if path not in BY_NAME or host.implements(BY_NAME[path]))
        return sorted({path[1:].partition("/")[0] for path in answered})


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

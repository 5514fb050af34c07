"""The client end of the gRPC transport.

grpc://127.0.0.1:50051                  the batch service where the engine offers it, else agent by agent
grpc://127.0.0.1:50051?service=agent    the legacy AgentService in any case, as every client of LuckyEngine uses it
grpc://127.0.0.1:50051?service=batch    the batch service or nothing
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from concurrent.futures import Future
from contextvars import copy_context
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lucky_transport.call import check_stream, check_unary, deadline_error
from lucky_transport.config import Settings
from lucky_transport.deadline import Deadline
from lucky_transport.endpoint import Endpoint
from lucky_transport.errors import PeerDied, PeerTimeout, Unimplemented
from lucky_transport.futures import completed
from lucky_transport.lockstep import Lockstep, LockstepEvent, LockstepState
from lucky_transport.messages import SetResetOptionsResponse
from lucky_transport.messages.methods import Method
from lucky_transport.spec.actions import Bounds, check_actions, check_control
from lucky_transport.spec.batch_spec import BatchSpec
from lucky_transport.transport import Capabilities, Frame, Stream, Transport
from lucky_transport_grpc import _pb
from lucky_transport_grpc.address import service_of
from lucky_transport_grpc.agent_exchange import AgentExchange, check_exact
from lucky_transport_grpc.batch_exchange import BatchExchange
from lucky_transport_grpc.codec import decode, encode
from lucky_transport_grpc.connection import GrpcConnection
from lucky_transport_grpc.errors import code_of, details_of, is_local_timeout
from lucky_transport_grpc.exchange import Exchange
from lucky_transport_grpc.legacy_spec import negotiate_all, read_spec
from lucky_transport_grpc.runtime import grpc
from lucky_transport_grpc.streams import GrpcStream

_log = logging.getLogger("lucky_transport")
_BATCH = "/lucky_transport.v1.BatchService/"


def connect(endpoint: Endpoint, settings: Settings) -> GrpcTransport:
    """Return a transport to the engine at `endpoint`.

    Raises ConfigError (a malformed endpoint), NotReachable (no server answers within `connect_timeout_s`),
    Unimplemented (`service=batch` and the engine has none), SpecError (the legacy service cannot carry this engine's
    dtypes).
    """
    service = service_of(endpoint)
    deadline = Deadline(settings.connect_timeout_s)
    connection = GrpcConnection(endpoint, settings)
    try:
        return _open(connection, service, deadline)
    except (PeerDied, PeerTimeout) as error:
        connection.close()
        raise connection.unreachable(deadline, str(error)) from error
    except BaseException:
        connection.close()
        raise


def _open(connection: GrpcConnection, service: str, deadline: Deadline) -> GrpcTransport:
    """Return the transport, with the service decided for its whole life."""
    spec = _probe(connection, deadline)
    is_ours = spec is not None
    if spec is None and service == "batch":
        raise Unimplemented(
            f"the engine at {connection.endpoint} has no batch service", backend="grpc", hint="drop service=batch"
        )
    if spec is None:
        calls = TypedCalls(connection, batch_service=False)
        spec = read_spec(calls.call, deadline)
        if spec is None:
            raise connection.unreachable(deadline, "it answers, but has no agent that could be stepped")
        negotiate_all(calls.call, spec, deadline)
        exchange: Exchange = AgentExchange(connection, spec, calls.staged_contract, ours=False)
        _log.info("grpc: %s has no batch service; stepping agent by agent", connection.endpoint)
    else:
        calls = TypedCalls(connection, batch_service=True)
        if service == "agent":
            check_exact(spec)
        connection.attach(deadline)
        agents = service == "agent"
        exchange = AgentExchange(connection, spec, ours=True) if agents else BatchExchange(connection, spec)
        _log.info("grpc: %s, %s", connection.endpoint, "stepping agent by agent" if agents else "batch service")
    return GrpcTransport(connection, spec, exchange, calls, is_ours=is_ours)


def _probe(connection: GrpcConnection, deadline: Deadline) -> BatchSpec | None:
    """Return the engine's batch spec, None when it has no BatchService; raises NotReachable."""
    get_spec = connection.method(_BATCH + "GetSpec")
    request: Any = _pb.methods()[_BATCH + "GetSpec"].request()
    try:
        reply = get_spec(request, timeout=deadline.remaining_s, wait_for_ready=True, metadata=connection.identity)
    except grpc.RpcError as error:
        if code_of(error) is grpc.StatusCode.UNIMPLEMENTED:
            return None
        if not is_local_timeout(error):
            raise connection.error(error, deadline) from error
        raise connection.unreachable(deadline, _reason(connection, get_spec, request)) from error
    return BatchSpec.from_json(reply.spec_json)


def _reason(connection: GrpcConnection, get_spec: Any, request: Any) -> str:
    """Return why no server answered, as gRPC reports it to a call that does not wait for readiness."""
    try:
        get_spec(request, timeout=0.2, metadata=connection.identity)
    except grpc.RpcError as error:
        return "it does not answer" if is_local_timeout(error) else details_of(error)
    return "it answers only now"


class TypedCalls:
    """Makes the typed calls of one connection, over protobuf.

    Without a batch service a reset's contract is kept here and travels in each ResetAgent from then on; whatever else
    only the BatchService can carry is refused.
    """

    def __init__(self, connection: GrpcConnection, *, batch_service: bool) -> None:
        self._connection = connection
        self._batch_service = batch_service
        self._methods: dict[str, Any] = {}
        self._contract: Any = None

    def call(self, method: Method, request: Any, deadline: Deadline) -> Any:
        """Return the response message; raises TypeError / ValueError for a request its method cannot carry."""
        message = self._request(method, request, deadline)
        if self._is_missing(method):
            return self._without_batch_service(method, message)
        try:
            response = self._connection.call(self._method(method), message, deadline)
        except PeerTimeout as error:
            if deadline.expired:
                raise deadline_error(method.name, deadline.timeout_s, "grpc") from error
            raise
        return decode(response, method.response)

    def begin(self, method: Method, request: Any, deadline: Deadline) -> Future[Any]:
        """Return the call under way; raises as `call`, as far as it is known by then."""
        message = self._request(method, request, deadline)
        if self._is_missing(method):
            response = self._without_batch_service(method, message)
            return completed(lambda: response)
        return self._connection.begin(
            self._method(method),
            message,
            deadline,
            lambda response: decode(response, method.response),
            lambda error: self._connection.stream_error(error, method.name, deadline),
        )

    def stream(self, method: Method, request: Any, deadline: Deadline | None) -> Stream:
        """Return the stream's items; raises TypeError, ValueError (a request its method cannot carry), PeerTimeout."""
        check_stream(method)
        message = self._message(method, request)
        if deadline is not None and deadline.expired:
            raise deadline_error(method.name, deadline.timeout_s, "grpc")
        start = partial(self._connection.stream, method.name, message, deadline)
        return GrpcStream(self._connection, method, partial(copy_context().run, start), deadline)

    def _request(self, method: Method, request: Any, deadline: Deadline) -> Any:
        """Return the message of a unary method's request. Raises PeerTimeout where no time is left."""
        check_unary(method)
        message = self._message(method, request)
        if deadline.expired:  # gRPC rounds deadlines up: it might make the call all the same
            raise deadline_error(method.name, deadline.timeout_s, "grpc")
        return message

    def _method(self, method: Method) -> Any:
        """Return gRPC's callable for the method, the same each time."""
        if method.name not in self._methods:
            self._methods[method.name] = self._connection.method(method.name)
        return self._methods[method.name]

    def _is_missing(self, method: Method) -> bool:
        """True for a method of the batch service where the engine has none."""
        return not self._batch_service and method.name.startswith(_BATCH)

    def _message(self, method: Method, request: Any) -> Any:
        wire = _pb.methods().get(method.name)
        if wire is None:
            raise Unimplemented(f"{method.name} does not exist in the gRPC protocol", backend="grpc")
        return encode(request, method.request, wire.request)

    def _without_batch_service(self, method: Method, message: Any) -> SetResetOptionsResponse:
        if method.name != _BATCH + "SetResetOptions":
            raise Unimplemented(
                f"the engine at {self._connection.endpoint} has no batch service, so no {method.name}", backend="grpc"
            )
        if message.options_json:
            raise Unimplemented(
                f"a legacy engine takes reset options as a contract only, not {message.options_json}", backend="grpc"
            )
        self._contract = message.contract if message.HasField("contract") else None
        return SetResetOptionsResponse(True)

    def staged_contract(self) -> Any:
        """Return the SimulationContract (protobuf) that resets have carried since it was set, or None."""
        return self._contract


class GrpcTransport(Transport):
    """A client of an engine behind gRPC. After `recv` the frame's arrays are read-only.

    is_ours: the engine serves our own services too.
    """

    name = "grpc"

    def __init__(
        self, connection: GrpcConnection, spec: BatchSpec, exchange: Exchange, calls: TypedCalls, *, is_ours: bool
    ) -> None:
        self.spec = spec
        self.capabilities = Capabilities(streams=True, sessions=is_ours)
        self.actions = np.zeros(spec.action_shape, spec.action.dtype)
        self._connection = connection
        self._exchange = exchange
        self._calls = calls
        self._settings = connection.settings
        self._bounds = Bounds(spec.action)
        self._ended: LockstepState | None = None
        self._seq = 0

    def send(self, actions: NDArray[Any], control: NDArray[np.uint8] | None = None) -> None:
        checked, control = self._check(actions, control)
        self._exchange.start(checked, control)

    def recv(self, deadline: Deadline | None = None) -> Frame:
        self._expect(LockstepEvent.FRAME)
        self._connection.check_process()
        return self._end(self._exchange.finish, deadline)

    def step(
        self, actions: NDArray[Any], control: NDArray[np.uint8] | None = None, deadline: Deadline | None = None
    ) -> Frame:
        checked, control = self._check(actions, control)
        return self._end(partial(self._exchange.run, checked, control), deadline)

    def _check(
        self, actions: NDArray[Any], control: NDArray[np.uint8] | None
    ) -> tuple[NDArray[Any], NDArray[np.uint8] | None]:
        self._expect(LockstepEvent.SEND)
        self._connection.check_process()
        checked = check_actions(self.spec, actions)
        if control is not None:
            control = check_control(self.spec, control)
        self.out_of_bounds += self._bounds.count_outside(checked)
        return checked, control

    def _expect(self, event: LockstepEvent) -> None:
        """Raise unless `event` may come now. The exchange knows whether a frame is outstanding, as a signal handler may
        raise after any operation.
        """
        under_way = LockstepState.SENT if self._exchange.open else LockstepState.READY
        Lockstep(self._ended or under_way, self.name).on(event)

    def _end(self, exchange: Callable[[Deadline], Frame], deadline: Deadline | None) -> Frame:
        """Return the frame; the connection is lost when the exchange ends with the death of the engine."""
        try:
            frame = exchange(Deadline.after(deadline, self._settings.step_timeout_s))
        except PeerDied:
            if not self._exchange.open and self._ended is None:
                self._ended = LockstepState.LOST
            raise
        self._seq += 1
        frame.seq = self._seq
        return frame

    def call(self, method: Method, request: Any, deadline: Deadline | None = None) -> Any:
        self._check_open()
        return self._calls.call(method, request, Deadline.after(deadline, self._settings.command_timeout_s))

    def begin(self, method: Method, request: Any, deadline: Deadline | None = None) -> Future[Any]:
        self._check_open()
        return self._calls.begin(method, request, Deadline.after(deadline, self._settings.command_timeout_s))

    def stream(self, method: Method, request: Any, deadline: Deadline | None = None, *, copy: bool = True) -> Stream:
        self._check_open()
        return self._calls.stream(method, request, deadline)

    def _check_open(self) -> None:
        if self._ended is LockstepState.CLOSED:
            raise self._connection.ended()
        self._connection.check_process()

    def close(self) -> None:
        if self._ended is not LockstepState.CLOSED:
            self._ended = LockstepState.CLOSED
            self._connection.close()

"""Typed methods over protobuf, for the client."""

from __future__ import annotations

from concurrent.futures import Future
from contextvars import copy_context
from functools import partial
from typing import Any

from lucky_transport.call import check_stream, check_unary, deadline_error
from lucky_transport.deadline import Deadline
from lucky_transport.errors import PeerTimeout, Unimplemented
from lucky_transport.futures import completed
from lucky_transport.messages import SetResetOptionsResponse
from lucky_transport.messages.methods import Method
from lucky_transport.transport import Stream
from lucky_transport_grpc import _pb
from lucky_transport_grpc.codec import decode, encode
from lucky_transport_grpc.connection import GrpcConnection
from lucky_transport_grpc.streams import GrpcStream

_BATCH = "/lucky_transport.v1.BatchService/"


class TypedCalls:
    """Makes the typed calls of one connection.

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

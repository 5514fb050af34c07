"""Paths to handlers, in the form gRPC's server wants.

A path that is in no table is answered by gRPC itself: UNIMPLEMENTED "Method not found!". Each handler's TransportError
becomes a status here, by the one table, and nowhere else.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any

from lucky_transport.errors import TransportError
from lucky_transport.host.host import Host
from lucky_transport.messages.methods import BY_NAME
from lucky_transport_grpc import _pb
from lucky_transport_grpc.caller import Caller, ServerContext
from lucky_transport_grpc.errors import refuse
from lucky_transport_grpc.runtime import grpc

__all__ = ["Routes"]


class Routes(grpc.GenericRpcHandler):
    """All our methods. A `house.legacy` leaves out what only we serve, as an engine that does not know us."""

    def __init__(
        self,
        unary: Mapping[str, Callable[[Any, Caller], Any]],
        streaming: Mapping[str, Callable[[Any, Caller], Iterator[Any]]],
        house: ServerContext,
    ) -> None:
        self._caller = partial(Caller, house=house)
        self._handlers: dict[str, Any] = {}
        for path, handle in unary.items():
            self._handlers[path] = self._described(grpc.unary_unary_rpc_method_handler, path, self._one(handle))
        for path, stream in streaming.items():
            self._handlers[path] = self._described(grpc.unary_stream_rpc_method_handler, path, self._many(stream))
        if house.legacy:
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

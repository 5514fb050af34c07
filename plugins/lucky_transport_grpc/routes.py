"""Paths to handlers, in the form gRPC's server wants.

Rule 1: a path that is not here is answered by gRPC itself: UNIMPLEMENTED "Method not found!".
Rule 2: each handler's TransportError becomes a status here, by the one table, and nowhere else.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any

from lucky_transport.errors import TransportError
from lucky_transport_grpc import _pb
from lucky_transport_grpc.caller import Caller
from lucky_transport_grpc.errors import refuse
from lucky_transport_grpc.runtime import grpc

__all__ = ["Routes"]


class Routes(grpc.GenericRpcHandler):
    """All our methods; a call waits at most `longest_s` when it brings no deadline of its own.

    `legacy` leaves out what only we serve and reads no metadata of ours, as an engine that does not know us.
    """

    def __init__(
        self,
        unary: Mapping[str, Callable[[Any, Caller], Any]],
        streaming: Mapping[str, Callable[[Any, Caller], Iterator[Any]]],
        longest_s: float,
        *,
        legacy: bool = False,
    ) -> None:
        self._caller = partial(Caller, longest_s=longest_s, legacy=legacy)
        self._handlers: dict[str, Any] = {}
        for path, handle in unary.items():
            self._handlers[path] = self._described(grpc.unary_unary_rpc_method_handler, path, self._one(handle))
        for path, stream in streaming.items():
            self._handlers[path] = self._described(grpc.unary_stream_rpc_method_handler, path, self._many(stream))
        if legacy:
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

    @property
    def services(self) -> list[str]:
        """The full names of the services with at least one method here."""
        return sorted({path[1:].partition("/")[0] for path in self._handlers})

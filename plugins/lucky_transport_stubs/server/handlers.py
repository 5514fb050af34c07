"""Finds the handler of a call among those added to a server, through the server's interceptors.

Servers of threads ask `Handlers`, those of asyncio `AwaitedHandlers`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import Any

from lucky_transport.rpc.error_envelope import Metadata
from lucky_transport_grpc.runtime import grpc
from lucky_transport_stubs.grpc_inside import HandlerCallDetails
from lucky_transport_stubs.words.metadata import invocation_metadata


class Handlers:
    """The handlers of one server; `find` looks one up. It takes additions at any time, from any thread.

    registered: what generated code added, by path. is_intercepted: interceptors may exchange handlers. Raises
    AttributeError for a generic handler without a `service` method.
    """

    def __init__(
        self,
        generic_handlers: Iterable[grpc.GenericRpcHandler] = (),
        interceptors: Sequence[Any] = (),
    ) -> None:
        self.generic_handlers: tuple[grpc.GenericRpcHandler, ...] = ()
        # Generated code adds its handlers twice: these are an index of the generic ones. Either alone is enough.
        self.registered: dict[str, Any] = {}
        self.is_intercepted = bool(interceptors)
        self._find: Any = self._look_up
        for interceptor in reversed(interceptors):
            self._find = partial(_asking, interceptor, self._find)
        self.add_generic_rpc_handlers(generic_handlers)

    def add_generic_rpc_handlers(self, generic_rpc_handlers: Iterable[grpc.GenericRpcHandler]) -> None:
        """Ask these too, after those that are there. Raises AttributeError as the constructor does."""
        added = tuple(generic_rpc_handlers)
        for handler in added:
            if not hasattr(handler, "service"):
                raise AttributeError(
                    f'"{handler}" must conform to grpc.GenericRpcHandler type but does not have "service" method!'
                )
        self.generic_handlers += added

    def add_registered_method_handlers(self, service_name: str, method_handlers: Mapping[str, Any]) -> None:
        """Answer the methods of a service with these handlers, by method name."""
        self.registered.update({f"/{service_name}/{name}": handler for name, handler in method_handlers.items()})

    @property
    def listed(self) -> list[str]:
        """The methods that the handlers list, full names; a generic handler of a program's own may answer more."""
        known = (getattr(generic, "_method_handlers", {}) for generic in self.generic_handlers)
        return sorted({*self.registered, *(path for paths in known if isinstance(paths, dict) for path in paths)})

    def find(self, path: str, metadata: Metadata = ()) -> Any:
        """Return the grpc.RpcMethodHandler for a call with that metadata, None where there is none.

        Interceptors are asked in their order, for every call, also for one without a handler. Raises what they and the
        generic handlers raise.
        """
        return self._find(HandlerCallDetails(path, invocation_metadata(metadata)))

    def _look_up(self, details: Any) -> Any:
        handler = self.registered.get(details.method)  # before the generic ones, as in gRPC
        if handler is not None:
            return handler
        for generic in self.generic_handlers:
            if (handler := generic.service(details)) is not None:
                return handler
        return None


class AwaitedHandlers(Handlers):
    """The same with interceptors of grpc.aio: `find` and what they continue with are awaited."""

    async def find(self, path: str, metadata: Metadata = ()) -> Any:
        if not self.is_intercepted and (handler := self.registered.get(path)) is not None:
            return handler
        return await self._find(HandlerCallDetails(path, invocation_metadata(metadata)))

    async def _look_up(self, details: Any) -> Any:
        return super()._look_up(details)


def _asking(interceptor: Any, continuation: Any, details: Any) -> Any:
    return interceptor.intercept_service(continuation, details)

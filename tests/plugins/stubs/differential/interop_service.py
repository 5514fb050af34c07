"""The server's half of gRPC's interoperability cases, for threads and for asyncio.

The service does what gRPC's own test service does, with the generated code that the installed tools make.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from typing import Any

from lucky_transport_grpc.runtime import grpc

from . import generated

INITIAL = ("x-grpc-test-echo-initial", "test_initial_metadata_value")
TRAILING = ("x-grpc-test-echo-trailing-bin", b"\xab\xab\xab")


def servicer() -> Any:
    """Return the service for a server of threads; UnimplementedCall stays as it was generated."""
    return type("Servicer", (_Service, generated.services().TestServiceServicer), {})()


def aio_servicer() -> Any:
    """Return the service for an asyncio server, likewise."""
    return type("Servicer", (_AioService, generated.services().TestServiceServicer), {})()


def outputs(*sizes: int, payload: int = 0) -> Any:
    """Return a request for responses of these sizes."""
    return generated.messages().StreamingOutputCallRequest(response_sizes=sizes, payload=bytes(payload))


def _output(size: int) -> Any:
    return generated.messages().StreamingOutputCallResponse(payload=bytes(size))


def _initial(context: Any) -> list[Any]:
    return [(key, value) for key, value in context.invocation_metadata() if key == INITIAL[0]]


def _obey(context: Any, request: Any) -> None:
    """Do what the cases expect of every method: echo a key at the end, and give the status the request asks for."""
    context.set_trailing_metadata([entry for entry in context.invocation_metadata() if entry[0] == TRAILING[0]])
    if request is not None and request.HasField("response_status"):
        context.set_code(next(code for code in grpc.StatusCode if code.value[0] == request.response_status.code))
        context.set_details(request.response_status.message)


class _Service:
    def EmptyCall(self, request: Any, context: Any) -> Any:  # noqa: N802 - the names of the proto
        _obey(context, None)
        return generated.messages().Empty()

    def UnaryCall(self, request: Any, context: Any) -> Any:  # noqa: N802
        context.send_initial_metadata(_initial(context))
        _obey(context, request)
        return generated.messages().SimpleResponse(payload=bytes(request.response_size))

    def StreamingOutputCall(self, request: Any, context: Any) -> Iterator[Any]:  # noqa: N802
        _obey(context, request)
        for size in request.response_sizes:
            yield _output(size)

    def StreamingInputCall(self, request_iterator: Iterator[Any], context: Any) -> Any:  # noqa: N802
        size = sum(len(request.payload) for request in request_iterator)
        return generated.messages().StreamingInputCallResponse(aggregated_payload_size=size)

    def FullDuplexCall(self, request_iterator: Iterator[Any], context: Any) -> Iterator[Any]:  # noqa: N802
        context.send_initial_metadata(_initial(context))
        for request in request_iterator:
            _obey(context, request)
            for size in request.response_sizes:
                yield _output(size)

    def HalfDuplexCall(self, request_iterator: Iterator[Any], context: Any) -> Iterator[Any]:  # noqa: N802
        return self.FullDuplexCall(iter(list(request_iterator)), context)


class _AioService:
    async def EmptyCall(self, request: Any, context: Any) -> Any:  # noqa: N802
        _obey(context, None)
        return generated.messages().Empty()

    async def UnaryCall(self, request: Any, context: Any) -> Any:  # noqa: N802
        await context.send_initial_metadata(_initial(context))
        _obey(context, request)
        return generated.messages().SimpleResponse(payload=bytes(request.response_size))

    async def StreamingOutputCall(self, request: Any, context: Any) -> AsyncIterator[Any]:  # noqa: N802
        _obey(context, request)
        for size in request.response_sizes:
            yield _output(size)

    async def StreamingInputCall(self, request_iterator: Any, context: Any) -> Any:  # noqa: N802
        size = sum([len(request.payload) async for request in request_iterator])
        return generated.messages().StreamingInputCallResponse(aggregated_payload_size=size)

    async def FullDuplexCall(self, request_iterator: Any, context: Any) -> AsyncIterator[Any]:  # noqa: N802
        await context.send_initial_metadata(_initial(context))
        async for request in request_iterator:
            _obey(context, request)
            for size in request.response_sizes:
                yield _output(size)

"""The server's half of gRPC's interoperability cases, for threads and for asyncio, with the generated code of
`lucky_differential.proto`, made by the grpcio-tools that is installed.

Nothing generated is kept: what an older or newer generator writes is what the cases run with.
"""

from __future__ import annotations

import functools
import importlib.util
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

from lucky_transport_grpc.runtime import grpc

NAME = "lucky_differential"

AVAILABLE = importlib.util.find_spec("grpc_tools") is not None


@functools.cache
def messages() -> ModuleType:
    """Return the module of messages."""
    return _modules()[0]


@functools.cache
def services() -> ModuleType:
    """Return the module of stubs and servicers."""
    return _modules()[1]


@functools.cache
def _modules() -> tuple[ModuleType, ModuleType]:
    folder = Path(__file__).parent
    with tempfile.TemporaryDirectory() as out:
        subprocess.run(
            [
                *(sys.executable, "-m", "grpc_tools.protoc", f"-I{folder}", f"--python_out={out}"),
                *(f"--grpc_python_out={out}", str(folder / f"{NAME}.proto")),
            ],
            check=True,
            timeout=60,
        )
        return _load(Path(out), f"{NAME}_pb2"), _load(Path(out), f"{NAME}_pb2_grpc")


def _load(folder: Path, name: str) -> ModuleType:
    """Import a module from a folder under a name by which generated code finds it."""
    spec = importlib.util.spec_from_file_location(name, folder / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


INITIAL = ("x-grpc-test-echo-initial", "test_initial_metadata_value")
TRAILING = ("x-grpc-test-echo-trailing-bin", b"\xab\xab\xab")


def servicer() -> Any:
    """Return the service for a server of threads; UnimplementedCall stays as it was generated."""
    return type("Servicer", (_Service, services().TestServiceServicer), {})()


def aio_servicer() -> Any:
    """Return the service for an asyncio server, likewise."""
    return type("Servicer", (_AioService, services().TestServiceServicer), {})()


def outputs(*sizes: int, payload: int = 0) -> Any:
    """Return a request for responses of these sizes."""
    return messages().StreamingOutputCallRequest(response_sizes=sizes, payload=bytes(payload))


def _output(size: int) -> Any:
    return messages().StreamingOutputCallResponse(payload=bytes(size))


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
        return messages().Empty()

    def UnaryCall(self, request: Any, context: Any) -> Any:  # noqa: N802
        context.send_initial_metadata(_initial(context))
        _obey(context, request)
        return messages().SimpleResponse(payload=bytes(request.response_size))

    def StreamingOutputCall(self, request: Any, context: Any) -> Iterator[Any]:  # noqa: N802
        _obey(context, request)
        for size in request.response_sizes:
            yield _output(size)

    def StreamingInputCall(self, request_iterator: Iterator[Any], context: Any) -> Any:  # noqa: N802
        size = sum(len(request.payload) for request in request_iterator)
        return messages().StreamingInputCallResponse(aggregated_payload_size=size)

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
        return messages().Empty()

    async def UnaryCall(self, request: Any, context: Any) -> Any:  # noqa: N802
        await context.send_initial_metadata(_initial(context))
        _obey(context, request)
        return messages().SimpleResponse(payload=bytes(request.response_size))

    async def StreamingOutputCall(self, request: Any, context: Any) -> AsyncIterator[Any]:  # noqa: N802
        _obey(context, request)
        for size in request.response_sizes:
            yield _output(size)

    async def StreamingInputCall(self, request_iterator: Any, context: Any) -> Any:  # noqa: N802
        size = sum([len(request.payload) async for request in request_iterator])
        return messages().StreamingInputCallResponse(aggregated_payload_size=size)

    async def FullDuplexCall(self, request_iterator: Any, context: Any) -> AsyncIterator[Any]:  # noqa: N802
        await context.send_initial_metadata(_initial(context))
        async for request in request_iterator:
            _obey(context, request)
            for size in request.response_sizes:
                yield _output(size)

"""Stubs and a servicer of `lucky_differential.proto`, made by the grpcio-tools that is installed.

Nothing generated is kept: what an older or newer generator writes is what the cases run with.
"""

import functools
import importlib
import subprocess
import sys
import tempfile
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from ..both import ASYNCIO, BOTH, THREADS, WAYS, Driver
from ..records import PATIENCE_S, Record, Way
from ..registry import each

NAME = "lucky_differential"
METHODS = {"unary_unary": "Say", "unary_stream": "List", "stream_unary": "Collect", "stream_stream": "Talk"}
WORDS = ("one", "two")


@functools.cache
def _modules() -> tuple[ModuleType, ModuleType]:
    """Return the module of messages, and that of stubs and servicers."""
    folder = Path(__file__).parents[1]
    with tempfile.TemporaryDirectory() as out:
        to = (f"-I{folder}", f"--python_out={out}", f"--grpc_python_out={out}", str(folder / f"{NAME}.proto"))
        subprocess.run([sys.executable, "-m", "grpc_tools.protoc", *to], check=True, timeout=60)
        with pytest.MonkeyPatch.context() as patch:
            patch.syspath_prepend(out)
            return importlib.import_module(f"{NAME}_pb2"), importlib.import_module(f"{NAME}_pb2_grpc")


def _servicer(ends: Driver) -> Any:
    """Return the service; Leave stays as it was generated."""
    pb, services = _modules()

    def letters(request: Any) -> Any:
        return (pb.Text(text=letter) for letter in request.text)

    def twice(request: Any) -> Any:
        return request, pb.Text(text=request.text.upper())

    def collect(requests: Any, context: Any) -> Any:
        return pb.Text(text="+".join(request.text for request in requests))

    async def aio_collect(requests: Any, context: Any) -> Any:
        return pb.Text(text="+".join([request.text async for request in requests]))

    methods = {
        "Say": ends.behaviour("unary_unary", lambda read, context: read()),
        "List": ends.flow("unary_stream", letters),
        "Collect": collect if ends.driver == THREADS else aio_collect,
        "Talk": ends.flow("stream_stream", twice),
    }
    staying = {name: staticmethod(method) for name, method in methods.items()}
    return type("Servicer", (services.ChatServicer,), staying)()


async def _channel(ends: Driver) -> tuple[Any, Any]:
    """Serve the service; return the module of stubs and a channel."""
    services, server, address = _modules()[1], ends.server(), ends.address()
    services.add_ChatServicer_to_server(_servicer(ends), server)
    server.add_insecure_port(address)
    await ends.begin(server)
    return services, ends.connect(address)


@each(BOTH, way={**WAYS, ASYNCIO: [way for way in WAYS[ASYNCIO] if "write" not in way.style]})
async def stub_calls_its_servicer(ends: Driver, way: Way) -> Record:
    services, channel = await _channel(ends)
    texts = [_modules()[0].Text(text=word) for word in WORDS]
    sent = iter(texts) if way.arity.startswith("stream") else texts[0]
    return await ends.invoke(way, getattr(services.ChatStub(channel), METHODS[way.arity]), sent, timeout=PATIENCE_S)


@each(BOTH, service=("Chat", "Nobody"))
async def method_is_not_implemented(ends: Driver, service: str) -> Record:
    services, channel = await _channel(ends)
    stub = getattr(services, f"{service}Stub")(channel)
    return await ends.attempt(stub.Leave, _modules()[0].Text(), timeout=PATIENCE_S)


@each(BOTH)
async def request_is_no_message_at_all(ends: Driver) -> Record:
    services, channel = await _channel(ends)
    return await ends.attempt(services.ChatStub(channel).Say, "text", timeout=PATIENCE_S)

"""Served engines and clients for the tests of this folder; whatever a test started is gone when it ends."""

import asyncio
import importlib.util
import threading
from collections.abc import Callable, Generator
from contextlib import AsyncExitStack, ExitStack
from typing import Any

import pytest

from lucky_transport import api
from lucky_transport.engine import Engine
from lucky_transport.serving import Serving
from tests.support.waiting import until

if importlib.util.find_spec("openenv") is not None:
    import lucky_transport_openenv.runtime


#: What is served: an engine's name or an engine, and the options of the endpoint.
Serve = Callable[..., Serving]


@pytest.fixture
def serve() -> Generator[Serve]:
    """Serve an engine to agents; no thread of the server is left at the end."""
    with ExitStack() as stack:

        def start(engine: str | Engine, num_envs: int = 1, *, also: str = "", **options: Any) -> Serving:
            query = "&".join(f"{key}={value}" for key, value in options.items())
            endpoints = [f"openenv://127.0.0.1:0?{query}".rstrip("?"), *filter(None, [also])]
            return stack.enter_context(api.serve(engine, endpoints, num_envs=num_envs))

        yield start
    until(lambda: not [one for one in threading.enumerate() if one.name.startswith("lucky-openenv")])


@pytest.fixture
def client(serve: object) -> Generator[Callable[[Serving], Any]]:
    """Connect OpenEnv's own client to what `serve` returned."""
    from openenv.core import GenericEnvClient  # pyright: ignore[reportMissingImports]

    with ExitStack() as stack:

        def connect(serving: Serving) -> Any:
            return stack.enter_context(GenericEnvClient(url(serving)).sync())

        yield connect


def url(serving: Serving) -> str:
    """Return where what `serve` returned is found."""
    return f"http://{serving.endpoints[0].address}"


def over_http(serving: Serving, play: Callable[..., Any], *tokens: str | None) -> Any:
    """Return what `play` returns for clients of MCP's streamable HTTP: one, or one with each of these tokens."""
    from fastmcp import Client  # pyright: ignore[reportMissingImports]

    async def connected() -> Any:
        async with AsyncExitStack() as stack:
            clients = [Client(f"{url(serving)}/mcp/http", auth=token) for token in tokens or (None,)]
            return await play(*[await stack.enter_async_context(client) for client in clients])

    return asyncio.run(connected())

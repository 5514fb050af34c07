"""Both ends for an asyncio case; the counterpart of `ends.Ends`, with the same methods."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import AsyncExitStack
from functools import partial
from pathlib import Path
from typing import Any

from .ends import ARITIES, Implementation, Methods, Options, Served, add_port, generic_handler, method_handler, path


class AioEnds:
    """Servers and channels of grpc.aio for one case, as an asynchronous context."""

    def __init__(self, implementation: Implementation) -> None:
        self._implementation = implementation
        self._stack = AsyncExitStack()
        self._gates: list[asyncio.Event] = []
        self.addresses: list[str] = []

    async def __aenter__(self) -> AioEnds:
        self._folder = Path(self._stack.enter_context(tempfile.TemporaryDirectory()))
        return self

    async def __aexit__(self, *_: object) -> None:
        for gate in self._gates:
            gate.set()
        await self._stack.aclose()

    def address(self) -> str:
        """Return an address at which nobody listens, for `serve` or for a channel to nowhere."""
        self.addresses.append(self._implementation.address(self._folder))
        return self.addresses[-1]

    def gate(self) -> asyncio.Event:
        """Return an event for a handler to wait on; it is set at the end, so that no handler outlives the case."""
        self._gates.append(asyncio.Event())
        return self._gates[-1]

    def pool(self) -> ThreadPoolExecutor:
        """Return a pool of threads for handlers that are no coroutines."""
        return self._stack.enter_context(ThreadPoolExecutor(2))

    def server(self, *handlers: Any, **arguments: Any) -> Any:
        """Return a server that is not started yet."""
        server = self._implementation.aio_server(handlers=handlers, **arguments)
        self._stack.push_async_callback(server.stop, None)
        return server

    async def serve(
        self, methods: Methods, *, address: str | None = None, credentials: Any = None, **arguments: Any
    ) -> Served:
        """Serve these methods, at a new address unless one is given, with the credentials of a server or without."""
        server = self.server(generic_handler(methods), **arguments)
        target = address or self.address()
        add_port(server, target, credentials)
        await server.start()
        return Served(server, target)

    def connect(self, target: str, options: Options = (), **arguments: Any) -> Any:
        """Return a channel to a target; one with credentials is a secure one."""
        implementation = self._implementation
        make = implementation.aio_secure_channel if "credentials" in arguments else implementation.aio_channel
        channel = make(target, options=options, **arguments)
        self._stack.push_async_callback(channel.close)
        return channel

    async def method(
        self, arity: str, behaviour: Callable[..., Any], *, channel_options: Options = (), **arguments: Any
    ) -> Any:
        """Serve one method with these arguments of a server; return its multi-callable on a new channel."""
        served = await self.serve({"Method": method_handler(arity, behaviour)}, **arguments)
        return getattr(self.connect(served.target, channel_options), arity)(path())

    def __getattr__(self, arity: str) -> Callable[..., Any]:
        """`unary_unary(behaviour)` is `method("unary_unary", behaviour)`; likewise for the other arities."""
        if arity not in ARITIES:
            raise AttributeError(arity)
        return partial(self.method, arity)

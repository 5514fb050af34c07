"""Both ends for an asyncio case, as `ends.Ends` are for one of threads, and what it records of calls it awaits.

Every observation of an asyncio call goes through here, so that no case forgets a part of it.
"""

import asyncio
import tempfile
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import AsyncExitStack
from typing import Any, Self

import grpc

from . import records
from .ends import Made, Methods, Options, Served, add_port, generic_handler, method_handler, path
from .records import PATIENCE_S, REQUESTS, Record, Way, entries, error, words

#: What grpc.aio gives where a stream has no further item.
EOF: Any = vars(grpc.aio)["EOF"]

#: Every way to make a call of grpc.aio: how requests are given and responses taken.
WAYS = (
    Way("unary_unary", "await"),
    Way("unary_stream", "iterate"),
    Way("unary_stream", "read"),
    Way("stream_unary", "iterate"),
    Way("stream_unary", "write"),
    Way("stream_stream", "iterate"),
    Way("stream_stream", "write and read"),
)

#: Those that cannot break off in the middle of a write, which gRPC sometimes calls an internal error of its own.
SAFE_WAYS = tuple(way for way in WAYS if way.arity.startswith("unary"))


async def attempt(awaitable: Awaitable[Any]) -> Record:
    """Await; return the record of the value or of what was raised."""
    try:
        value = await asyncio.wait_for(_as_coroutine(awaitable), PATIENCE_S)
    except (Exception, asyncio.CancelledError) as raised:
        return {"raised": error(raised)}
    return {"value": "EOF" if value is EOF else value}


async def _as_coroutine(awaitable: Awaitable[Any]) -> Any:
    return await awaitable


async def taken(items: AsyncIterator[Any] | Any, at_most: int = 1_000_000) -> Record:
    """Return the items that come, and the error that ends them."""
    seen: list[Any] = []
    try:
        async with asyncio.timeout(PATIENCE_S):
            async for item in items:
                seen.append(item)
                if len(seen) == at_most:
                    return {"items": seen, "ended": "not yet"}
    except (Exception, asyncio.CancelledError) as raised:
        return {"items": seen, "ended": error(raised)}
    return {"items": seen, "ended": "exhausted"}


async def read(call: Any, at_most: int = 1_000_000) -> Record:
    """Return the items that `read()` gives, and the error that ends them."""
    seen: list[Any] = []
    try:
        async with asyncio.timeout(PATIENCE_S):
            while len(seen) < at_most:
                item = await call.read()
                if item is EOF:
                    return {"items": seen, "ended": "EOF"}
                seen.append(item)
    except (Exception, asyncio.CancelledError) as raised:
        return {"items": seen, "ended": error(raised)}
    return {"items": seen, "ended": "not yet"}


async def status(call: Any) -> Record:
    """Return what a call says about its end, once it has ended."""
    async with asyncio.timeout(PATIENCE_S):
        return {
            "code": (await call.code()).name,
            "details": words(await call.details()),
            "initial": entries(await call.initial_metadata()),
            "trailing": entries(await call.trailing_metadata()),
        }


async def _write_all(call: Any) -> None:
    for request in REQUESTS:
        await call.write(request)
    await call.done_writing()


async def until(condition: Callable[[], bool]) -> bool:
    """Return whether the condition comes true within our patience."""
    loop = asyncio.get_running_loop()
    end = loop.time() + PATIENCE_S
    while not condition() and loop.time() < end:
        await asyncio.sleep(0.005)
    return condition()


def run(coroutine: Coroutine[Any, Any, Any]) -> Any:
    """Run what never suspends to its end, on this thread."""
    try:
        coroutine.send(None)
    except StopIteration as end:
        return end.value
    raise AssertionError("it was suspended")


class Flag:
    """Something that happens once; a case and its handlers wait for it."""

    def __init__(self, event: threading.Event | asyncio.Event) -> None:
        self._event = event
        self.set, self.is_set = event.set, event.is_set

    async def happened(self) -> bool:
        """Return whether it comes within our patience."""
        if isinstance(self._event, threading.Event):
            return records.happened(self._event)
        try:
            await asyncio.wait_for(self._event.wait(), PATIENCE_S)
        except TimeoutError:
            return False
        return True

    def happened_here(self) -> bool:
        """Return whether it comes within our patience, to a thread that no driver has."""
        return run(self.happened())


async def _once(item: Any) -> AsyncIterator[Any]:
    yield item


#: Returns all that a handler is sent, as one value.
Read = Callable[[], Awaitable[bytes]]
#: What a handler does: reads, and returns its response.
Answer = Callable[[Read, Any], Awaitable["bytes | None"]]


class AioEnds(Made, AsyncExitStack):
    """Servers and channels of grpc.aio for one case, as an asynchronous context; also a driver, as `OverThreads` is."""

    driver = "asyncio"

    async def __aenter__(self) -> Self:
        self._folder = self.enter_context(tempfile.TemporaryDirectory())
        return self

    async def __aexit__(self, *error: Any) -> None:
        self.open_gates()
        await super().__aexit__(*error)

    def gate(self) -> Flag:
        """Return what happens at the end of the case, unless before: so no handler outlives it."""
        self._gates.append(self.flag())
        return self._gates[-1]

    def pool(self) -> ThreadPoolExecutor:
        """Return a pool of threads for handlers that are no coroutines."""
        return self.enter_context(ThreadPoolExecutor(2))

    def server(self, *handlers: Any, **arguments: Any) -> Any:
        """Return a server that is not started yet."""
        server = self._implementation.aio_server(handlers=handlers, **arguments)
        self.push_async_callback(server.stop, None)
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
        self.push_async_callback(channel.close)
        return channel

    async def method(
        self, arity: str, behaviour: Callable[..., Any], *, channel_options: Options = (), **arguments: Any
    ) -> Any:
        """Serve one method with these arguments of a server; return its multi-callable on a new channel."""
        served = await self.serve({"Method": method_handler(arity, behaviour)}, **arguments)
        return getattr(self.connect(served.target, channel_options), arity)(path())

    def flag(self) -> Flag:
        """Return what has not happened yet."""
        return Flag(asyncio.Event())

    async def stop(self, server: Any, grace: float | None = None) -> None:
        await server.stop(grace)

    def stopping(self, server: Any, grace: float | None = 0) -> Any:
        return asyncio.ensure_future(server.stop(grace))

    async def begin(self, server: Any) -> None:
        await server.start()

    async def terminated(self, server: Any, timeout_s: float | None = None) -> Record:
        return await attempt(server.wait_for_termination(timeout_s))

    def behaviour(
        self, arity: str, answer: Answer, *first: bytes, last: tuple[bytes, ...] = ()
    ) -> Callable[[Any, Any], Any]:
        async def unary(request: Any, context: Any) -> bytes | None:
            async def read() -> bytes:
                return b"+".join([one async for one in request]) if arity.startswith("stream") else request

            return await answer(read, context)

        async def stream(request: Any, context: Any) -> AsyncIterator[bytes]:
            for one in first:
                yield one
            response = await unary(request, context)
            for one in (*(() if response is None else (response,)), *last):
                yield one

        return stream if arity.endswith("stream") else unary

    def flow(self, arity: str, make: Callable[[bytes], Iterable[bytes]]) -> Callable[[Any, Any], Any]:
        async def stream(request: Any, context: Any) -> AsyncIterator[bytes]:
            async for one in request if arity.startswith("stream") else _once(request):
                for item in make(one):
                    yield item

        return stream

    async def gather(self, work: Callable[[int], Coroutine[Any, Any, Any]], count: int) -> list[Any]:
        return await asyncio.gather(*map(work, range(count)))

    async def close(self, channel: Any, *grace: float) -> None:
        await channel.close(*grace)

    def start(self, way: Way, method: Any, *sent: Any, **options: Any) -> Any:
        """Begin a call; where requests are written nothing is sent yet. `sent` is another request than usual."""
        if sent:
            return method(*sent, **options)
        if not way.arity.startswith("stream"):
            return method(REQUESTS[0], **options)
        return method(**options) if "write" in way.style else method(iter(REQUESTS), **options)

    async def result(self, way: Way, call: Any) -> Record:
        if not way.arity.endswith("stream"):
            return await attempt(call)
        return await (read(call) if "read" in way.style else taken(call))

    async def first(self, way: Way, call: Any) -> Record:
        return await (read(call, 1) if "read" in way.style else taken(call, 1))

    async def ended(self, call: Any) -> Record:
        return {**await status(call), **self.state(call), "cancel": call.cancel()}

    async def finish(self, way: Way, call: Any) -> Record:
        """Send the rest, take all responses; return them with all that the call then says."""
        seen: Record = {}
        if "write" in way.style:
            seen["writing"] = await attempt(_write_all(call))
        seen["taken" if way.arity.endswith("stream") else "response"] = await self.result(way, call)
        return {**seen, **await self.ended(call)}

    async def invoke(self, way: Way, method: Any, *sent: Any, **options: Any) -> Record:
        try:
            call = self.start(way, method, *sent, **options)
        except Exception as raised:
            return {"refused": error(raised)}
        return await self.finish(way, call)

    async def attempt(self, method: Any, request: Any, **options: Any) -> Record:
        try:
            call = method(request, **options)
        except Exception as raised:
            return {"refused": error(raised)}
        return await attempt(call)

    async def taken(self, method: Any, request: Any, **options: Any) -> Record:
        try:
            return await taken(method(request, **options))
        except Exception as raised:
            return {"refused": error(raised)}

    async def initial(self, call: Any) -> Any:
        return entries(await call.initial_metadata())

    async def code(self, call: Any) -> str:
        return (await call.code()).name

    def state(self, call: Any) -> Record:
        return {"done": call.done(), "cancelled": call.cancelled()}

    async def aside(self, function: Callable[..., Any], *arguments: Any) -> Any:
        return await asyncio.to_thread(function, *arguments)

    async def settle(self) -> None:
        await asyncio.sleep(0.05)

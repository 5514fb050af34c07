"""A case that is written once for threads and for asyncio: it awaits everything, and its driver knows how.

`OverThreads` and `AioEnds` have the same methods. Over threads nothing is ever suspended: what a case or a handler
awaits blocks its thread. What a driver can see of a call and the other cannot is in its records alone.
"""

import threading
from collections.abc import Callable, Coroutine, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

from . import aio_ends, records
from .aio_ends import AioEnds, Answer, Flag, Read, run
from .ends import Ends, Served
from .records import PATIENCE_S, Record, Way

THREADS, ASYNCIO = "threads", "asyncio"
BOTH = (THREADS, ASYNCIO)

#: By driver: every way to make a call, and those whose caller is not blocked.
WAYS = {THREADS: records.WAYS, ASYNCIO: aio_ends.WAYS}
FREE_WAYS = {THREADS: records.FREE_WAYS, ASYNCIO: aio_ends.WAYS}
#: The same, without those that can break off in a write, which grpc.aio sometimes calls an internal error of its own.
SAFE_WAYS = {THREADS: records.WAYS, ASYNCIO: aio_ends.SAFE_WAYS}
SAFE_FREE_WAYS = {THREADS: records.FREE_WAYS, ASYNCIO: aio_ends.SAFE_WAYS}


def ways_of(*arities: str) -> dict[str, list[Way]]:
    """Return by driver the ways to make calls of these arities."""
    return {driver: [way for way in ways if way.arity in arities] for driver, ways in WAYS.items()}


async def echo(read: Read, context: Any) -> bytes:
    """Respond with what was sent."""
    return await read()


class _AwaitedContext:
    """A handler's context whose methods are awaited as those of grpc.aio."""

    def __init__(self, context: Any) -> None:
        self.given = self._context = context

    def __getattr__(self, name: str) -> Any:
        return getattr(self._context, name)

    async def abort(self, code: Any, details: str = "", trailing_metadata: Any = ()) -> None:
        if trailing_metadata:
            self._context.set_trailing_metadata(trailing_metadata)
        self._context.abort(code, details)

    async def send_initial_metadata(self, metadata: Any) -> None:
        self._context.send_initial_metadata(metadata)

    def add_done_callback(self, callback: Callable[[Any], object]) -> None:
        self._context.add_callback(partial(callback, self))


class _Stopping:
    """Is over when this event is set, as a task is done."""

    def __init__(self, event: threading.Event) -> None:
        self.done, self._flag = event.is_set, Flag(event)

    def __await__(self) -> Any:
        return self._flag.happened().__await__()


class OverThreads:
    """`ends`, whose calls are grpc's."""

    driver = THREADS

    def __init__(self, ends: Ends) -> None:
        self._ends = ends
        self.address, self.connect, self.server = ends.address, ends.connect, ends.server

    def flag(self) -> Flag:
        """Return what has not happened yet."""
        return Flag(threading.Event())

    def gate(self) -> Flag:
        """Return what happens at the end of the case, unless before: so no handler outlives it."""
        return Flag(self._ends.gate())

    async def serve(self, methods: dict[str, Any], **arguments: Any) -> Served:
        """Serve these methods; see `Ends.serve`."""
        return self._ends.serve(methods, **arguments)

    async def stop(self, server: Any, grace: float | None = None) -> None:
        """Stop a server; returns when it has stopped."""
        await self.stopping(server, grace)

    def stopping(self, server: Any, grace: float | None = 0) -> Any:
        """Begin to stop a server; returns what is awaited until it has stopped, and is `done()` then."""
        return _Stopping(server.stop(grace))

    async def begin(self, server: Any) -> None:
        """Start a server."""
        server.start()

    async def terminated(self, server: Any, timeout_s: float | None = None) -> Record:
        """Wait for the end of a server; return what that gave."""
        return records.attempt(server.wait_for_termination, timeout=timeout_s)

    async def method(self, arity: str, behaviour: Callable[..., Any], **arguments: Any) -> Any:
        """Serve one method; see `Ends.method`."""
        return self._ends.method(arity, behaviour, **arguments)

    def behaviour(
        self, arity: str, answer: Answer, *first: bytes, last: tuple[bytes, ...] = ()
    ) -> Callable[[Any, Any], Any]:
        """Return a handler that responds as `answer` does; a stream gives more around it, and no None."""

        def unary(request: Any, context: Any) -> bytes | None:
            async def read() -> bytes:
                return records.received(arity, request)

            return run(answer(read, _AwaitedContext(context)))  # type: ignore[arg-type]

        def stream(request: Any, context: Any) -> Iterator[bytes]:
            yield from first
            response = unary(request, context)
            yield from (*(() if response is None else (response,)), *last)

        return stream if arity.endswith("stream") else unary

    def flow(self, arity: str, make: Callable[[bytes], Iterable[bytes]]) -> Callable[[Any, Any], Any]:
        """Return a handler that responds to each request with these items."""

        def stream(request: Any, context: Any) -> Iterator[bytes]:
            for one in request if arity.startswith("stream") else (request,):
                yield from make(one)

        return stream

    async def gather(self, work: Callable[[int], Coroutine[Any, Any, Any]], count: int) -> list[Any]:
        """Return what `work(number)` gives for every number, done at the same time."""
        with ThreadPoolExecutor(8) as pool:
            return list(pool.map(lambda number: run(work(number)), range(count)))

    async def close(self, channel: Any, *grace: float) -> None:
        """Close a channel."""
        channel.close()

    def start(self, way: Way, method: Any, **options: Any) -> Any:
        """Begin a call whose caller is not blocked."""
        return (method.future if way.style == "future" else method)(records.argument(way.arity), **options)

    async def result(self, way: Way, call: Any) -> Record:
        """Return what the caller gets: a response, or all of them."""
        return records.taken(call) if way.arity.endswith("stream") else records.attempt(call.result, PATIENCE_S)

    async def first(self, way: Way, call: Any) -> Record:
        """Return the first response of a stream."""
        return records.taken(call, 1)

    async def ended(self, call: Any) -> Record:
        """Return what an ended call says, whatever it is asked."""
        return records.ended(call)

    async def finish(self, way: Way, call: Any) -> Record:
        """Return what the caller gets, and all that the call then says."""
        return {"result": await self.result(way, call), **records.ended(call)}

    async def invoke(self, way: Way, method: Any, *sent: Any, **options: Any) -> Record:
        """Make a call and return all there is to see of it; `sent` is another request than usual."""
        try:
            return records.invoke(way.style, method, *(sent or (records.argument(way.arity),)), **options)
        except Exception as raised:
            return {"refused": records.error(raised)}

    async def attempt(self, method: Any, request: Any, **options: Any) -> Record:
        """Make a call with one response; return it, or what was raised."""
        return records.attempt(method, request, **options)

    async def taken(self, method: Any, request: Any, **options: Any) -> Record:
        """Make a call with a stream of responses; return them, and what ended them."""
        try:
            return records.taken(method(request, **options))
        except Exception as raised:
            return {"refused": records.error(raised)}

    async def initial(self, call: Any) -> Any:
        """Return the initial metadata of a call, once they have come."""
        return records.entries(call.initial_metadata())

    async def code(self, call: Any) -> str:
        """Return the code with which a call ends."""
        return call.code().name

    def state(self, call: Any) -> Record:
        """Return what a call says about where it stands."""
        return {**records.state(call), "active": call.is_active()}

    async def aside(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """Call what blocks."""
        return function(*arguments)

    async def settle(self) -> None:
        """Let what has begun go on; a thread does so by itself."""


Driver = OverThreads | AioEnds


class Held:
    """What a handler is that waits until it is let go; `told`: that its call has ended.

    reads: its requests, before it responds: to end before the client has said all is, to grpc.aio, an internal error at
    times.
    """

    def __init__(self, ends: Driver, *, reads: bool = True) -> None:
        self._gate, self.begun, self.told = ends.gate(), ends.flag(), ends.flag()
        self._reads = reads
        self.let_go = self._gate.set

    async def answer(self, read: Read, context: Any) -> bytes:
        """Respond once it is let go."""
        context.add_done_callback(lambda _: self.told.set())
        self.begun.set()
        await self._gate.happened()
        if self._reads:
            await read()
        return b"response"

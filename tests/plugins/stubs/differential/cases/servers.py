"""Servers: starting, stopping under calls, their limits, and how handlers are found."""

import threading
from typing import Any

from ..aio_ends import attempt as aio_attempt
from ..both import ASYNCIO, BOTH, FREE_WAYS, SAFE_FREE_WAYS, THREADS, AioEnds, Driver, Held, OverThreads, Read, echo
from ..ends import Ends, generic_handler, method_handler, path
from ..records import PATIENCE_S, Diary, Record, Way, attempt, happened
from ..registry import case, each

ONE_FREE = {driver: ways[:1] for driver, ways in FREE_WAYS.items()}


def _echo(ends: Driver) -> dict[str, Any]:
    return {"Method": method_handler("unary_unary", ends.behaviour("unary_unary", echo))}


class _Pending:
    """A call that a server is busy with, until its handler is let go."""

    def __init__(self, ends: Driver, way: Way) -> None:
        self._ends, self._way, self._held = ends, way, Held(ends, reads=False)
        self.let_go = self._held.let_go

    async def begin(self) -> bool:
        """Serve, call, and return whether the handler has begun."""
        handler = method_handler(self._way.arity, self._ends.behaviour(self._way.arity, self._held.answer))
        served = await self._ends.serve({"Method": handler, "Other": _echo(self._ends)["Method"]})
        self.server, self.channel = served.server, self._ends.connect(served.target)
        self._call = self._ends.start(self._way, getattr(self.channel, self._way.arity)(path()))
        return await self._held.begun.happened()

    def let_go_at_its_end(self) -> None:
        """Let a handler of threads answer once it was told that its call has ended: gRPC's stop waits for it."""
        if isinstance(self._ends, OverThreads):
            threading.Thread(target=lambda: self._held.told.happened_here() and self.let_go()).start()

    async def outcome(self) -> Record:
        """Return how the call ended, for its caller and for its handler."""
        seen = await self._ends.result(self._way, self._call)
        error: Record = seen.get("raised") or seen.get("ended") or {}
        code = await self._ends.code(self._call)
        if code == "UNAVAILABLE":
            error.pop("details")  # what the socket says depends on who closes it first
        return {"call": seen, "code": code, "told": await self._held.told.happened()}


@each(BOTH, way=SAFE_FREE_WAYS)
async def stopping_without_grace_ends_calls(ends: Driver, way: Way) -> Record:
    pending = _Pending(ends, way)
    seen: Record = {"begun": await pending.begin()}
    pending.let_go_at_its_end()
    seen["stopped"] = await ends.stopping(pending.server, None)
    return {**seen, **await pending.outcome()}


@each(BOTH, way=SAFE_FREE_WAYS)
async def stopping_with_grace_lets_calls_end(ends: Driver, way: Way) -> Record:
    pending = _Pending(ends, way)
    seen: Record = {"begun": await pending.begin()}
    stopping = ends.stopping(pending.server, PATIENCE_S)
    await ends.settle()
    seen["stopped at once"] = stopping.done()
    pending.let_go()
    return {**seen, **await pending.outcome(), "stopped": await stopping}


@each(BOTH, way=SAFE_FREE_WAYS)
async def grace_runs_out(ends: Driver, way: Way) -> Record:
    pending = _Pending(ends, way)
    seen: Record = {"begun": await pending.begin()}
    stopping = ends.stopping(pending.server, 0.1)
    seen |= await pending.outcome()
    pending.let_go()
    return {**seen, "stopped": await stopping}


@each(BOTH)
async def new_calls_are_refused_during_grace(ends: Driver) -> Record:
    pending = _Pending(ends, ONE_FREE[ends.driver][0])
    await pending.begin()
    stopping = ends.stopping(pending.server, PATIENCE_S)
    refused = await ends.attempt(pending.channel.unary_unary(path("Other")), b"request", timeout=PATIENCE_S)
    pending.let_go()
    return {"refused": "raised" in refused, **await pending.outcome(), "stopped": await stopping}


@each(BOTH)
async def a_shorter_grace_overrides_a_longer_one(ends: Driver) -> Record:
    pending = _Pending(ends, ONE_FREE[ends.driver][0])
    await pending.begin()
    stopping = [ends.stopping(pending.server, grace) for grace in (PATIENCE_S, 0.05, PATIENCE_S)]
    seen = await pending.outcome()
    pending.let_go()
    return {**seen, "stopped": [await one for one in stopping]}


@each(BOTH, grace=(None, 0, 1))
async def an_idle_server_stops_at_once(ends: Driver, grace: float | None) -> Record:
    server = (await ends.serve(_echo(ends))).server
    return {
        "stopped": await ends.stopping(server, grace),
        "again": await ends.stopping(server, grace),
        "terminated": await ends.terminated(server, PATIENCE_S),
    }


@each(BOTH)
async def a_server_that_never_started_stops(ends: Driver) -> Record:
    server = ends.server()
    return {"stopped": await ends.stopping(server, None), "again": await ends.stopping(server, 1)}


@each(BOTH)
async def waiting_for_termination_has_a_timeout(ends: Driver) -> Record:
    return {"terminated": await ends.terminated((await ends.serve(_echo(ends))).server, 0.05)}


@each(BOTH)
async def waiting_for_termination_ends_with_the_server(ends: Driver) -> Record:
    server = (await ends.serve(_echo(ends))).server

    async def wait_or_stop(number: int) -> Record | None:
        return await (ends.stop(server) if number else ends.terminated(server))

    return {"terminated": (await ends.gather(wait_or_stop, 2))[0]}


@case
def a_server_starts_once(ends: Ends) -> Record:
    return attempt(ends.serve({}).server.start)


@each((ASYNCIO,))
async def an_asyncio_server_starts_again(ends: AioEnds) -> Record:
    return await aio_attempt((await ends.serve(_echo(ends))).server.start())


@case
def an_address_is_taken(ends: Ends) -> Record:
    served = ends.serve({})
    seen = attempt(ends.server().add_insecure_port, served.target)
    return {"classes": seen.get("raised", {}).get("classes")}


@each(BOTH)
async def a_server_listens_at_several_addresses(ends: Driver) -> Record:
    server, addresses = ends.server(generic_handler(_echo(ends))), [ends.address(), ends.address()]
    for address in addresses:
        server.add_insecure_port(address)
    await ends.begin(server)
    methods = [ends.connect(address).unary_unary(path()) for address in addresses]
    return {"responses": [await ends.attempt(method, b"request") for method in methods]}


@each(BOTH)
async def the_first_handler_that_knows_a_method_serves_it(ends: Driver) -> Record:
    async def answer(read: Read, context: Any) -> bytes:
        return b"second"

    second = method_handler("unary_unary", ends.behaviour("unary_unary", answer))
    handlers = generic_handler(_echo(ends)), generic_handler({"Method": second, "Other": second})
    server, address = ends.server(*handlers), ends.address()
    server.add_insecure_port(address)
    await ends.begin(server)
    channel = ends.connect(address)
    names = ("Method", "Other", "Neither")
    return {name: await ends.attempt(channel.unary_unary(path(name)), b"request") for name in names}


@each(BOTH, way=ONE_FREE, limit=(1, 2))
async def only_so_many_calls_at_once(ends: Driver, way: Way, limit: int) -> Record:
    gate, begun = ends.gate(), [ends.flag() for _ in range(limit)]
    unbegun = iter(begun)

    async def answer(read: Read, context: Any) -> bytes:
        next(unbegun).set()
        await gate.happened()
        return await read()

    behaviour = ends.behaviour("unary_unary", answer)
    method = await ends.method("unary_unary", behaviour, maximum_concurrent_rpcs=limit)
    held = [ends.start(way, method) for _ in range(limit)]
    seen: Record = {"begun": [await one.happened() for one in begun]}
    seen["refused"] = await ends.attempt(method, b"one too many", timeout=5)
    gate.set()
    seen["held"] = [await ends.result(way, call) for call in held]
    return seen


@each(BOTH)
async def a_place_is_free_again_after_a_call(ends: Driver) -> Record:
    behaviour = ends.behaviour("unary_unary", echo)
    method = await ends.method("unary_unary", behaviour, maximum_concurrent_rpcs=1)
    done = 0
    for _ in range(1_000):
        done += "value" in await ends.attempt(method, b"request")
        if done == 10:
            break
    return {"done": done}


@each((THREADS,))
async def unknown_methods_take_no_place(ends: OverThreads) -> Record:
    channel = ends.connect((await ends.serve(_echo(ends), maximum_concurrent_rpcs=0)).target)
    return {
        "known": await ends.attempt(channel.unary_unary(path()), b"request"),
        "unknown": await ends.attempt(channel.unary_unary(path("Other")), b"request"),
    }


@each((ASYNCIO,), limit=(0, -1))
async def an_asyncio_limit_is_below_one(ends: AioEnds, limit: int) -> Record:
    return attempt(lambda: ends.server(maximum_concurrent_rpcs=limit) and None)


@case
def calls_queue_for_the_pool(ends: Ends) -> Record:
    gate, begun = ends.gate(), Diary()

    def behaviour(request: bytes, context: Any) -> bytes:
        begun.note(request)
        happened(gate)
        return request

    method = ends.unary_unary(behaviour, workers=1)
    first = method.future(b"first")
    begun.after(1)
    rest = [method.future(b"later") for _ in range(5)]
    expired = attempt(method, b"expired", timeout=0.1)
    gate.set()
    return {
        "first": attempt(first.result, PATIENCE_S),
        "rest": [attempt(call.result, PATIENCE_S) for call in rest],
        "expired": expired,
        "begun": begun.after(6)[:6],
    }

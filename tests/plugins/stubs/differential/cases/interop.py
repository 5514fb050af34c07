"""gRPC's interoperability cases, with generated stubs and a generated servicer."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Iterator
from typing import Any

from .. import aio_ends
from ..both import ASYNCIO, BOTH, THREADS, Driver, OverThreads
from ..interop_service import INITIAL, TRAILING, aio_servicer, messages, outputs, servicer, services
from ..records import PATIENCE_S, Record, Way, attempt, taken
from ..registry import each

MESSAGES = {
    "plain": "test status message",
    "special": "\t\ntest with whitespace\r\nand Unicode BMP ☺ and non-BMP 😈\t\n",
}
ONE = {THREADS: Way("unary_unary", "with_call"), ASYNCIO: Way("unary_unary", "await")}


async def _serve(ends: Driver) -> tuple[Any, Any]:
    """Serve the test service; return the server and a channel to it."""
    server, address = ends.server(), ends.address()
    service = servicer() if ends.driver == THREADS else aio_servicer()
    services().add_TestServiceServicer_to_server(service, server)
    server.add_insecure_port(address)
    await ends.begin(server)
    return server, ends.connect(address)


async def _stub(ends: Driver) -> Any:
    """Serve the test service; return its stub."""
    return services().TestServiceStub((await _serve(ends))[1])


def _sizes(seen: Record) -> Record:
    return {"sizes": [len(response.payload) for response in seen["items"]], "ended": seen["ended"]}


class _Conversation:
    """Requests of a bidirectional call, each given when the one before has been answered."""

    def __init__(self, ends: Driver, method: Any, **options: Any) -> None:
        self._ends = ends
        self._said = threading.Semaphore(0)
        self._requests: list[Any] = []
        self.call = method(self._ask(), **options) if ends.driver == THREADS else method(**options)

    def _ask(self) -> Iterator[Any]:
        for number in itertools.count():
            if not self._said.acquire(timeout=PATIENCE_S) or number == len(self._requests):
                return
            yield self._requests[number]

    async def say(self, request: Any) -> None:
        """Send a request."""
        if self._ends.driver == ASYNCIO:
            await self.call.write(request)
        self._requests.append(request)
        self._said.release()

    async def hear(self, at_most: int = 1_000_000) -> Record:
        """Return the next responses."""
        if self._ends.driver == ASYNCIO:
            return await aio_ends.read(self.call, at_most)
        return taken(self.call, at_most)

    async def close(self) -> Record:
        """End the requests; return the rest of the responses."""
        if self._ends.driver == ASYNCIO:
            await aio_ends.attempt(self.call.done_writing())
        self.stop()
        return _sizes(await self.hear())

    def stop(self) -> None:
        """Say no more."""
        self._said.release()


@each(BOTH)
async def empty_unary(ends: Driver) -> Record:
    return await ends.invoke(ONE[ends.driver], (await _stub(ends)).EmptyCall, messages().Empty())


@each(BOTH)
async def large_unary(ends: Driver) -> Record:
    request = messages().SimpleRequest(response_size=314_159, payload=bytes(271_828))
    return {"size": len((await ends.attempt((await _stub(ends)).UnaryCall, request))["value"].payload)}


@each(BOTH)
async def client_streaming(ends: Driver) -> Record:
    request = messages().StreamingInputCallRequest
    requests = (request(payload=bytes(size)) for size in (27_182, 8, 1_828, 45_904))
    return await ends.attempt((await _stub(ends)).StreamingInputCall, requests)


@each(BOTH)
async def server_streaming(ends: Driver) -> Record:
    return _sizes(await ends.taken((await _stub(ends)).StreamingOutputCall, outputs(31_415, 9, 2_653, 58_979)))


@each(BOTH)
async def ping_pong(ends: Driver) -> Record:
    conversation = _Conversation(ends, (await _stub(ends)).FullDuplexCall)
    seen = []
    for request, response in ((27_182, 31_415), (8, 9), (1_828, 2_653), (45_904, 58_979)):
        await conversation.say(outputs(response, payload=request))
        seen.append(_sizes(await conversation.hear(1)))
    return {"seen": seen, "rest": await conversation.close()}


@each((THREADS,))
async def half_duplex(ends: Driver) -> Record:
    requests = (outputs(response) for response in (31_415, 9, 2_653, 58_979))
    return _sizes(await ends.taken((await _stub(ends)).HalfDuplexCall, requests))


@each(BOTH)
async def empty_stream(ends: Driver) -> Record:
    return await ends.taken((await _stub(ends)).FullDuplexCall, iter(()))


@each(BOTH)
async def cancel_after_begin(ends: Driver) -> Record:
    method = (await _stub(ends)).StreamingInputCall
    conversation = _Conversation(ends, method if ends.driver == ASYNCIO else method.future)
    seen: Record = {"cancel": conversation.call.cancel(), **await ends.ended(conversation.call)}
    conversation.stop()
    return seen


@each(BOTH)
async def cancel_after_first_response(ends: Driver) -> Record:
    conversation = _Conversation(ends, (await _stub(ends)).FullDuplexCall)
    await conversation.say(outputs(31_415, payload=27_182))
    seen: Record = {"first": _sizes(await conversation.hear(1)), "cancel": conversation.call.cancel()}
    return {**seen, "rest": await conversation.close(), "code": await ends.code(conversation.call)}


@each(BOTH)
async def timeout_on_sleeping_server(ends: Driver) -> Record:
    stub = await _stub(ends)
    await ends.attempt(stub.EmptyCall, messages().Empty())
    conversation = _Conversation(ends, stub.FullDuplexCall, timeout=0.001)
    seen = _sizes(await conversation.hear())
    conversation.stop()
    return seen


@each(BOTH)
async def custom_metadata(ends: Driver) -> Record:
    stub, sent = await _stub(ends), {"metadata": (INITIAL, TRAILING)}
    request = messages().SimpleRequest(response_size=10, payload=bytes(10))
    unary = await ends.invoke(ONE[ends.driver], stub.UnaryCall, request, **sent)
    duplex = stub.FullDuplexCall(iter((outputs(10),)), **sent)
    early = await ends.initial(duplex)
    return {"unary": unary, "early": early, **await ends.finish(Way("stream_stream", "iterate"), duplex)}


@each(BOTH, message=MESSAGES.keys())
async def status_code_and_message(ends: Driver, message: str) -> Record:
    pb, stub = messages(), await _stub(ends)
    wanted = pb.EchoStatus(code=2, message=MESSAGES[message])
    unary = await ends.attempt(stub.UnaryCall, pb.SimpleRequest(response_size=1, response_status=wanted))
    duplex = await ends.taken(stub.FullDuplexCall, iter((pb.StreamingOutputCallRequest(response_status=wanted),)))
    return {"unary": unary, "duplex": duplex}


@each(BOTH)
async def unimplemented_method(ends: Driver) -> Record:
    return await ends.attempt((await _stub(ends)).UnimplementedCall, messages().Empty(), timeout=PATIENCE_S)


@each(BOTH)
async def unimplemented_service(ends: Driver) -> Record:
    stub = services().UnimplementedServiceStub((await _serve(ends))[1])
    return await ends.attempt(stub.UnimplementedCall, messages().Empty())


@each((THREADS,))
async def a_request_that_is_no_message_at_all(ends: OverThreads) -> Record:
    return attempt((await _stub(ends)).UnaryCall, "text", timeout=PATIENCE_S)

"""What the client sends: iterators that fail, wait, never end or are none, and requests that are no messages."""

import itertools
import threading
from collections.abc import Iterator
from typing import Any

import grpc

from ..both import ASYNCIO, BOTH, THREADS, WAYS, Driver, Read, echo, ways_of
from ..ends import Ends, method_handler, path
from ..records import PATIENCE_S, Diary, Record, Way, attempt, taken
from ..registry import case, each
from .transport import said

STREAMS = {
    driver: [way for way in ways if way.arity.startswith("stream") and "write" not in way.style]
    for driver, ways in WAYS.items()
}
UNARY = ways_of("unary_unary", "unary_stream")


def _joined(requests: Iterator[bytes], context: Any) -> bytes:
    return b"+".join(requests)


def _echoes(requests: Iterator[bytes], context: Any) -> Iterator[bytes]:
    yield from requests


def _without_items(seen: Record) -> Record:
    """How many responses came before the call broke is a race."""
    seen.get("taken", {}).pop("items", None)
    return seen


@each(BOTH, way=STREAMS, items=(0, 1))
async def the_iterator_raises(ends: Driver, way: Way, items: int) -> Record:
    def requests() -> Iterator[bytes]:
        yield from (b"one",) * items
        raise RuntimeError("no more ideas")

    method = await ends.method(way.arity, ends.behaviour(way.arity, echo, b"first"))
    return _without_items(await ends.invoke(way, method, requests(), timeout=PATIENCE_S))


@each(BOTH, way=STREAMS)
async def the_serializer_fails_midway(ends: Driver, way: Way) -> Record:
    def serialize(request: bytes) -> bytes:
        if request == b"two":
            raise ValueError("not two")
        return request

    served = await ends.serve({"Method": method_handler(way.arity, ends.behaviour(way.arity, echo, b"first"))})
    method = getattr(ends.connect(served.target), way.arity)(path(), request_serializer=serialize)
    return _without_items(await ends.invoke(way, method, timeout=PATIENCE_S))


@each((THREADS,), value=([b"one", b"two"], None, 5), way=STREAMS)
async def the_argument_is_no_iterator(ends: Driver, value: Any, way: Way) -> Record:
    method = await ends.method(way.arity, ends.behaviour(way.arity, echo))
    return await ends.invoke(way, method, value, timeout=2)


@each((THREADS,), value=("text", None, 5, bytearray(b"bytes"), "a memoryview"), way=UNARY)
async def a_unary_request_is_no_bytes(ends: Driver, value: Any, way: Way) -> Record:
    value = memoryview(b"bytes") if value == "a memoryview" else value
    method = await ends.method(way.arity, ends.behaviour(way.arity, echo))
    return await ends.invoke(way, method, value, timeout=PATIENCE_S)


@case
def the_iterator_is_slow(ends: Ends) -> Record:
    gate = ends.gate()
    call = ends.stream_stream(_echoes)(itertools.chain(said(b"one", until=gate), (b"two",)))
    first = next(call)
    gate.set()
    return {"first": first, "rest": taken(call)}


@each(arity=("stream_unary", "stream_stream"))
def the_iterator_never_ends_and_the_handler_does(ends: Ends, arity: str) -> Record:
    def three(requests: Iterator[bytes], context: Any) -> Any:
        return _joined(itertools.islice(requests, 3), context)

    def stream(requests: Iterator[bytes], context: Any) -> Iterator[bytes]:
        yield from itertools.islice(requests, 3)

    numbers = (str(number).encode() for number in itertools.count())
    if arity == "stream_stream":
        return taken(ends.stream_stream(stream)(numbers, timeout=PATIENCE_S))
    return attempt(ends.stream_unary(three).with_call, numbers, timeout=PATIENCE_S)


@case
def the_iterator_blocks_and_the_handler_answers(ends: Ends) -> Record:
    method = ends.stream_unary(lambda requests, context: next(requests))
    return attempt(method.with_call, said(b"one", until=ends.gate()), timeout=PATIENCE_S)


@each(ending=("cancellation", "deadline"))
def the_iterator_blocks_and_the_call_ends(ends: Ends, ending: str) -> Record:
    there = Diary()

    def behaviour(requests: Iterator[bytes], context: Any) -> bytes:
        there.note(next(requests))
        for _ in range(2):
            there.note("item" if "value" in attempt(next, requests) else "end")  # how it ends is a race in gRPC
        return b"response"

    timeout = PATIENCE_S if ending == "cancellation" else 1
    future = ends.stream_unary(behaviour).future(said(b"one", until=ends.gate()), timeout=timeout)
    there.after(1)
    if ending == "deadline":  # the handler may answer before the caller's clock is looked at
        return {"handler": there.after(3)}
    return {"cancel": future.cancel(), "result": attempt(future.result), "handler": there.after(3)}


@each(BOTH)
async def nothing_is_sent(ends: Driver) -> Record:
    methods = {
        arity: await ends.method(arity, ends.behaviour(arity, echo)) for arity in ("stream_unary", "stream_stream")
    }
    return {
        "unary": await ends.attempt(methods["stream_unary"], iter(())),
        "stream": await ends.taken(methods["stream_stream"], iter(())),
    }


@case
def the_iterator_is_read_while_the_handler_is_busy(ends: Ends) -> Record:
    """Requests flow without the handler asking: the client's iterator is not held back by it for a few items."""
    gate, all_read = ends.gate(), threading.Event()

    def requests() -> Iterator[bytes]:
        yield from (b"one", b"two", b"three")
        all_read.set()

    def behaviour(requests: Iterator[bytes], context: Any) -> bytes:
        gate.wait(PATIENCE_S)
        return b"+".join(requests)

    future = ends.stream_unary(behaviour).future(requests())
    seen = {"all read": all_read.wait(1)}
    gate.set()
    return {**seen, "result": attempt(future.result, timeout=PATIENCE_S)}


PATHS: dict[str, Any] = {
    "text": path(),
    "bytes": path().encode(),
    "no slash": path().lstrip("/"),
    "unknown service": "/nobody.Service/Method",
    "only a service": "/differential.Service",
}


@each(name=PATHS.keys())
def the_path_is(ends: Ends, name: str) -> Record:
    served = ends.serve({"Method": method_handler("unary_unary", lambda request, context: request)})
    return attempt(lambda: ends.connect(served.target).unary_unary(PATHS[name])(b"request", timeout=PATIENCE_S))


@each(BOTH, timeout={THREADS: ("1", 1e9), ASYNCIO: ("1", -1)})
async def the_timeout_is(ends: Driver, timeout: Any) -> Record:
    method = await ends.method("unary_unary", ends.behaviour("unary_unary", echo))
    return await ends.attempt(method, b"request", timeout=timeout)


@each(BOTH, compression=tuple(grpc.Compression))
async def compression_changes_nothing_to_see(ends: Driver, compression: Any) -> Record:
    async def answer(read: Read, context: Any) -> bytes:
        context.set_compression(compression)
        context.disable_next_message_compression()
        return await read()

    method = await ends.method("unary_unary", ends.behaviour("unary_unary", answer), compression=compression)
    return await ends.attempt(method, b"x" * 5_000, compression=compression)


@each(BOTH)
async def credentials_need_a_secure_channel(ends: Driver) -> Record:
    method = await ends.method("unary_unary", ends.behaviour("unary_unary", echo))
    given = grpc.access_token_call_credentials("token")
    return await ends.attempt(method, b"request", credentials=given, timeout=PATIENCE_S)


@each(value=("response", None))
def a_deserializer_gives(ends: Ends, value: str | None) -> Record:
    handler = method_handler("unary_unary", lambda request, context: request)
    channel = ends.connect(ends.serve({"Method": handler}).target)
    return attempt(channel.unary_unary(path(), response_deserializer=lambda _: value), b"request")

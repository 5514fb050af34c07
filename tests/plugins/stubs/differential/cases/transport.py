"""What a transport owes its streams: cases of the model suite that gRPC's Java transports share.

Named there: earlyServerClose_*, clientCancelFromWithinMessageRead, flowControlPushBack,
flowControlDoesNotDeadlockLargeMessage. Its others are in `outcomes`, `statuses`, `contexts`, `concurrency`, `requests`,
`servers` and `channels`.
"""

import itertools
import threading
import time
from collections.abc import Iterator
from typing import Any

import grpc

from ..both import BOTH, Driver, ways_of
from ..ends import Ends, method_handler, path
from ..records import PATIENCE_S, Diary, Record, Way, attempt, state, status, taken
from ..registry import case, each


def said(*requests: bytes, until: threading.Event | None = None) -> Iterator[bytes]:
    """Give these requests, and stay open until the event."""
    yield from requests
    if until is not None:
        until.wait(PATIENCE_S)


@each(headers=(False, True), code=("OK", "ABORTED"))
def early_server_close(ends: Ends, headers: bool, code: str) -> Record:
    """The server ends while the client would still send."""
    gate = ends.gate()

    def behaviour(requests: Iterator[bytes], context: Any) -> Iterator[bytes]:
        if headers:
            context.send_initial_metadata((("server", "was here"),))
        context.set_trailing_metadata((("last", "word"),))
        context.set_code(grpc.StatusCode[code])
        context.set_details("early")
        return iter(())

    call = ends.stream_stream(behaviour)(said(b"one", until=gate))
    return {"taken": taken(call), **status(call), "cancel": call.cancel(), **state(call)}


@case
def client_cancel_from_within_message_read(ends: Ends) -> Record:
    """The response's deserializer cancels the call that it reads for."""
    calls: list[Any] = []
    known = threading.Event()

    def deserialize(response: bytes) -> bytes:
        if response == b"1":
            known.wait(PATIENCE_S)
            calls[0].cancel()
        return response

    handler = method_handler("unary_stream", lambda request, context: (str(n).encode() for n in itertools.count()))
    channel = ends.connect(ends.serve({"Method": handler}).target)
    calls.append(channel.unary_stream(path(), response_deserializer=deserialize)(b"request"))
    known.set()
    ended = taken(calls[0])["ended"]
    return {"ended": ended, **status(calls[0])}


LARGE = 1024 * 1024
STREAMS = ways_of("unary_stream")


@each(BOTH, way=STREAMS)
async def pushes_back_the_server(ends: Driver, way: Way) -> Record:
    """A reader that does not read holds the sender back: a large message waits for the reader of the one before."""
    sent: list[int] = []

    def blocks(request: bytes) -> Iterator[bytes]:
        for number in range(64):
            sent.append(number)
            yield b"x" * LARGE

    call = ends.start(way, await ends.method(way.arity, ends.flow(way.arity, blocks)))
    first = await ends.first(way, call)
    await ends.aside(time.sleep, 0.2)
    held_back = len(sent) < 64
    seen = await ends.result(way, call)
    sizes = [len(item) for item in (*first["items"], *seen["items"])]
    return {"sizes": sizes, "held back": held_back, "ended": seen["ended"], "sent": len(sent)}


@case
def pushes_back_the_client(ends: Ends) -> Record:
    gate, sent = ends.gate(), Diary()

    def requests() -> Iterator[bytes]:
        for number in range(64):
            sent.note(number)
            yield b"x" * LARGE

    def behaviour(requests: Iterator[bytes], context: Any) -> bytes:
        gate.wait(PATIENCE_S)
        return str(sum(len(request) for request in requests)).encode()

    future = ends.stream_unary(behaviour).future(requests())
    sent.after(1)
    threading.Event().wait(0.2)
    held_back = len(sent.after(0)) < 64
    gate.set()
    return {"held back": held_back, "result": attempt(future.result, PATIENCE_S), "sent": len(sent.after(64))}


@case
def does_not_deadlock_large_messages(ends: Ends) -> Record:
    """Both sides send what fits no window, at the same time, and each reads only between its own."""
    message = b"x" * (3 * LARGE)

    def behaviour(requests: Iterator[bytes], context: Any) -> Iterator[bytes]:
        for request in requests:
            yield message
            yield str(len(request)).encode()

    call = ends.stream_stream(behaviour)(iter((message, message, message)), timeout=3 * PATIENCE_S)
    return {"sizes": [len(item) if len(item) > 100 else item for item in call]}


@case
def an_abandoned_call_frees_the_way(ends: Ends) -> Record:
    """Streams that were cancelled with much unread leave room for what follows."""
    method = ends.unary_stream(lambda request, context: iter(lambda: b"x" * 10_000, None), workers=4)
    for _ in range(30):
        call = method(b"request")
        next(call)
        call.cancel()
    last = method(b"request")
    seen = {"last": len(next(last))}
    last.cancel()
    return seen

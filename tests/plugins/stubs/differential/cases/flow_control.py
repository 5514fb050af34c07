"""Flow control: who does not read holds the sender back, and nobody else.

Of the model suite that gRPC's Java transports share: flowControlPushBack, flowControlDoesNotDeadlockLargeMessage.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

from ..ends import Ends
from ..records import PATIENCE_S, Diary, Record, attempt
from ..registry import case

LARGE = 1024 * 1024


@case
def pushes_back_the_server(ends: Ends) -> Record:
    """A reader that does not read holds the sender back: a large message waits for the reader of the one before."""
    sent = Diary()

    def behaviour(request: bytes, context: Any) -> Iterator[bytes]:
        for number in range(64):
            sent.note(number)
            yield b"x" * LARGE

    call = ends.unary_stream(behaviour)(b"request")
    first = len(next(call))
    threading.Event().wait(0.2)
    held_back = len(sent.after(0)) < 64
    return {
        "first": first,
        "held back": held_back,
        "rest": sum(len(item) for item in call),
        "sent": len(sent.after(64)),
    }


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
def a_large_and_a_small_message_keep_their_order(ends: Ends) -> Record:
    sizes = [LARGE, 1, 0, 3 * LARGE, 10]
    call = ends.unary_stream(lambda request, context: (b"x" * size for size in sizes))(b"request")
    return {"sizes": [len(item) for item in call]}


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

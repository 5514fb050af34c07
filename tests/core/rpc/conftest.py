"""A pair of ends with the handlers that the tests of calls use."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest

from lucky_transport.errors import EngineFailed, StatusError
from lucky_transport.rpc.server_call import ServerCall
from tests.support.memory_pipe import CallPair
from tests.support.waiting import PATIENCE_S


def echo(call: ServerCall) -> None:
    """Answer with what came; item by item where the caller streams."""
    if not call.shape:
        call.finish(call.payload)
        return
    while (item := call.recv()) is not None:
        call.send(item)
    call.finish()


def count(call: ServerCall) -> None:
    """Send the numbers up to the one that was asked for."""
    for number in range(int(call.payload)):
        call.send(b"%d" % number)
    call.finish(trailing=(("sent", call.payload.decode()),))


def hang(call: ServerCall) -> None:
    """Answer nothing until the caller gives up."""
    call.call.wait(PATIENCE_S)


def endless(call: ServerCall) -> None:
    """Send items until the caller has enough."""
    while True:
        call.send(b"more")


def fail(call: ServerCall) -> None:
    raise EngineFailed("the engine's own words: ünïcode \udc80")


def headers(call: ServerCall) -> None:
    """Answer with the metadata that came."""
    call.finish(repr(call.call.metadata).encode())


def status(call: ServerCall) -> None:
    """Send metadata, an item where items are streamed, and then fail with a status of another protocol."""
    call.send_headers((("where", "here"), ("raw-bin", b"\x00\xff")))
    if call.shape:
        call.send(b"item")
    call.fail(StatusError(5, "nöthing there", (("why", "gone"), ("why", "twice"))))


HANDLERS = {f"/t/{handler.__name__}": handler for handler in (echo, count, hang, endless, fail, headers, status)}


OpenPair = Callable[..., CallPair]


@pytest.fixture
def open_pair() -> Iterator[OpenPair]:
    """Return a function that makes pairs; they are closed after the test."""
    with ExitStack() as opened:
        yield lambda **options: opened.enter_context(CallPair(HANDLERS, **options))


@pytest.fixture
def pair(open_pair: OpenPair) -> CallPair:
    return open_pair()

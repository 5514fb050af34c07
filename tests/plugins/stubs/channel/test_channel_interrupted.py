"""A signal handler that raises at any moment of a call's beginning or end, or of a channel's, leaves nothing open."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.plugins.stubs.channel.conftest import Service, Stub
from tests.support.interrupted_moments import interrupted_at
from tests.support.resources import connections_of
from tests.support.waiting import PATIENCE_S, until


def test_an_interrupted_cancel_is_made_by_the_next_one(stub: Stub, service: Service) -> None:
    for moment in itertools.count():
        service.over.clear()
        done: list[Any] = []
        call = stub.linger(b"item")
        call.add_done_callback(done.append)
        assert next(call) == b"item"
        is_interrupted = interrupted_at(moment, call.cancel)
        call.cancel()
        assert service.over.wait(PATIENCE_S)
        until(lambda done=done: done)
        if not is_interrupted:
            break


def test_a_call_that_is_interrupted_while_it_begins_is_not_under_way(stub: Stub) -> None:
    is_checked = threading.Event()
    calls: list[Any] = []

    def requests() -> Iterator[bytes]:
        yield b"first"
        is_checked.wait(PATIENCE_S)

    stub.echo(b"")
    for moment in itertools.count():
        is_interrupted = interrupted_at(moment, lambda: calls.append(stub.relay(requests())))
        while calls:
            calls.pop().cancel()
        if not is_interrupted:
            break
    connection = stub.channel._link.calls
    until(lambda: connection.pump() or not connection.open_calls)
    is_checked.set()


@pytest.mark.filterwarnings(
    "ignore:unclosed <socket"
)  # where a use's end was interrupted, the pipe's finalizer does it
def test_an_interrupted_close_is_made_by_the_next_one(
    serve: Callable[[], Any], connect: Callable[..., Any], name: str
) -> None:
    serve()
    before = len(connections_of(name))
    for moment in itertools.count():
        channel = connect()
        Stub(channel).echo(b"")
        is_interrupted = interrupted_at(moment, channel.close)
        channel.close()
        until(lambda: len(connections_of(name)) == before)
        if not is_interrupted:
            break

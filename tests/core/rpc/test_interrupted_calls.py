"""A signal handler that raises at any moment of what a caller does leaves no call half begun or half ended."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest

from lucky_transport.codec.envelope import Kind, encode_compact
from lucky_transport.errors import Cancelled, ClosedError, LocalProtocolError, RemoteProtocolError
from lucky_transport.messages.method import Flow
from lucky_transport.messages.methods import method
from lucky_transport.rpc import typed
from lucky_transport.rpc.client_call import ClientCall
from lucky_transport.rpc.flow_control import LATEST
from lucky_transport.rpc.lifecycle import Shape
from tests.core.rpc.conftest import hang
from tests.support.interrupted_moments import Interrupted, interrupted_at
from tests.support.memory_pipe import CallPair
from tests.support.waiting import soon, until

BEAMS = method("LidarService/GetLidarBeamCount")
#: More than a window has at first.
LONG = bytes(70_000)


def read_to_the_end(call: ClientCall) -> None:
    with suppress(Cancelled):
        while call.recv(soon()) is not None:
            pass


def nothing_is_left(pair: CallPair) -> None:
    """No call is under way, at either end, and another one is answered."""
    assert pair.client.unary("/t/echo", b"ping", soon()) == b"ping"
    until(lambda: not pair.server.open_calls)
    until(lambda: pair.client.pump() or not pair.client.open_calls)
    assert pair.client.send_queue.pending_bytes == 0
    assert pair.fault is None


def test_an_interrupted_cancel_is_made_by_the_next_one(pair: CallPair) -> None:
    for moment in itertools.count():
        call = pair.client.open("/t/endless")
        call.recv(soon())
        if not interrupted_at(moment, call.cancel):
            break
        call.cancel()
        with pytest.raises(Cancelled):
            call.recv(soon())
    nothing_is_left(pair)


def test_an_interrupted_half_close_can_be_repeated_or_has_ended_the_call(pair: CallPair) -> None:
    for moment in itertools.count():
        call = pair.client.open("/t/echo", shape=Shape.BIDIRECTIONAL)
        if not interrupted_at(moment, call.half_close):
            read_to_the_end(call)
            break
        with suppress(LocalProtocolError, Cancelled):
            call.half_close()
        read_to_the_end(call)
    nothing_is_left(pair)


@pytest.mark.parametrize("item", [b"short", LONG], ids=len)
def test_an_item_that_an_interrupt_lost_takes_no_credit(item: bytes, pair: CallPair) -> None:
    for moment in itertools.count():
        call = pair.client.open("/t/echo", shape=Shape.BIDIRECTIONAL)
        is_interrupted = interrupted_at(moment, lambda call=call: call.send(item))
        with suppress(Cancelled):
            call.send(b"another", soon())
            call.half_close()
        read_to_the_end(call)
        if not is_interrupted:
            break
    nothing_is_left(pair)


def test_an_item_whose_grant_is_interrupted_counts_once(pair: CallPair, monkeypatch: pytest.MonkeyPatch) -> None:
    call = pair.client.open("/t/endless", flow=Flow.LATEST)
    until(lambda: pair.client.pump() or call.has_news())

    def strike(*_: Any) -> None:
        raise Interrupted

    with monkeypatch.context() as patched:
        patched.setattr(pair.client, "post", strike)
        for _ in range(5):
            with pytest.raises(Interrupted):
                call.recv()
    call.recv(soon())
    until(lambda: pair.begun[0]._send_window.granted_items > LATEST.items)  # pyright: ignore[reportPrivateUsage]
    assert pair.begun[0]._send_window.granted_items == LATEST.items + 1  # pyright: ignore[reportPrivateUsage]


def test_a_call_that_is_interrupted_while_it_begins_is_not_under_way(
    open_pair: Callable[..., CallPair], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(open_pair.__globals__["HANDLERS"], BEAMS.name, hang)
    pair = open_pair()
    futures: list[Any] = []

    def begin() -> None:
        futures.append(typed.begin(pair.client, BEAMS, BEAMS.request(sensor=1), soon()))

    for moment in itertools.count():
        is_interrupted = interrupted_at(moment, begin)
        while futures:
            futures.pop().cancel()
        if not is_interrupted:
            break
    nothing_is_left(pair)


def test_an_interrupted_close_is_made_by_the_next_one(open_pair: Callable[..., CallPair]) -> None:
    is_interrupted, moment = True, -1
    while is_interrupted:
        moment += 1
        pair, reasons = open_pair(), []
        call = pair.client.open("/t/endless")
        pair.client.on_break = reasons.append
        is_interrupted = interrupted_at(moment, pair.client.close)
        pair.client.close()
        with pytest.raises(ClosedError):
            call.recv(soon())
        assert reasons
        until(lambda pair=pair: not pair.server.open_calls)
        pair.close()


def test_a_broken_engine_ends_the_calls_though_that_is_interrupted(open_pair: Callable[..., CallPair]) -> None:
    is_interrupted, moment = True, -1
    while is_interrupted:
        moment += 1
        pair = open_pair()
        call = pair.client.open("/t/hang", shape=Shape.UNARY)
        pair.server_pipe.try_push(encode_compact(Kind.STREAM_ITEM, call.correlation_id, b"of no stream"))
        try:
            is_interrupted = interrupted_at(moment, lambda call=call: call.recv(soon()))
        except RemoteProtocolError:
            is_interrupted = moment == 0
        with pytest.raises(RemoteProtocolError):
            call.recv(soon())

"""Calls that no thread waits for, and calls that a signal handler interrupts at any moment: none is half ended."""

import itertools
import threading
import time
from contextlib import suppress
from typing import Any

import pytest

from lucky_transport.deadline import Deadline
from lucky_transport.errors import (
    Cancelled,
    ClosedError,
    LocalProtocolError,
    PeerTimeout,
    RemoteProtocolError,
    StatusError,
)
from lucky_transport.messages.methods import Flow, method
from lucky_transport.rpc import typed
from lucky_transport.rpc.client_call import ClientCall
from lucky_transport.rpc.flow_control import LATEST
from lucky_transport.rpc.lifecycle import Shape
from tests.core.rpc.conftest import OpenPair, hang
from tests.support.interrupted_moments import Interrupted, interrupted_at, interrupted_start
from tests.support.memory_pipe import CallPair
from tests.support.resources import threads_of
from tests.support.waiting import PATIENCE_S, soon, until

HEADERS = (("where", "here"), ("raw-bin", b"\x00\xff"))
TRAILING = (("why", "gone"), ("why", "twice"))


def ended(pair: CallPair, call: ClientCall) -> threading.Event:
    over = threading.Event()
    pair.client.on_end(call, over.set)
    return over


# --- headers, status and trailing metadata ---


def test_a_foreign_status_comes_with_its_headers_and_trailing_metadata(pair: CallPair) -> None:
    answer = pair.client.exchange("/t/status", b"", soon())
    assert (answer.headers, answer.trailing) == (HEADERS, TRAILING)
    assert isinstance(answer.error, StatusError)
    assert (answer.error.code, answer.error.details, answer.error.trailing) == (5, "nöthing there", TRAILING)
    with pytest.raises(StatusError, match=r"^nöthing there$") as caught:
        pair.client.unary("/t/status", b"", soon())
    assert (caught.value.code, caught.value.trailing) == (5, TRAILING)


def test_headers_of_a_stream_are_there_before_its_first_item(pair: CallPair) -> None:
    call = pair.client.open("/t/status", shape=Shape.SERVER_STREAM)
    call.wait_headers()
    assert call.headers == HEADERS
    assert call.recv(soon()) == b"item"
    with pytest.raises(StatusError):
        call.recv(soon())
    assert call.trailing == TRAILING


@pytest.mark.parametrize("path", ["/t/count", "/t/fail", "/t/nothing"])
def test_a_call_without_headers_has_empty_ones_once_something_came(pair: CallPair, path: str) -> None:
    call = pair.client.open(path, b"1", shape=Shape.SERVER_STREAM)
    call.wait_headers()
    assert call.headers == ()


def test_waiting_for_headers_ends_with_the_call(pair: CallPair) -> None:
    call = pair.client.open("/t/hang", shape=Shape.SERVER_STREAM, deadline=Deadline(0.05))
    call.wait_headers()
    assert isinstance(call.error, PeerTimeout)


# --- the caller, without waiting ---


def test_a_call_can_be_made_without_ever_waiting(pair: CallPair) -> None:
    pair.pause()
    time.sleep(0.05)  # longer than one slice of the feeding thread
    call = pair.client.open("/t/echo", shape=Shape.BIDIRECTIONAL, may_wait=False)
    news = threading.Event()
    call.on_change = news.set
    over = ended(pair, call)
    assert not call.try_send(b"too early: nothing is granted yet")
    assert call.try_recv() is None
    pair.go_on()
    until(lambda: call.try_send(b"one"))
    until(lambda: call.try_recv() == b"one")
    assert news.is_set()
    call.half_close()
    assert over.wait(PATIENCE_S)
    assert call.error is None


def test_news_come_with_headers_item_and_end(pair: CallPair) -> None:
    seen: list[tuple[bool, int, bool]] = []
    call = pair.client.open("/t/status", shape=Shape.SERVER_STREAM)
    call.on_change = lambda: seen.append((call.headers is not None, len(call._inbox), call.is_ended()))  # pyright: ignore[reportPrivateUsage]
    assert call.wait_end(soon())
    assert seen[-1] == (True, 1, True)


def test_waiting_for_the_end_stops_at_its_own_deadline(pair: CallPair) -> None:
    with pair.client.open("/t/hang", shape=Shape.SERVER_STREAM) as call:
        assert not call.wait_end(Deadline(0.02))
        assert not call.is_ended()


# --- the engine, without waiting ---


def test_the_engine_can_answer_a_stream_without_ever_waiting(pair: CallPair) -> None:
    hung = pair.client.open("/t/hang", shape=Shape.BIDIRECTIONAL)
    until(lambda: pair.begun)
    theirs, news = pair.begun[0], threading.Event()
    theirs.on_change = news.set
    assert theirs.try_recv() is None
    hung.send(b"question", soon())
    until(lambda: news.is_set() and theirs.try_recv() == b"question")
    assert theirs.try_send(b"answer")
    assert hung.recv(soon()) == b"answer"
    assert not theirs.half_closed
    hung.half_close()
    until(lambda: theirs.half_closed)
    while theirs.try_send(bytes(60_000)):
        pass
    news.clear()
    assert hung.recv(soon()) == bytes(60_000)
    hung.cancel()
    until(lambda: theirs.is_ended)
    assert news.is_set()


# --- the completion thread ---


def test_a_call_ends_though_no_thread_waits_and_keeps_no_program_alive(pair: CallPair) -> None:
    calls = [pair.client.open("/t/echo", b"%d" % number, shape=Shape.UNARY) for number in range(20)]
    ends = [ended(pair, call) for call in calls]
    assert all(over.wait(PATIENCE_S) for over in ends)
    assert [call.try_recv() for call in calls] == [b"%d" % number for number in range(20)]
    assert {thread.daemon for thread in threads_of("call completion")} == {True}


def test_the_deadline_of_such_a_call_is_kept(pair: CallPair) -> None:
    late = pair.client.open("/t/hang", shape=Shape.UNARY, deadline=Deadline(PATIENCE_S))
    soon_over = pair.client.open("/t/hang", shape=Shape.UNARY, deadline=Deadline(0.05))
    still = ended(pair, late)
    assert ended(pair, soon_over).wait(PATIENCE_S)
    assert isinstance(soon_over.error, PeerTimeout)
    assert not still.is_set()
    late.cancel()
    assert still.wait(PATIENCE_S)
    assert isinstance(late.error, Cancelled)


def test_what_is_done_at_the_end_may_make_calls_itself(pair: CallPair) -> None:
    answers: list[bytes] = []
    call = pair.client.open("/t/echo", b"x", shape=Shape.UNARY)
    pair.client.on_end(call, lambda: answers.append(pair.client.unary("/t/echo", b"again", soon())))
    until(lambda: answers == [b"again"])


def test_what_fails_at_the_end_costs_the_other_calls_nothing(pair: CallPair, caplog: pytest.LogCaptureFixture) -> None:
    pair.client.on_end(pair.client.open("/t/echo", b"1", shape=Shape.UNARY), lambda: print(1 // 0))
    assert ended(pair, pair.client.open("/t/echo", b"2", shape=Shape.UNARY)).wait(PATIENCE_S)
    until(lambda: "ZeroDivisionError" in caplog.text)


def test_the_completion_thread_and_waiting_threads_share_the_reading(pair: CallPair) -> None:
    ends: list[threading.Event] = []
    for number in range(200):
        ends.append(ended(pair, pair.client.open("/t/echo", b"a", shape=Shape.UNARY)))
        assert pair.client.unary("/t/echo", b"%d" % number, soon()) == b"%d" % number
    assert all(over.wait(PATIENCE_S) for over in ends)


def test_a_signal_handler_that_raises_while_the_thread_starts_brings_no_second_one(pair: CallPair) -> None:
    until(lambda: not threads_of("call completion"))  # those of other tests
    call = pair.client.open("/t/hang", shape=Shape.UNARY)
    with interrupted_start(Interrupted), pytest.raises(Interrupted):
        pair.client.on_end(call, lambda: None)
    until(lambda: threads_of("call completion"))
    first = ended(pair, call)
    ends = [ended(pair, pair.client.open("/t/echo", b"x", shape=Shape.UNARY)) for _ in range(20)]
    assert all(over.wait(PATIENCE_S) for over in ends)
    until(lambda: len(threads_of("call completion")) == 1)
    call.cancel()
    assert first.wait(PATIENCE_S)


def test_the_end_of_the_connection_ends_such_calls_and_is_reported_once(pair: CallPair) -> None:
    reasons: list[Exception] = []
    pair.client.on_break = reasons.append
    call = pair.client.open("/t/hang", shape=Shape.UNARY)
    over = ended(pair, call)
    pair.client.close()
    pair.client.close()
    assert over.wait(PATIENCE_S)
    assert isinstance(call.error, ClosedError)
    assert [type(reason) for reason in reasons] == [ClosedError]


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


def test_a_call_interrupted_in_its_beginning_is_not_begun(open_pair: OpenPair, monkeypatch: pytest.MonkeyPatch) -> None:
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


def test_an_interrupted_close_is_made_by_the_next_one(open_pair: OpenPair) -> None:
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


def test_a_broken_engine_ends_the_calls_though_that_is_interrupted(open_pair: OpenPair) -> None:
    is_interrupted, moment = True, -1
    while is_interrupted:
        moment += 1
        pair = open_pair()
        call = pair.client.open("/t/hang", shape=Shape.UNARY)
        pair.server_pipe.try_push(b"no envelope")
        try:
            is_interrupted = interrupted_at(moment, lambda call=call: call.recv(soon()))
        except RemoteProtocolError:
            is_interrupted = moment == 0
        with pytest.raises(RemoteProtocolError):
            call.recv(soon())

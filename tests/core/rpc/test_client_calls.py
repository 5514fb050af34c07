"""Calls over a pipe, seen from the caller: every shape and end, also where no thread waits or a handler interrupts."""

import gc
import itertools
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any
from unittest.mock import Mock

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lucky_transport.codec.envelope import Kind, encode_compact
from lucky_transport.codec.flatbuffers import encode
from lucky_transport.deadline import Deadline
from lucky_transport.errors import (
    Cancelled,
    ClosedError,
    EngineFailed,
    LocalProtocolError,
    PeerDied,
    PeerTimeout,
    RemoteProtocolError,
    SpecError,
    StatusError,
)
from lucky_transport.messages.methods import Flow, method
from lucky_transport.rpc import typed
from lucky_transport.rpc.client_call import ClientCall
from lucky_transport.rpc.flow_control import LATEST
from lucky_transport.rpc.lifecycle import Shape
from tests.core.rpc.conftest import OpenPair, echo, hang
from tests.support.interrupted_moments import Interrupted, interrupted_at, interrupted_start
from tests.support.memory_pipe import CallPair
from tests.support.resources import threads_of
from tests.support.waiting import PATIENCE_S, beside, soon, until


def rest_of(call: Any) -> list[bytes]:
    items: list[bytes] = []
    while (item := call.recv(soon())) is not None:
        items.append(item)
    return items


# --- what goes well ---


@given(sizes=st.lists(st.integers(0, 40_000), max_size=12))
def test_items_of_any_size_come_back_whole_through_a_small_ring(sizes: list[int]) -> None:
    sent = [bytes([number % 256]) * size for number, size in enumerate(sizes)]
    with CallPair({"/t/echo": echo}, capacity=4096) as pair:
        call = pair.client.open("/t/echo", shape=Shape.BIDIRECTIONAL)
        with beside(lambda: ([call.send(item) for item in sent], call.half_close())):
            assert rest_of(call) == sent
        assert pair.fault is None


def test_64_mebibytes_go_both_ways_where_the_limit_is_raised(open_pair: OpenPair) -> None:
    pair = open_pair(max_message_bytes=64 << 20)
    message = bytes(range(256)) * (64 << 12)
    assert pair.client.unary("/t/echo", message, Deadline(PATIENCE_S)) == message


def test_an_item_that_cannot_be_decoded_ends_its_stream() -> None:
    telemetry = method("TelemetryService/StreamTelemetry")

    def send(call: Any) -> None:
        call.send(b"no telemetry")
        while True:
            call.send(encode(telemetry.response()))

    with CallPair({telemetry.name: send}) as pair:
        stream = typed.stream(pair.client, telemetry, telemetry.request(), soon())
        for _ in range(3):
            with pytest.raises(RemoteProtocolError, match="bytes"):
                next(stream)
        until(lambda: pair.begun[0].call.is_over)


# --- what is refused ---


def test_an_answer_beyond_our_limit_is_refused_and_the_next_call_works(open_pair: OpenPair) -> None:
    pair = open_pair(max_message_bytes=8 << 20)
    client: Any = pair.client
    client._assemblies.limit = 1 << 20  # the two sides may be configured differently
    with pytest.raises(SpecError, match="the limit is 1048576"):
        pair.client.unary("/t/echo", bytes(2 << 20), soon())
    assert pair.client.unary("/t/echo", b"next", soon()) == b"next"


@pytest.mark.parametrize("count", [1, 2])
def test_items_for_a_unary_call_are_a_fault_of_the_peer(count: int) -> None:
    def slip(call: Any) -> None:
        for _ in range(count):
            pair.server_pipe.try_push(encode_compact(Kind.STREAM_ITEM, call.correlation_id, b"x"))

    pair = CallPair({"/t/slip": slip})
    with pair, pytest.raises(RemoteProtocolError, match="a stream item for a unary call"):
        pair.client.unary("/t/slip", b"", soon())


def test_a_handlers_error_keeps_its_class_and_text(pair: CallPair) -> None:
    with pytest.raises(EngineFailed, match=r"the engine's own words: ünïcode \?"):
        pair.client.unary("/t/fail", b"", soon())


# --- deadlines ---


def test_a_deadline_in_the_past_is_refused_before_anything_is_sent(pair: CallPair) -> None:
    past = Deadline(0)
    with pytest.raises(PeerTimeout, match="/t/echo did not end within 0"):
        pair.client.unary("/t/echo", b"", past)
    with pytest.raises(PeerTimeout):
        pair.client.open("/t/count", b"1", deadline=past)
    assert pair.client.unary("/t/echo", b"next", soon()) == b"next"
    assert len(pair.begun) == 1


def test_an_unanswered_call_ends_at_its_deadline_and_its_handler_is_told(pair: CallPair) -> None:
    with pytest.raises(PeerTimeout, match=r"within 0\.5 s; raise its timeout"):
        pair.client.unary("/t/hang", b"", Deadline(0.5))  # the handler has begun by then
    until(lambda: pair.begun[0].is_ended)
    assert pair.client.unary("/t/echo", b"next", soon()) == b"next"


# --- cancel ---


def test_cancel_reaches_a_thread_whose_records_another_one_reads(pair: CallPair) -> None:
    leading = pair.client.open("/t/hang")
    following = pair.client.open("/t/hang", shape=Shape.CLIENT_STREAM)
    with ThreadPoolExecutor(2) as pool:
        waiting = pool.submit(leading.recv)
        time.sleep(0.03)
        other = pool.submit(following.send, b"never granted")
        time.sleep(0.03)
        following.cancel()
        assert isinstance(other.exception(PATIENCE_S), Cancelled)
        assert not waiting.done()
        leading.cancel()
        assert isinstance(waiting.exception(PATIENCE_S), Cancelled)


def test_a_long_message_that_is_not_read_in_time_leaves_no_piece_behind(open_pair: OpenPair) -> None:
    pair = open_pair(capacity=8192)
    pair.client.unary("/t/echo", b"", soon())
    pair.pause()
    with pytest.raises(PeerTimeout, match="the ring is full"):
        pair.client.unary("/t/echo", bytes(100_000), Deadline(0.1))
    pair.go_on()
    assert pair.client.unary("/t/echo", b"next", soon()) == b"next"
    server: Any = pair.server
    until(lambda: not server._assemblies.parts)


def test_a_cancel_reaches_the_engine_once_a_full_pipe_has_free_space(open_pair: OpenPair) -> None:
    pair = open_pair()
    call = pair.client.open("/t/hang")
    until(lambda: pair.begun)
    pair.pause()
    other = encode_compact(Kind.CANCEL, 999, b"")  # of no call: it changes nothing
    while pair.client_pipe.wait_writable(len(other), 5 * 20_000_000):  # longer than the engine's last look
        pair.client_pipe.try_push(other)
    call.cancel()
    pair.go_on()
    until(lambda: pair.begun[0].call.is_over)


# --- the end of the connection ---


@pytest.mark.parametrize(("ending", "error"), [("death", PeerDied), ("close", ClosedError)])
def test_the_end_of_the_connection_ends_every_call_at_once(pair: CallPair, ending: str, error: type[Exception]) -> None:
    def ask(number: int) -> object:
        return pair.client.open("/t/hang").recv(soon()) if number % 2 else pair.client.unary("/t/hang", b"", soon())

    with ThreadPoolExecutor(6) as pool:
        calls = [pool.submit(ask, number) for number in range(6)]
        until(lambda: len(pair.begun) == 6)
        pair.server_pipe.die() if ending == "death" else pair.client.close()
        assert [type(call.exception(PATIENCE_S)) for call in calls] == [error] * 6
    with pytest.raises(error):
        pair.client.unary("/t/echo", b"", soon())


def test_a_request_that_finds_the_pipe_dead_ends_every_call(pair: CallPair, monkeypatch: pytest.MonkeyPatch) -> None:
    hanging = pair.client.open("/t/hang")
    for push in ("push", "try_push"):
        monkeypatch.setattr(pair.client_pipe, push, Mock(side_effect=PeerDied("the engine is gone")))
    with pytest.raises(PeerDied, match="the engine is gone"):
        pair.client.unary("/t/echo", b"", soon())
    with pytest.raises(PeerDied, match="the engine is gone"):
        hanging.recv(soon())


def test_a_call_that_begins_as_the_connection_ends_ends_too(pair: CallPair, monkeypatch: pytest.MonkeyPatch) -> None:
    found: list[type[Exception]] = []
    close = pair.client_pipe.close

    def call_and_close() -> None:
        if not found:
            with pytest.raises(ClosedError) as caught:
                pair.client.unary("/t/hang", b"", soon())
            found.append(caught.type)
        close()

    monkeypatch.setattr(pair.client_pipe, "close", call_and_close)
    pair.client.close()
    assert found == [ClosedError]


def test_items_that_came_before_the_death_are_handed_out(pair: CallPair) -> None:
    call = pair.client.open("/t/count", b"3")
    until(lambda: pair.begun and pair.begun[0].is_ended)
    pair.server_pipe.die()
    assert rest_of(call) == [b"0", b"1", b"2"]


@pytest.mark.parametrize("garbage", [b"\0" * 40, b"\xff" * 100, b"x"])
def test_an_engine_that_writes_garbage_ends_the_connection_with_a_typed_error(pair: CallPair, garbage: bytes) -> None:
    pair.server_pipe.try_push(garbage)
    with pytest.raises(RemoteProtocolError):
        pair.client.unary("/t/hang", b"", soon())
    with pytest.raises(RemoteProtocolError):
        pair.client.unary("/t/echo", b"", soon())


# --- many threads ---


def test_a_caller_dropped_by_the_garbage_collector_in_the_middle_of_a_call_locks_nothing(pair: CallPair) -> None:
    """Finalizers run anywhere, also in a thread that holds the lock which a cancel would need."""

    class Loop:
        def __init__(self, call: Any) -> None:
            self.call, self.me = call, self

        def __del__(self) -> None:
            self.call.cancel()

    Loop(pair.client.open("/t/endless"))
    send_queue: Any = pair.client.send_queue
    with send_queue._lock:
        gc.collect()
    assert pair.client.unary("/t/echo", b"after", soon()) == b"after"
    until(lambda: pair.begun[0].is_ended)


# --- calls that no thread waits for, and calls that a signal handler interrupts at any moment ---


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
    with monkeypatch.context() as patched:
        patched.setattr(pair.client, "post", Mock(side_effect=Interrupted))
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

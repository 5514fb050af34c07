"""Calls over a pipe, seen from the caller: every shape, and every way in which one can end."""

import gc
import threading
import time
from concurrent.futures import ThreadPoolExecutor
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
    PeerDied,
    PeerTimeout,
    RemoteProtocolError,
    SpecError,
)
from lucky_transport.messages.methods import method
from lucky_transport.rpc import typed
from lucky_transport.rpc.lifecycle import Shape
from tests.core.rpc.conftest import OpenPair, echo
from tests.support.memory_pipe import CallPair
from tests.support.waiting import PATIENCE_S, soon, until


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
        sender = threading.Thread(target=lambda: ([call.send(item) for item in sent], call.half_close()))
        sender.start()
        assert rest_of(call) == sent
        sender.join(PATIENCE_S)
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

"""Calls over a pipe, seen from the engine: what a client may send, what drops it, deadlines nobody waits for."""

import gc
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from lucky_transport.codec.envelope import Envelope, Kind, decode_envelope, encode_compact, encode_envelope
from lucky_transport.errors import (
    Busy,
    ClosedError,
    LocalProtocolError,
    PeerDied,
    PeerTimeout,
    RemoteProtocolError,
    SpecError,
)
from lucky_transport.rpc.lifecycle import Shape
from lucky_transport.rpc.server import MAX_CALLS, ServerCalls
from lucky_transport.rpc.server_call import ServerCall
from lucky_transport.shm.listener.server_loop import DeadlineTimer
from tests.support.memory_pipe import memory_pipes
from tests.support.waiting import PATIENCE_S


class Bench:
    """A server's end whose client is this test: it writes records by hand and sees every answer."""

    def __init__(self, capacity: int = 512 << 10, **options: Any) -> None:
        self.pipe, end = memory_pipes(capacity)
        self.began: list[ServerCall] = []
        self.calls = ServerCalls(end, self.began.append, **options)

    def write(self, kind: Kind, call: int = 1, payload: bytes = b"", **fields: Any) -> None:
        method = 0 if kind is not Kind.REQUEST else 40
        envelope = Envelope(method, call, kind, payload=payload, **fields)
        assert self.pipe.try_push(encode_envelope(envelope))

    def feed(self, kind: Kind, call: int = 1, payload: Any = b"", **fields: Any) -> None:
        self.write(kind, call, payload, **fields)
        self.calls.feed()

    def answers(self) -> list[Envelope]:
        found: list[Envelope] = []
        while (record := self.pipe.try_pop()) is not None:
            found.append(decode_envelope(record))
        return found


STREAM = {"streams": int(Shape.SERVER_STREAM), "items": 2, "window": 1000}


def test_an_answer_is_not_held_up_by_a_stream_that_found_no_room() -> None:
    bench = Bench(capacity=1024)
    bench.feed(Kind.REQUEST, 1, **{**STREAM, "items": 99, "window": 1 << 20})
    bench.feed(Kind.REQUEST, 2)
    stream, unary = bench.began
    thread = threading.Thread(target=lambda: [stream.send(bytes(100)) for _ in range(20)])
    thread.start()
    thread.join(0.1)
    assert thread.is_alive()
    unary.finish(b"answer")  # finds the ring full, does not block, and goes before the items that wait
    seen: list[Envelope] = []
    while not any(answer.kind is Kind.RESPONSE for answer in seen):
        assert bench.pipe.wait(5 * 10**9)
        seen += bench.answers()
    assert len(seen) < 20
    while thread.is_alive():
        bench.answers()
        thread.join(0.01)


def test_a_client_that_reads_no_answers_is_not_read_any_more_either() -> None:
    bench = Bench(capacity=64 << 10)
    bench.feed(Kind.REQUEST, 1)
    bench.began[0].finish(bytes(3 << 20))
    bench.write(Kind.REQUEST, 2)
    assert not bench.calls.feed()
    assert len(bench.began) == 1
    while len(bench.began) < 2:
        bench.answers()
        bench.calls.feed()
    bench.calls.close()


def test_what_comes_after_the_end_of_a_call_is_ignored() -> None:
    bench = Bench()
    bench.feed(Kind.REQUEST, **STREAM)
    bench.began[0].finish()
    for kind in (Kind.CREDIT, Kind.CANCEL, Kind.HALF_CLOSE, Kind.STREAM_ITEM):
        bench.feed(kind)
    with pytest.raises(LocalProtocolError, match=r"cannot end the stream: .* is ended; open another one"):
        bench.began[0].finish()
    assert [answer.kind for answer in bench.answers()] == [Kind.END]


def test_a_deadline_in_the_past_is_over_at_once() -> None:
    bench = Bench()
    bench.feed(Kind.REQUEST, deadline_ns=1, **STREAM)
    call = bench.began[0]
    assert call.is_over
    assert call.call.is_over
    call.send(b"1")
    call.send(b"2")
    with pytest.raises(PeerTimeout, match="its caller waited"):
        call.send(b"3")


def test_close_ends_every_call_with_its_reason() -> None:
    bench = Bench()
    bench.feed(Kind.REQUEST, 1, **STREAM)
    bench.feed(Kind.REQUEST, 2, streams=int(Shape.CLIENT_STREAM))
    stream, reader = bench.began
    with ThreadPoolExecutor(2) as pool:
        waits = [pool.submit(lambda: [stream.send(b"") for _ in range(9)]), pool.submit(reader.recv)]
        bench.calls.close(ClosedError("the engine is closing"))
        assert [str(wait.exception(PATIENCE_S)) for wait in waits] == ["the engine is closing"] * 2
    with pytest.raises(ClosedError):
        bench.calls.feed()


def test_too_many_open_calls_are_busy_and_not_fatal() -> None:
    bench = Bench(capacity=4 << 20)
    for number in range(1, MAX_CALLS + 3):
        bench.write(Kind.REQUEST, number)
    for _ in range(MAX_CALLS):
        bench.calls.feed()
    assert len(bench.began) == MAX_CALLS
    refused = bench.answers()
    assert [(answer.correlation_id, answer.status) for answer in refused] == [
        (MAX_CALLS + 1, Busy.wire_code),
        (MAX_CALLS + 2, Busy.wire_code),
    ]


def in_a_fragment(record: bytes) -> dict[str, Any]:
    """Return all of a record, in one fragment of call 3."""
    return {"kind": Kind.FRAGMENT, "call": 3, "payload": record, "total": len(record)}


#: (what the client does, what it is told). Each is preceded by the stream request of call 1.
SLIPS: dict[str, tuple[dict[str, Any], str]] = {
    "an answer": ({"kind": Kind.RESPONSE}, "sent a response, but call 1 of .* is awaiting a stream"),
    "an end": ({"kind": Kind.END}, "sent a end"),
    "an error": ({"kind": Kind.ERROR}, "sent a error"),
    "the same number again": ({"kind": Kind.REQUEST}, "a request with the number 1"),
    "items for one request": ({"kind": Kind.STREAM_ITEM}, "sent a stream item"),
    "a half-close for one request": ({"kind": Kind.HALF_CLOSE}, "sent a half-close"),
    "credit for a call that never was": ({"kind": Kind.CREDIT, "call": 99}, "CREDIT for call 99, which was never open"),
    "a shape that is none": ({"kind": Kind.REQUEST, "call": 2, "streams": 4}, "streams = 4; known are 0 to 3"),
    "an empty fragment": ({"kind": Kind.FRAGMENT, "call": 2, "total": 10}, "0 bytes at 0 of 10"),
    "a fragment that is too long": (
        {"kind": Kind.FRAGMENT, "call": 2, "total": 1, "payload": b"xx"},
        "2 bytes at 0 of 1",
    ),
    "a fragment of a fragment": (
        in_a_fragment(encode_envelope(Envelope(0, 3, Kind.FRAGMENT, payload=b"x", total=9))),
        "fragments of call 3 hold FRAGMENT",
    ),
    "a fragment of another call": (
        in_a_fragment(encode_compact(Kind.REQUEST, 4, b"", 40)),
        "fragments of call 3 hold REQUEST of call 4",
    ),
}


@pytest.mark.parametrize("slip", SLIPS)
def test_a_client_that_breaks_the_rules_is_dropped_with_all_its_calls(slip: str) -> None:
    bench = Bench()
    bench.feed(Kind.REQUEST, **STREAM)
    fields, text = SLIPS[slip]
    with pytest.raises(RemoteProtocolError, match=text):
        bench.feed(**fields)
    assert not bench.calls.open_calls
    assert bench.began[0].is_ended


def test_items_that_were_not_granted_drop_the_client() -> None:
    bench = Bench()
    bench.feed(Kind.REQUEST, streams=int(Shape.CLIENT_STREAM))
    with pytest.raises(RemoteProtocolError, match="without credit"):
        bench.feed(Kind.STREAM_ITEM, payload=b"x")


def test_a_message_in_one_record_is_as_limited_as_one_in_many() -> None:
    bench = Bench(max_message_bytes=100)
    bench.feed(Kind.REQUEST, 1, bytes(101))
    assert bench.began == []
    bench.feed(Kind.REQUEST, 2, streams=int(Shape.CLIENT_STREAM))
    call = bench.began[0]
    call.accept()
    for length in (100, 101):
        bench.feed(Kind.STREAM_ITEM, 2, bytes(length))
    assert call.recv() == bytes(100)
    with pytest.raises(SpecError, match="a message of 101 bytes, the limit is 100"):
        call.recv()
    refusals = [(answer.correlation_id, answer.kind) for answer in bench.answers() if answer.kind is Kind.ERROR]
    assert refusals == [(1, Kind.ERROR), (2, Kind.ERROR)]
    assert not bench.calls.open_calls


@pytest.mark.parametrize(
    ("request_", "use"),
    [({"streams": int(Shape.CLIENT_STREAM)}, ServerCall.recv), ({**STREAM, "items": 0}, lambda call: call.send(b"x"))],
    ids=["receives", "sends"],
)
def test_what_still_waits_when_the_call_is_answered_is_released(
    request_: dict[str, int], use: Callable[[ServerCall], object], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lucky_transport.rpc.server_items._SLICE_S", 10**6)  # it is woken, and does not look for itself
    bench = Bench()
    bench.feed(Kind.REQUEST, **request_)
    call = bench.began[0]
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(use, call)
        time.sleep(0.05)
        call.finish(b"enough" * (use is ServerCall.recv))
        answer = waiting.exception(PATIENCE_S) or waiting.result()
    assert answer is None if use is ServerCall.recv else "is ended" in str(answer)


def test_what_is_done_at_the_end_of_a_call_delays_no_answer() -> None:
    bench = Bench()
    seen: list[int] = []
    for number, end in enumerate((lambda call: call.finish(b"x"), lambda call: call.fail(Busy("no"))), 1):
        bench.feed(Kind.REQUEST, number)
        bench.began[-1].call.on_end(lambda: seen.append(len(bench.answers())))
        end(bench.began[-1])
    assert seen == [1, 1]


@pytest.mark.parametrize("ends", ["finished", "cancelled"])
def test_a_call_that_has_ended_is_no_garbage_for_the_collector(ends: str) -> None:
    bench = Bench()
    gc.collect()
    gc.disable()
    try:
        bench.feed(Kind.REQUEST, **STREAM)
        call = bench.began.pop()
        assert len(call.call.image_buffer(8)) == 8
        if ends == "cancelled":
            bench.feed(Kind.CANCEL)
        else:
            call.finish()
        assert len(call.call.image_buffer(8)) == 8  # a handler that still draws gets memory of its own
        del call
        assert not [found for found in gc.get_objects() if isinstance(found, ServerCall)]
    finally:
        gc.enable()


@pytest.mark.parametrize("lost", ["call", "connection"])
def test_what_is_lost_does_not_hold_what_was_being_done_when_it_was_lost(lost: str) -> None:
    bench = Bench()
    bench.feed(Kind.REQUEST, **STREAM)
    call = bench.began.pop()
    calls = bench.calls
    gc.collect()
    gc.disable()
    try:

        def handler(call: ServerCall, calls: ServerCalls) -> None:
            # Its frame holds both, and the errors hold the frame.
            try:
                raise ClosedError("the pipe is closed")
            except ClosedError:
                try:
                    raise PeerDied("the client has ended")
                except PeerDied as error:
                    (call.lose if lost == "call" else calls.close)(error)

        handler(call, calls)
        assert isinstance(call.error, PeerDied)
        assert str(call.error) == "the client has ended"
        del call, calls, bench
        assert not [found for found in gc.get_objects() if isinstance(found, (ServerCall, ServerCalls))]
    finally:
        gc.enable()


LONG_NS = 10**12


class TimedBench(Bench):
    """Calls with deadlines in milliseconds. woken: how often their timer wanted to be asked again."""

    def __init__(self) -> None:
        super().__init__()
        self.woken: list[None] = []
        self.timer = DeadlineTimer(lambda: self.woken.append(None))

    def watch(self, deadline_ms: int) -> ServerCall:
        self.feed(Kind.REQUEST, len(self.began) + 1, deadline_ns=deadline_ms * 1_000_000)
        self.timer.watch(self.began[-1])
        return self.began[-1]


def test_a_watched_call_ends_when_its_deadline_has_passed_and_the_others_go_on() -> None:
    bench, seen = TimedBench(), list[ServerCall]()
    long, short = bench.watch(60_000), bench.watch(20)
    short.call.on_end(lambda: seen.append(short))
    time.sleep(bench.timer.timeout_ns(LONG_NS) / 1e9)
    assert bench.timer.timeout_ns(LONG_NS) == 0
    bench.timer.expire()
    assert (short.is_ended, long.is_ended, seen) == (True, False, [short])
    assert len(bench.timer) == 1
    assert 50 * 10**9 < bench.timer.timeout_ns(LONG_NS) <= 60 * 10**9
    assert bench.answers() == [], "its caller has a clock of its own"


def test_a_timer_asks_to_be_woken_only_for_a_sooner_deadline_and_forgets_what_was_answered() -> None:
    bench = TimedBench()
    for watched, (deadline_ms, woken) in enumerate(((0, 0), (60_000, 1), (70_000, 1), (50_000, 2))):
        bench.watch(deadline_ms)
        assert (len(bench.timer), len(bench.woken)) == (watched, woken)
        assert watched or bench.timer.timeout_ns(5) == 5
    for call in bench.began:
        call.finish(b"answer")
    assert len(bench.timer) == 0

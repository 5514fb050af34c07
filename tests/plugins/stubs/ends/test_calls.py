"""Calls through a channel of threads: what is dropped, other threads, signals that strike at any moment."""

import contextvars
import gc
import itertools
import sys
import threading
from collections.abc import Iterator
from typing import Any

import grpc
import pytest

from tests.support.interrupted_moments import interrupted_at
from tests.support.resources import connections_of, threads_of
from tests.support.waiting import PATIENCE_S, call_later, until, until_none_left

from ..differential.ends import path
from .conftest import Client, OurEnds, Service, failure

Code = grpc.StatusCode
_where: contextvars.ContextVar[str] = contextvars.ContextVar("where", default="nowhere")


def test_a_timeout_that_is_longer_than_any_clock_is_none(stub: Client) -> None:
    for timeout in (float("inf"), 1e300):
        assert stub.unary_unary("Echo")(b"x", timeout=timeout) == b"x"


@pytest.mark.parametrize("timeout", [0, float("nan")])
def test_a_call_without_time_fails_at_once(stub: Client, timeout: float) -> None:
    for call in (
        lambda: stub.unary_unary("Echo")(b"", timeout=timeout),
        lambda: stub.unary_unary("Echo").future(b"", timeout=timeout).result(),
        lambda: list(stub.stream_stream("Relay")(iter([b"x"]), timeout=timeout)),
    ):
        assert failure(call).code() is Code.DEADLINE_EXCEEDED


def test_a_request_that_is_no_bytes_ends_the_call(stub: Client) -> None:
    assert failure(lambda: stub.stream_unary("Join")(iter([b"1", 5]))).code() is Code.INTERNAL


def test_methods_and_calls_go_on_when_their_channel_is_dropped(stub: Client) -> None:
    echo, linger = stub.unary_unary("Echo"), stub.unary_stream("Linger")(b"x")
    stub.__dict__.clear()
    gc.collect()
    assert echo(b"x") == b"x"
    del echo
    gc.collect()
    assert next(linger) == b"x"
    linger.cancel()


def test_a_response_that_came_in_time_counts_also_when_it_is_asked_for_too_late(stub: Client) -> None:
    came: list[Any] = []
    future = stub.unary_unary("Echo").future(b"x", timeout=2)
    future.add_done_callback(came.append)
    until(lambda: came and future.time_remaining() == 0)
    assert future.result() == b"x"
    with pytest.raises(ValueError, match="result"):
        next(future)


def test_a_callback_that_exits_stops_the_others_of_its_call_alone(stub: Client, caplog: Any) -> None:
    seen: list[Any] = []
    future = stub.unary_unary("Wait").future(b"", timeout=0.5)
    future.add_callback(sys.exit)
    future.add_callback(lambda: seen.append(1))
    until(lambda: "ended the callbacks of its call" in caplog.text)
    stub.unary_unary("Echo").future(b"x").add_done_callback(lambda done: seen.append(done.result()))
    until(lambda: seen)
    assert seen == [b"x"]


def test_a_future_with_a_done_callback_goes_on_when_it_is_dropped(stub: Client, service: Service) -> None:
    seen: list[Any] = []
    stub.unary_unary("Wait").future(b"x").add_done_callback(lambda done: seen.append(done.result()))
    gc.collect()
    service.released.set()
    until(lambda: seen == [b"x"])


def test_the_iterator_runs_in_the_context_of_the_caller_on_a_thread_of_its_own(stub: Client) -> None:
    def requests() -> Iterator[bytes]:
        assert threading.current_thread() is not threading.main_thread()
        yield _where.get().encode()

    _where.set("here")
    assert stub.stream_unary("Join")(requests()) == b"here"


def test_a_call_that_was_cancelled_pulls_no_further_request(stub: Client) -> None:
    pulled: list[bytes] = []
    gate = threading.Semaphore(2)

    def requests() -> Iterator[bytes]:
        while gate.acquire(timeout=10):
            pulled.append(b"x")
            yield b"x"

    call = stub.stream_stream("Relay")(requests())
    assert next(call) == b"x"
    assert call.cancel()
    gate.release(5)
    until_none_left(lambda: threads_of("grpc requests"))
    assert len(pulled) <= 3


def test_threads_may_wait_for_the_end_while_another_takes_the_responses(stub: Client) -> None:
    seen: list[Any] = []
    call = stub.unary_stream("Count")(b"1000")
    waiting = [threading.Thread(target=lambda: seen.append(call.code())) for _ in range(2)]
    for thread in waiting:
        thread.start()
    assert sum(1 for _ in call) == 1000
    for thread in waiting:
        thread.join(PATIENCE_S)
    assert seen == [Code.OK] * 2


@pytest.mark.parametrize("end", ["cancel", "close"])
def test_another_thread_ends_the_wait_for_a_response(stub: Client, end: str) -> None:
    call = stub.unary_stream("Linger")(b"x")
    next(call)
    ending = call_later(call.cancel if end == "cancel" else stub.channel.close)
    error = failure(lambda: next(call))
    assert error.code() is Code.CANCELLED
    assert (error.details() == "Channel closed!") == (end == "close")
    ending.join()


def test_another_thread_that_closes_the_channel_ends_a_blocking_call(stub: Client, service: Service) -> None:
    closing = call_later(lambda: (service.asked.wait(PATIENCE_S), stub.channel.close()))
    assert failure(lambda: stub.unary_unary("Wait")(b"")).details() == "Channel closed!"
    closing.join()


def test_a_response_is_deserialized_once_whoever_asks_for_it_meanwhile(stub: Client) -> None:
    made: list[bytes] = []
    echo = stub.channel.unary_unary(path("Echo"), response_deserializer=lambda data: made.append(data) or data)
    for moment in itertools.count():
        future = echo.future(b"x")
        is_asked_meanwhile = interrupted_at(moment, future.result, lambda *_, future=future: future.done())
        assert (future.result(), len(made)) == (b"x", moment + 1)
        if not is_asked_meanwhile:
            break


def test_an_interrupted_cancel_is_made_by_the_next_one(stub: Client, service: Service) -> None:
    for moment in itertools.count():
        service.over.clear()
        done: list[Any] = []
        call = stub.unary_stream("Linger")(b"item")
        call.add_done_callback(done.append)
        assert next(call) == b"item"
        is_interrupted = interrupted_at(moment, call.cancel)
        call.cancel()
        assert service.over.wait(PATIENCE_S)
        until(lambda done=done: done)
        if not is_interrupted:
            break


def test_a_call_that_is_interrupted_while_it_begins_is_not_under_way(stub: Client) -> None:
    is_checked = threading.Event()
    calls: list[Any] = []
    relay = stub.stream_stream("Relay")

    def requests() -> Iterator[bytes]:
        yield b"first"
        is_checked.wait(PATIENCE_S)

    stub.unary_unary("Echo")(b"")
    for moment in itertools.count():
        is_interrupted = interrupted_at(moment, lambda: calls.append(relay(requests())))
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
def test_an_interrupted_close_is_made_by_the_next_one(ends: OurEnds, service: Service) -> None:
    served = ends.serve(service.methods)
    name = served.target.removeprefix("shm://")
    before = len(connections_of(name))
    for moment in itertools.count():
        client = ends.dial(served)
        client.unary_unary("Echo")(b"")
        is_interrupted = interrupted_at(moment, client.channel.close)
        client.channel.close()
        until(lambda: len(connections_of(name)) == before)
        if not is_interrupted:
            break

"""Calls through a channel, beside what `differential` compares with gRPC's own: what is dropped, threads, signals."""

from __future__ import annotations

import contextvars
import gc
import sys
import threading
import weakref
from collections.abc import Iterator
from typing import Any

import pytest

from lucky_transport_grpc.runtime import grpc
from tests.support.resources import threads_of
from tests.support.waiting import until, until_none_left

Code = grpc.StatusCode
_where: contextvars.ContextVar[str] = contextvars.ContextVar("where", default="nowhere")


def test_a_timeout_that_is_longer_than_any_clock_is_none(stub: Any) -> None:
    assert stub.echo(b"x", timeout=float("inf")) == b"x"
    assert stub.echo(b"x", timeout=1e300) == b"x"


@pytest.mark.parametrize("timeout", [0, float("nan")])
def test_a_timeout_that_is_over_ends_the_call_before_it_began(stub: Any, failure: Any, timeout: float) -> None:
    for call in (
        lambda: stub.echo(b"", timeout=timeout),
        lambda: stub.echo.future(b"", timeout=timeout).result(),
        lambda: list(stub.relay(iter([b"x"]), timeout=timeout)),
    ):
        assert failure(call).code() is Code.DEADLINE_EXCEEDED


def test_a_request_that_is_no_bytes_ends_the_call(stub: Any, failure: Any) -> None:
    assert failure(lambda: stub.join(iter([b"1", 5]))).code() is Code.INTERNAL


def test_methods_and_calls_go_on_when_their_channel_is_dropped(stub: Any) -> None:
    echo, linger = stub.echo, stub.linger(b"x")
    stub.__dict__.clear()
    gc.collect()
    assert echo(b"x") == b"x"
    del echo
    gc.collect()
    assert next(linger) == b"x"
    linger.cancel()


def test_a_channel_can_be_a_key_and_be_referred_to_weakly(connect: Any) -> None:
    channel = connect()
    assert {channel: 1}[channel] == 1
    assert weakref.ref(channel)() is channel


def test_a_response_that_came_in_time_counts_also_when_it_is_asked_for_too_late(stub: Any, service: Any) -> None:
    future = stub.echo.future(b"x", timeout=2)
    until(lambda: service.seen)
    until(lambda: future.time_remaining() == 0)
    assert future.result() == b"x"


def test_a_future_is_no_iterator(stub: Any) -> None:
    with pytest.raises(ValueError, match="result"):
        next(stub.echo.future(b"x"))


def test_a_callback_that_exits_stops_the_others_of_its_call_alone(stub: Any, caplog: Any) -> None:
    seen: list[Any] = []
    future = stub.wait.future(b"", timeout=0.5)
    future.add_callback(sys.exit)
    future.add_callback(lambda: seen.append(1))
    until(lambda: "ended the callbacks of its call" in caplog.text)
    stub.echo.future(b"x").add_done_callback(lambda done: seen.append(done.result()))
    until(lambda: seen)
    assert seen == [b"x"]


def test_a_future_with_a_done_callback_goes_on_when_it_is_dropped(stub: Any, service: Any) -> None:
    seen: list[Any] = []
    stub.wait.future(b"x").add_done_callback(lambda done: seen.append(done.result()))
    gc.collect()
    service.released.set()
    until(lambda: seen == [b"x"])


def test_a_future_that_is_dropped_is_cancelled_and_its_plain_callbacks_hear_it(stub: Any, service: Any) -> None:
    seen: list[Any] = []
    future = stub.wait.future(b"x")
    future.add_callback(lambda: seen.append(1))
    del future
    gc.collect()
    until(lambda: seen == [1])
    assert service.over.wait(10)


def test_the_iterator_runs_in_the_context_of_the_caller_on_a_thread_of_its_own(stub: Any) -> None:
    def requests() -> Iterator[bytes]:
        assert threading.current_thread() is not threading.main_thread()
        yield _where.get().encode()

    _where.set("here")
    assert stub.join(requests()) == b"here"


def test_a_call_that_was_cancelled_pulls_no_further_request(stub: Any) -> None:
    pulled: list[bytes] = []
    gate = threading.Semaphore(2)

    def requests() -> Iterator[bytes]:
        while gate.acquire(timeout=10):
            pulled.append(b"x")
            yield b"x"

    call = stub.relay(requests())
    assert next(call) == b"x"
    assert call.cancel()
    gate.release(5)
    until_none_left(lambda: threads_of("grpc requests"))
    assert len(pulled) <= 3


def test_threads_may_wait_for_the_end_while_another_takes_the_responses(stub: Any) -> None:
    seen: list[Any] = []
    call = stub.count(b"1000")
    waiting = [threading.Thread(target=lambda: seen.append(call.code())) for _ in range(2)]
    for thread in waiting:
        thread.start()
    assert sum(1 for _ in call) == 1000
    for thread in waiting:
        thread.join(10)
    assert seen == [Code.OK] * 2


def test_a_cancel_ends_the_wait_of_another_thread(stub: Any, failure: Any) -> None:
    call = stub.linger(b"x")
    next(call)
    canceller = threading.Timer(0.05, call.cancel)
    canceller.start()
    assert failure(lambda: next(call)).code() is Code.CANCELLED
    canceller.join()


def test_the_deadline_ends_a_call_with_whatever_was_not_taken(stub: Any, failure: Any) -> None:
    call = stub.count(b"30", timeout=2)
    assert next(call) == b"0"
    until(lambda: call.time_remaining() == 0)
    assert not call.is_active()
    assert failure(lambda: next(call)).code() is Code.DEADLINE_EXCEEDED


def test_a_signal_handler_that_raises_before_the_thread_starts_costs_only_that_subscription(
    serve: Any, connect: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    serve()
    channel, seen = connect(), []

    def strike(thread: threading.Thread) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr("lucky_transport_stubs.client.connectivity.threading.Thread.start", strike)
        with pytest.raises(KeyboardInterrupt):
            channel.subscribe(lambda state: None)
    channel.subscribe(seen.append)
    until(lambda: seen == [grpc.ChannelConnectivity.IDLE])


def test_a_ready_future_that_is_cancelled_stops_the_connecting(connect: Any) -> None:
    waiting = grpc.channel_ready_future(connect())
    waiting.cancel()
    until_none_left(lambda: threads_of("grpc channel"))


def test_closing_ends_subscriptions_and_refuses_new_ones(connect: Any) -> None:
    channel, seen = connect(), []
    channel.subscribe(seen.append)
    until(lambda: seen == [grpc.ChannelConnectivity.IDLE])
    channel.close()
    with pytest.raises(ValueError, match="closed"):
        channel.subscribe(seen.append)
    assert seen == [grpc.ChannelConnectivity.IDLE]

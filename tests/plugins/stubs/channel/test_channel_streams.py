"""Responses that are a stream: the call is their iterator, and is over when they were all taken."""

from __future__ import annotations

import gc
import threading
from typing import Any

import pytest

from lucky_transport_grpc.runtime import grpc
from tests.support.waiting import until

Code = grpc.StatusCode


def test_the_call_is_iterator_call_future_and_error_in_one(stub: Any) -> None:
    call = stub.count(b"3", timeout=60)
    assert {grpc.RpcError, grpc.Call, grpc.Future} <= set(type(call).__mro__)
    assert iter(call) is call
    assert call.initial_metadata() == (("first", "1"),)
    assert [next(call), call.next(), next(call)] == [b"0", b"1", b"2"]
    for _ in range(2):
        with pytest.raises(StopIteration):
            next(call)
    assert (call.code(), call.details(), call.result(), call.exception()) == (Code.OK, "", None, None)
    assert call.trailing_metadata() == (("last", "1"),)
    assert 0 < call.time_remaining() <= 60


def test_what_came_before_an_error_is_handed_out_before_it(stub: Any, failure: Any) -> None:
    call = stub.count_and_fail(b"3")
    assert [next(call), next(call), next(call)] == [b"0", b"1", b"2"]
    assert failure(lambda: next(call)) is call
    assert failure(lambda: next(call)) is call
    assert (call.code(), call.details()) == (Code.DATA_LOSS, "lost")
    assert call.exception() is call


def test_a_call_is_over_when_its_last_response_was_taken_not_before(stub: Any) -> None:
    seen: list[Any] = []
    call = stub.count_and_fail(b"2")
    call.add_done_callback(lambda done: seen.append(done.code()))
    until(lambda: stub.echo(b"") == b"" and stub.channel._link.calls.open_calls == 0)
    assert (call.is_active(), call.done(), seen) == (True, False, [])
    with pytest.raises(grpc.FutureTimeoutError):
        call.result(timeout=0.02)
    next(call)
    assert call.is_active()
    next(call)
    assert (call.is_active(), call.code()) == (False, Code.DATA_LOSS)
    until(lambda: seen == [Code.DATA_LOSS])


def test_a_thread_may_wait_for_the_end_while_another_takes_the_responses(stub: Any) -> None:
    seen: list[Any] = []
    call = stub.count(b"1000")
    waiting = threading.Thread(target=lambda: seen.append(call.code()))
    waiting.start()
    assert sum(1 for _ in call) == 1000
    waiting.join(10)
    assert seen == [Code.OK]


def test_a_cancelled_call_raises_cancelled_and_hands_out_nothing_more(stub: Any, failure: Any, service: Any) -> None:
    call = stub.count(b"30")
    assert next(call) == b"0"
    until(lambda: stub.echo(b"") == b"" and stub.channel._link.calls.open_calls == 0)
    assert call.cancel()
    assert failure(lambda: next(call)) is call
    assert (call.code(), call.details(), call.cancelled()) == (
        Code.CANCELLED,
        "Locally cancelled by application!",
        True,
    )
    assert not call.cancel()
    call = stub.linger(b"x")
    next(call)
    call.cancel()
    assert service.over.wait(10)


def test_a_cancel_ends_the_wait_of_another_thread(stub: Any, failure: Any) -> None:
    call = stub.linger(b"x")
    next(call)
    canceller = threading.Timer(0.05, call.cancel)
    canceller.start()
    assert failure(lambda: next(call)).code() is Code.CANCELLED
    canceller.join()


def test_a_loop_that_is_left_cancels_the_call(stub: Any, service: Any) -> None:
    for response in stub.linger(b"x"):
        assert response == b"x"
        break
    gc.collect()
    assert service.over.wait(10)


def test_the_deadline_ends_a_call_with_whatever_was_not_taken(stub: Any, failure: Any) -> None:
    call = stub.count(b"30", timeout=2)
    assert next(call) == b"0"
    until(lambda: call.time_remaining() == 0)
    assert not call.is_active()
    assert failure(lambda: next(call)).code() is Code.DEADLINE_EXCEEDED
    waiting = stub.linger(b"x", timeout=2)
    assert next(waiting) == b"x"
    assert failure(lambda: next(waiting)).details() == "Deadline Exceeded"


def test_a_deadline_calls_back_though_nobody_takes_responses(stub: Any) -> None:
    seen: list[Any] = []
    call = stub.linger(b"x", timeout=0.05)
    call.add_done_callback(lambda done: seen.append(done.code()))
    until(lambda: seen == [Code.DEADLINE_EXCEEDED])


def test_a_caller_that_takes_nothing_holds_the_server_back(stub: Any, service: Any) -> None:
    call = stub.endless(b"10000")
    for _ in range(3):
        next(call)
    before = -1
    while before != service.sent:
        before = service.sent
        assert stub.echo(b"others go on") == b"others go on"
        threading.Event().wait(0.05)
    assert service.sent < 2000
    next(call)
    call.cancel()

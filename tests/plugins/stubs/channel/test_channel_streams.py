"""When a call with a stream of responses is over, beside what `differential` compares with gRPC's own."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from lucky_transport_grpc.runtime import grpc
from tests.support.waiting import until

Code = grpc.StatusCode


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
    waiting = stub.linger(b"x", timeout=2)
    assert next(waiting) == b"x"
    assert failure(lambda: next(waiting)).details() == "Deadline Exceeded"


def test_a_deadline_calls_back_though_nobody_takes_responses(stub: Any) -> None:
    seen: list[Any] = []
    call = stub.linger(b"x", timeout=0.05)
    call.add_done_callback(lambda done: seen.append(done.code()))
    until(lambda: seen == [Code.DEADLINE_EXCEEDED])

"""Calls that are under way while the caller does something else, beside what `differential` compares with gRPC's."""

from __future__ import annotations

import gc
import sys
import threading
from typing import Any

import pytest

from lucky_transport_grpc.runtime import grpc
from tests.support.waiting import until

Code = grpc.StatusCode


def test_a_future_is_done_though_nobody_waits_for_it(stub: Any) -> None:
    future = stub.echo.future(b"x")
    until(future.done)
    assert future.initial_metadata()[0] == ("first", "1")
    assert future.trailing_metadata()[0] == ("last", "1")
    late = stub.wait.future(b"x", timeout=0.05)
    until(late.done)
    assert late.code() is Code.DEADLINE_EXCEEDED


def test_a_response_that_came_in_time_counts_also_when_it_is_asked_for_too_late(stub: Any, service: Any) -> None:
    future = stub.echo.future(b"x", timeout=2)
    until(lambda: service.seen)
    until(lambda: future.time_remaining() == 0)
    assert future.result() == b"x"


def test_a_future_is_no_iterator(stub: Any) -> None:
    with pytest.raises(ValueError, match=r"use result\(\)"):
        next(stub.echo.future(b"x"))


def test_a_callback_that_raises_costs_the_others_nothing(stub: Any, caplog: Any) -> None:
    seen: list[Any] = []
    future = stub.wait.future(b"", timeout=0.5)
    future.add_callback(lambda: 1 / 0)
    future.add_callback(lambda: seen.append(1))
    until(lambda: seen)
    assert "Exception in callback" in caplog.text


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


def test_several_threads_may_wait_for_one_future(stub: Any, service: Any) -> None:
    future = stub.wait.future(b"x")
    seen: list[Any] = []
    threads = [threading.Thread(target=lambda: seen.append(future.result(10))) for _ in range(4)]
    for thread in threads:
        thread.start()
    service.released.set()
    for thread in threads:
        thread.join(10)
    assert seen == [b"x"] * 4

"""Calls that are under way while the caller does something else."""

from __future__ import annotations

import gc
import threading
from typing import Any

import pytest

from lucky_transport_grpc.runtime import grpc
from tests.support.waiting import until

Code = grpc.StatusCode


def test_many_futures_are_under_way_at_once_and_each_gets_its_own_response(stub: Any) -> None:
    futures = [stub.echo.future(b"%d" % number) for number in range(100)]
    assert [future.result(timeout=10) for future in futures] == [b"%d" % number for number in range(100)]
    assert stub.join.future(iter([b"a", b"b"])).result(timeout=10) == b"ab"


def test_a_future_tells_how_it_stands(stub: Any, service: Any) -> None:
    future = stub.wait.future(b"x", timeout=60)
    assert (future.done(), future.running(), future.is_active(), future.cancelled()) == (False, True, True, False)
    assert 0 < future.time_remaining() <= 60
    assert repr(future) == "<_MultiThreadedRendezvous object>"
    service.released.set()
    assert future.result() == b"x"
    assert (future.done(), future.running(), future.is_active(), future.cancelled()) == (True, False, False, False)
    assert (future.code(), future.details(), future.exception(), future.traceback()) == (Code.OK, "", None, None)
    assert not future.cancel()
    assert stub.echo.future(b"").time_remaining() is None


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


def test_a_failed_future_raises_itself(stub: Any, failure: Any) -> None:
    future = stub.fail.future(b"gone")
    assert failure(future.result) is future
    assert future.exception() is future
    assert future.traceback() is not None
    assert (future.code(), future.details()) == (Code.NOT_FOUND, "gone")
    assert future.trailing_metadata() == (("why", "so"),)
    assert str(future).endswith('details = "gone"\n\tdebug_error_string = "NOT_FOUND:gone"\n>')


def test_a_future_is_no_iterator(stub: Any) -> None:
    with pytest.raises(ValueError, match=r"use result\(\)"):
        next(stub.echo.future(b"x"))


def test_a_callback_is_called_once_with_the_future_when_it_is_done(stub: Any, service: Any) -> None:
    seen: list[Any] = []
    future = stub.wait.future(b"x")
    future.add_done_callback(lambda done: seen.append((done, done.code(), threading.current_thread())))
    assert future.add_callback(lambda: seen.append("plain"))
    assert not seen
    service.released.set()
    until(lambda: len(seen) == 2)
    assert seen[0][:2] == (future, Code.OK)
    assert seen[0][2] is not threading.current_thread()
    assert not future.add_callback(lambda: seen.append("too late"))
    future.add_done_callback(seen.append)
    assert seen[2:] == [future]


def test_a_callback_that_raises_costs_the_others_nothing(stub: Any, caplog: Any) -> None:
    seen: list[Any] = []
    future = stub.wait.future(b"", timeout=0.5)
    future.add_callback(lambda: 1 / 0)
    future.add_callback(lambda: seen.append(1))
    until(lambda: seen)
    assert "Exception in callback" in caplog.text


def test_a_callback_may_make_calls_of_its_own(stub: Any) -> None:
    seen: list[Any] = []
    stub.echo.future(b"x").add_done_callback(lambda done: seen.append(stub.echo(done.result())))
    until(lambda: seen == [b"x"])


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

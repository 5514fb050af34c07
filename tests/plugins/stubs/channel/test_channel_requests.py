"""Who pulls the requests of a stream and until when, beside what `differential` compares with gRPC's own."""

from __future__ import annotations

import contextvars
import threading
from collections.abc import Iterator
from typing import Any

from lucky_transport_grpc.runtime import grpc
from tests.support.resources import threads_of
from tests.support.waiting import until_none_left

Code = grpc.StatusCode
_where: contextvars.ContextVar[str] = contextvars.ContextVar("where", default="nowhere")


def test_an_iterator_that_raises_ends_the_call_and_the_log_says_why(stub: Any, failure: Any, caplog: Any) -> None:
    def requests() -> Iterator[bytes]:
        yield b"1"
        raise ValueError("boom")

    for call in (
        lambda: stub.join(requests()),
        lambda: stub.join.future(requests()).result(),
        lambda: list(stub.relay(requests())),
    ):
        error = failure(call)
        assert (error.code(), error.details()) == (Code.UNKNOWN, "Exception iterating requests!")
    assert "boom" in caplog.text


def test_a_request_that_is_no_bytes_ends_the_call(stub: Any, failure: Any) -> None:
    error = failure(lambda: stub.join(iter([b"1", 5])))
    assert (error.code(), error.details()) == (Code.INTERNAL, "Exception serializing request!")


def test_the_iterator_runs_in_the_context_of_the_caller_on_a_thread_of_its_own(stub: Any) -> None:
    def requests() -> Iterator[bytes]:
        assert threading.current_thread() is not threading.main_thread()
        yield _where.get().encode()

    _where.set("here")
    assert stub.join(requests()) == b"here"


def test_a_call_that_was_cancelled_pulls_no_further_request(stub: Any) -> None:
    pulled = threading.Semaphore(0)
    gate = threading.Semaphore(2)

    def requests() -> Iterator[bytes]:
        while gate.acquire(timeout=10):
            pulled.release()
            yield b"x"

    call = stub.relay(requests())
    assert next(call) == b"x"
    assert call.cancel()
    for _ in range(5):
        gate.release()
    until_none_left(lambda: threads_of("grpc requests"))
    count = 0
    while pulled.acquire(blocking=False):
        count += 1
    assert count <= 3

"""A channel in a forked child: refused there, undisturbed in the parent."""

from __future__ import annotations

import os
import traceback
from collections.abc import Callable
from typing import Any

import lucky_transport_stubs
from lucky_transport_grpc.runtime import grpc

Code = grpc.StatusCode


def _in_a_child(work: Callable[[], None]) -> None:
    """Run `work` in a forked child; fail when it fails there."""
    pid = os.fork()
    if not pid:
        try:
            work()
        except BaseException:
            traceback.print_exc()
            os._exit(1)
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0


def test_a_child_is_refused_with_the_reason_and_the_remedy(stub: Any, failure: Any) -> None:
    stub.echo(b"x")

    def work() -> None:
        for call in (
            lambda: stub.echo(b"x"),
            lambda: stub.echo.future(b"x").result(),
            lambda: next(stub.count(b"1")),
            lambda: stub.join(iter([])),
        ):
            error = failure(call)
            assert error.code() is Code.FAILED_PRECONDITION
            assert "belongs to the parent process; make a new one" in error.details()

    _in_a_child(work)
    assert stub.echo(b"the parent goes on") == b"the parent goes on"


def test_calls_under_way_end_in_the_child_and_go_on_in_the_parent(stub: Any, failure: Any, service: Any) -> None:
    future, stream = stub.wait.future(b"x"), stub.linger(b"y")

    def work() -> None:
        for ended in (failure(future.result), failure(lambda: next(stream))):
            assert ended.code() is Code.FAILED_PRECONDITION
        assert stream.initial_metadata() == ()
        assert not future.cancel()
        assert not stream.is_active()

    _in_a_child(work)
    assert next(stream) == b"y"
    service.released.set()
    assert future.result(timeout=10) == b"x"


def test_a_child_may_drop_and_close_what_is_its_parents(stub: Any) -> None:
    stream = stub.linger(b"x")
    kept = [stream]

    def work() -> None:
        kept.clear()
        stub.channel.close()

    _in_a_child(work)
    assert next(stream) == b"x"
    assert stream.is_active()


def test_a_child_may_make_channels_of_its_own(stub: Any, failure: Any, name: str) -> None:
    stub.echo(b"x")

    def work() -> None:
        with lucky_transport_stubs.channel(f"shm://{name}") as channel:
            echo = channel.unary_unary("/test.Service/echo")
            assert echo(b"child") == b"child"
            _in_a_child(lambda: _refused(failure, echo))

    _in_a_child(work)
    assert stub.echo(b"x") == b"x"


def _refused(failure: Any, echo: Any) -> None:
    assert failure(lambda: echo(b"x")).code() is Code.FAILED_PRECONDITION

"""A channel in a forked child: connected anew there, undisturbed in the parent."""

from __future__ import annotations

import threading
from typing import Any

import pytest

import lucky_transport_stubs
from lucky_transport_grpc.runtime import grpc
from tests.support.fixtures.plugins_stubs import in_a_child
from tests.support.waiting import PATIENCE_S

Code = grpc.StatusCode


@pytest.mark.parametrize("used", [False, True], ids=["idle", "used"])
def test_a_forked_child_connects_anew_and_its_parent_goes_on(stub: Any, used: bool) -> None:
    states: list[Any] = []
    stub.channel.subscribe(states.append)
    if used:
        stub.echo(b"x")

    def work() -> None:
        known = tuple(states)
        assert stub.echo(b"child") == b"child"
        assert stub.echo.future(b"child").result(timeout=PATIENCE_S) == b"child"
        assert next(stub.count(b"1")) is not None
        assert stub.join(iter([b"a", b"b"])) == b"ab"
        assert tuple(states) == known  # those who subscribed are the parent's
        in_a_child(lambda: _echoes(stub))
        stub.channel.close()

    in_a_child(work)
    assert stub.echo(b"the parent goes on") == b"the parent goes on"


def _echoes(stub: Any) -> None:
    assert stub.echo(b"grandchild") == b"grandchild"


def test_a_child_of_a_channel_in_use_connects_anew(stub: Any) -> None:
    ended, wrong = threading.Event(), list[bytes]()

    def work() -> None:
        while not ended.is_set():
            if stub.echo(b"parent") != b"parent":
                wrong.append(b"parent")

    threads = [threading.Thread(target=work) for _ in range(3)]
    for thread in threads:
        thread.start()
    for _ in range(10):
        in_a_child(lambda: _echoes(stub))
    ended.set()
    for thread in threads:
        thread.join()
    assert wrong == []


def test_calls_under_way_end_in_the_child_and_go_on_in_the_parent(stub: Any, failure: Any, service: Any) -> None:
    future, stream = stub.wait.future(b"x"), stub.linger(b"y")

    def work() -> None:
        for ended in (failure(future.result), failure(lambda: next(stream))):
            assert ended.code() is Code.CANCELLED
            assert "belongs to the parent process" in ended.details()
        assert stream.initial_metadata() == ()
        assert not future.cancel()
        assert not stream.is_active()
        _echoes(stub)

    in_a_child(work)
    assert next(stream) == b"y"
    service.released.set()
    assert future.result(timeout=10) == b"x"


def test_a_child_may_drop_and_close_what_is_its_parents(stub: Any) -> None:
    stream = stub.linger(b"x")
    kept = [stream]

    def work() -> None:
        kept.clear()
        stub.channel.close()

    in_a_child(work)
    assert next(stream) == b"x"
    assert stream.is_active()


def test_a_child_may_make_channels_of_its_own(stub: Any, name: str) -> None:
    stub.echo(b"x")

    def work() -> None:
        with lucky_transport_stubs.channel(f"shm://{name}") as channel:
            echo = channel.unary_unary("/test.Service/echo")
            assert echo(b"child") == b"child"

    in_a_child(work)
    assert stub.echo(b"x") == b"x"

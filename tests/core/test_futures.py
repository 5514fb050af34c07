"""Calls under way as futures: their results, errors and cancellation."""

from __future__ import annotations

from concurrent.futures import CancelledError, Future
from typing import Any

import pytest

from lucky_transport.errors import PeerDied
from lucky_transport.futures import completed, on_cancel, settle


def test_a_completed_call_has_its_result_or_error() -> None:
    assert completed(lambda: 5).result(0) == 5

    def fail() -> None:
        raise PeerDied("gone")

    future = completed(fail)
    with pytest.raises(PeerDied, match="gone"):
        future.result(0)
    assert not future.cancel()


def test_a_cancelled_future_tells_the_engine_once_and_makes_no_call() -> None:
    future: Future[Any] = Future()
    said: list[str] = []
    on_cancel(future, lambda: said.append("cancel"))
    assert future.cancel()
    assert future.cancel()
    settle(future, lambda: said.append("call"))
    assert said == ["cancel"]
    with pytest.raises(CancelledError):
        future.result(0)


def test_a_future_that_ended_well_is_not_cancelled_any_more() -> None:
    future: Future[Any] = Future()
    said: list[str] = []
    on_cancel(future, lambda: said.append("cancel"))
    settle(future, lambda: 5)
    assert not future.cancel()
    assert (future.result(0), said) == (5, [])

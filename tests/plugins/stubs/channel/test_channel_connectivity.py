"""How a channel stands, beside what `differential` compares with gRPC's own."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest

from lucky_transport_grpc.runtime import grpc
from tests.support.resources import threads_of
from tests.support.waiting import until, until_none_left

State = grpc.ChannelConnectivity
CONNECTED = [State.IDLE, State.CONNECTING, State.READY]


@pytest.mark.exhaustive
def test_a_subscriber_hears_that_the_server_left_and_came_back(
    serve_elsewhere: Callable[[], Callable[[], None]], connect: Any
) -> None:
    kill = serve_elsewhere()
    channel, seen = connect(), []
    channel.subscribe(seen.append, try_to_connect=True)
    until(lambda: seen == CONNECTED)
    kill()
    until(lambda: seen[3:] == [State.IDLE])
    channel.subscribe(lambda state: None, try_to_connect=True)
    until(lambda: State.TRANSIENT_FAILURE in seen)
    serve_elsewhere()
    until(lambda: seen[-1] is State.READY)


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
    until(lambda: seen == [State.IDLE])


def test_who_unsubscribes_hears_nothing_more(serve: Any, connect: Any) -> None:
    serve()
    channel, seen, kept = connect(), [], []
    channel.subscribe(seen.append)
    channel.subscribe(kept.append)
    until(lambda: seen == [State.IDLE])
    channel.unsubscribe(seen.append)
    channel.unsubscribe(seen.append)
    channel.unary_unary("/test.Service/echo")(b"x")
    until(lambda: kept == CONNECTED)
    assert seen == [State.IDLE]


def test_a_subscriber_that_raises_goes_on_hearing(serve: Any, connect: Any, caplog: Any) -> None:
    serve()
    channel, seen = connect(), []

    def break_down(state: Any) -> None:
        seen.append(state)
        raise ValueError("boom")

    channel.subscribe(break_down, try_to_connect=True)
    until(lambda: seen == CONNECTED)
    until(lambda: caplog.text.count("Exception calling channel subscription callback!") == 3)


def test_a_subscriber_may_unsubscribe_and_call_while_it_is_told(serve: Any, connect: Any) -> None:
    serve()
    channel, done, seen = connect(), threading.Event(), []

    def look(state: Any) -> None:
        channel.unsubscribe(look)
        seen.append(channel.unary_unary("/test.Service/echo")(b"x"))
        done.set()

    channel.subscribe(look)
    assert done.wait(10)
    assert seen == [b"x"]


def test_a_ready_future_that_is_cancelled_stops_the_connecting(connect: Any) -> None:
    waiting = grpc.channel_ready_future(connect())
    waiting.cancel()
    until_none_left(lambda: threads_of("grpc channel"))


def test_closing_ends_subscriptions_and_refuses_new_ones(connect: Any) -> None:
    channel, seen = connect(), []
    channel.subscribe(seen.append)
    until(lambda: seen == [State.IDLE])
    channel.close()
    with pytest.raises(ValueError, match="closed"):
        channel.subscribe(seen.append)
    assert seen == [State.IDLE]

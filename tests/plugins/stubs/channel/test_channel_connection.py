"""The connection behind a channel: made when it is needed, gone when the server goes, made anew for the next call."""

from __future__ import annotations

import gc
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace
from typing import Any

import pytest

import lucky_transport_stubs
from lucky_transport.config import Settings, load_settings
from lucky_transport.errors import ConfigError
from lucky_transport_grpc.runtime import grpc
from lucky_transport_stubs.client import connecting, connection_monitor
from tests.support.resources import connections_of, threads_of
from tests.support.waiting import PATIENCE_S, until, until_none_left

Code = grpc.StatusCode


def _echo(channel: Any) -> Any:
    return channel.unary_unary("/test.Service/echo")


def test_a_call_to_nobody_is_unavailable_at_once_in_grpcs_words(connect: Any, failure: Any, name: str) -> None:
    channel = connect()
    for call in (
        lambda: _echo(channel)(b"x"),
        lambda: _echo(channel).future(b"x").result(),
        lambda: list(channel.unary_stream("/test.Service/count")(b"1")),
        lambda: channel.stream_unary("/test.Service/join")(iter([])),
    ):
        error = failure(call)
        assert error.code() is Code.UNAVAILABLE
        assert error.details().startswith("failed to connect to all addresses; last error: ")
        assert "Failed to connect to remote host" in error.debug_error_string()
        assert name in error.details()


@pytest.mark.parametrize(
    ("module", "ask"), [("gevent.monkey", "is_module_patched"), ("eventlet.patcher", "is_monkey_patched")]
)
def test_a_process_of_greenlets_is_refused_by_name(
    monkeypatch: pytest.MonkeyPatch, name: str, module: str, ask: str
) -> None:
    monkeypatch.setitem(sys.modules, module, SimpleNamespace(**{ask: lambda what: what == "threading"}))
    reason = f"{module.partition('.')[0]} has patched this process"
    with pytest.raises(ConfigError, match=reason):
        lucky_transport_stubs.channel(f"shm://{name}")
    with pytest.raises(RuntimeError, match=reason):
        lucky_transport_stubs.server(ThreadPoolExecutor(1)).add_insecure_port(f"shm://{name}")


def test_a_deadline_that_passes_before_the_server_is_met_is_no_unavailable_server(
    connect: Any, serve: Any, failure: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    serve()
    deadline_s = 0.02

    def late() -> Settings:
        time.sleep(2 * deadline_s)
        return load_settings()

    monkeypatch.setattr(connecting, "recent_settings", late)
    error = failure(lambda: _echo(connect())(b"x", timeout=deadline_s))
    assert (error.code(), error.details()) == (Code.DEADLINE_EXCEEDED, "Deadline Exceeded")


def test_a_call_that_waits_for_the_server_can_be_cancelled_dropped_and_closed(connect: Any, failure: Any) -> None:
    channel = connect()
    seen: list[Any] = []
    cancelled, dropped, closed = (_echo(channel).future(b"x", wait_for_ready=True) for _ in range(3))
    for future in (cancelled, dropped):
        future.add_callback(lambda: seen.append(1))
    assert cancelled.cancel()
    assert cancelled.initial_metadata() == ()
    del dropped, future
    gc.collect()
    until(lambda: seen == [1, 1])
    channel.close()
    assert failure(closed.result).details() == "Channel closed!"


def test_the_death_of_the_server_ends_every_call_as_unavailable(
    connect: Any, serve_elsewhere: Callable[[], Callable[[], None]], failure: Any
) -> None:
    kill = serve_elsewhere()
    channel = connect()
    wait, linger = channel.unary_unary("/test.Service/wait"), channel.unary_stream("/test.Service/linger")
    seen: list[Any] = []
    blocked = threading.Thread(target=lambda: seen.append(failure(lambda: wait(b"x")).code()))
    stream, read, future, idle = linger(b"x"), linger(b"x"), wait.future(b"x"), wait.future(b"x")
    assert next(stream) == next(read) == b"x"
    reading = threading.Thread(target=lambda: seen.append(failure(lambda: next(read)).code()))
    future.add_done_callback(lambda done: seen.append(done.code()))
    blocked.start()
    reading.start()
    kill()
    until(lambda: seen == [Code.UNAVAILABLE] * 3)
    until(idle.done)
    assert (idle.code(), stream.code()) == (Code.UNAVAILABLE, Code.UNAVAILABLE)
    for ended in (idle, stream, future):
        assert ended.details().startswith("Socket closed: ")
        assert "Socket closed" in ended.debug_error_string()
    blocked.join()
    reading.join()


@pytest.mark.exhaustive
def test_the_channel_goes_on_with_the_next_server_of_that_name(
    connect: Any, serve_elsewhere: Callable[[], Callable[[], None]], failure: Any
) -> None:
    channel = connect()
    kill = serve_elsewhere()
    assert _echo(channel)(b"1") == b"1"
    kill()
    assert failure(lambda: _echo(channel)(b"2")).code() is Code.UNAVAILABLE
    serve_elsewhere()
    assert _echo(channel)(b"3", wait_for_ready=True) == b"3"


def test_a_server_that_was_replaced_between_two_calls_costs_no_call(connect: Any, serve: Any) -> None:
    channel = connect()
    server = serve()
    for _ in range(10):
        assert _echo(channel)(b"x") == b"x"
        server.stop(0).wait(10)
        server = serve()


def test_closing_in_one_thread_ends_the_wait_of_another(stub: Any, failure: Any) -> None:
    closer = threading.Timer(0.05, stub.channel.close)
    closer.start()
    assert failure(lambda: stub.wait(b"x")).details() == "Channel closed!"
    closer.join()


def test_a_channel_that_nobody_has_any_more_lets_go_of_its_connection(serve: Any, name: str) -> None:
    serve()
    kept = lucky_transport_stubs.channel(f"shm://{name}")
    _echo(kept)(b"x")
    assert len(connections_of(name)) == 2  # the listener, and one client
    for _ in range(5):
        _echo(lucky_transport_stubs.channel(f"shm://{name}"))(b"x")
    gc.collect()
    until(lambda: len(connections_of(name)) == 2)
    kept.close()
    until(lambda: len(connections_of(name)) == 1)


def test_channels_that_follow_each_other_are_watched_by_one_thread(
    serve: Any, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    serve()
    until_none_left(lambda: threads_of("connection monitor"))
    with monkeypatch.context() as patience:
        patience.setattr(connection_monitor, "_IDLE_S", PATIENCE_S)
        seen = set[threading.Thread]()
        for _ in range(5):
            with lucky_transport_stubs.channel(f"shm://{name}") as channel:
                assert _echo(channel)(b"x") == b"x"
                seen |= set(threads_of("connection monitor"))
    connection_monitor.CONNECTION_MONITOR.do(lambda: None)  # wakes the thread, which is patient no more
    assert len(seen) == 1


@pytest.mark.exhaustive
def test_a_program_that_closes_nothing_ends_by_itself(serve_elsewhere: Any, name: str) -> None:
    serve_elsewhere()
    code = (
        "import sys, lucky_transport_stubs\n"
        "channel = lucky_transport_stubs.channel('shm://' + sys.argv[1])\n"
        "channel.subscribe(lambda state: None, try_to_connect=True)\n"
        "future = channel.unary_unary('/test.Service/wait').future(b'x')\n"
        "future.add_done_callback(print)\n"
        "stream = channel.stream_stream('/test.Service/relay')(iter(lambda: b'x', None))\n"
        "next(stream)\n"
    )
    done = subprocess.run([sys.executable, "-c", code, name], timeout=30, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")

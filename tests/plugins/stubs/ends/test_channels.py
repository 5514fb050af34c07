"""The connection behind a channel: made when it is needed, gone when the server goes, made anew for the next call."""

import gc
import os
import subprocess
import sys
import threading
import time
import weakref
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import grpc
import pytest

import lucky_transport_stubs
from lucky_transport.config import Settings, load_settings
from lucky_transport.errors import ConfigError
from lucky_transport_stubs.client import connecting, connection_monitor
from tests.support.forked_programs import Program
from tests.support.resources import connections_of, threads_of
from tests.support.waiting import PATIENCE_S, until, until_none_left

from ..differential.both import Driver
from ..differential.ends import REAL, Ends, generic_handler, path
from .conftest import Client, OurEnds, Service, failure

Code = grpc.StatusCode


def test_the_channel_has_everything_that_grpcs_own_has(ends: OurEnds) -> None:
    channel = ends.connect(ends.address())
    assert [name for name in dir(grpc.Channel) if not hasattr(channel, name)] == []
    assert {channel: 1}[channel] == 1
    assert weakref.ref(channel)() is channel


@pytest.mark.parametrize("variable", ["LUCKY_ENDPOINT", "LUCKY_SHM_NAME"])
async def test_the_endpoint_may_be_configured(driver: Driver, monkeypatch: pytest.MonkeyPatch, variable: str) -> None:
    address = driver.address()
    await driver.serve({"unary_unary Method": lambda request, context: request}, address=address)
    monkeypatch.setenv(variable, address if variable == "LUCKY_ENDPOINT" else address.removeprefix("shm://"))
    method: Any = driver.connect(None).unary_unary(path())  # type: ignore[arg-type]
    assert await driver.attempt(method, b"x", timeout=PATIENCE_S) == {"value": b"x"}


@pytest.mark.parametrize("scheme", ["grpc", "grpc+unix"])
async def test_an_endpoint_of_grpc_gives_a_real_channel(driver: Driver, scheme: str) -> None:
    with Ends(REAL) as real:
        server = real.server(generic_handler({"unary_unary Method": lambda request, context: request}))
        address = "127.0.0.1:0" if scheme == "grpc" else real.address()
        port = server.add_insecure_port(address)
        server.start()
        place = f"127.0.0.1:{port}" if scheme == "grpc" else address.removeprefix("unix:")
        channel = driver.connect(f"{scheme}://{place}", options=[("grpc.max_send_message_length", 10)])
        seen = await driver.attempt(channel.unary_unary(path()), b"x", wait_for_ready=True, timeout=PATIENCE_S)
        assert seen == {"value": b"x"}
        await driver.close(channel)


@pytest.mark.parametrize(
    "endpoint", [None, "nothing", "inproc:", "shm:", "shm://", "shm://a/b", "http://x", "grpc://x"]
)
async def test_an_endpoint_without_a_channel_is_a_mistake_of_configuration(driver: Driver, endpoint: Any) -> None:
    with pytest.raises(ConfigError):
        driver.connect(endpoint)


def test_the_public_names_are_functions_whatever_was_imported_before() -> None:
    code = (
        "import sys, lucky_transport_stubs\n"
        "assert 'grpc' not in sys.modules\n"
        "import lucky_transport_stubs.client.channel, lucky_transport_stubs.server.server\n"
        "from lucky_transport_stubs import channel, server\n"
        "assert set(lucky_transport_stubs.__all__) == {'aio_channel', 'aio_server', 'channel', 'inline', 'server'}\n"
        "assert all(callable(getattr(lucky_transport_stubs, name)) for name in lucky_transport_stubs.__all__)\n"
        "assert not hasattr(lucky_transport_stubs, 'nothing')\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60, env=dict(os.environ))


def test_a_call_to_nobody_is_unavailable_at_once_in_grpcs_words(ends: OurEnds) -> None:
    address = ends.address()
    error = failure(lambda: ends.dial(address).unary_unary("Echo")(b"x"))
    assert error.code() is Code.UNAVAILABLE
    assert error.details().startswith("failed to connect to all addresses; last error: ")
    assert address.removeprefix("shm://") in error.details()
    assert "Failed to connect to remote host" in error.debug_error_string()


@pytest.mark.parametrize(
    ("module", "ask"), [("gevent.monkey", "is_module_patched"), ("eventlet.patcher", "is_monkey_patched")]
)
def test_a_process_of_greenlets_is_refused_by_name(
    ends: OurEnds, monkeypatch: pytest.MonkeyPatch, module: str, ask: str
) -> None:
    monkeypatch.setitem(sys.modules, module, SimpleNamespace(**{ask: lambda what: what == "threading"}))
    reason = f"{module.partition('.')[0]} has patched this process"
    with pytest.raises(ConfigError, match=reason):
        ends.connect(ends.address())
    with pytest.raises(RuntimeError, match=reason):
        ends.server().add_insecure_port(ends.address())


def test_a_deadline_that_passes_before_the_server_is_met_is_no_unavailable_server(
    ends: OurEnds, stub: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    deadline_s = 0.02

    def late() -> Settings:
        time.sleep(2 * deadline_s)
        return load_settings()

    monkeypatch.setattr(connecting, "recent_settings", late)
    error = failure(lambda: ends.dial(ends.addresses[0]).unary_unary("Echo")(b"x", timeout=deadline_s))
    assert (error.code(), error.details()) == (Code.DEADLINE_EXCEEDED, "Deadline Exceeded")


def test_a_call_that_waits_for_the_server_can_be_cancelled_dropped_and_closed(ends: OurEnds) -> None:
    client = ends.dial(ends.address())
    seen: list[Any] = []
    cancelled, dropped, closed = (client.unary_unary("Echo").future(b"x", wait_for_ready=True) for _ in range(3))
    for future in (cancelled, dropped):
        future.add_callback(lambda: seen.append(1))
    assert cancelled.cancel()
    assert cancelled.initial_metadata() == ()
    del dropped, future
    gc.collect()
    until(lambda: seen == [1, 1])
    client.channel.close()
    assert failure(closed.result).details() == "Channel closed!"


def test_the_death_of_the_server_ends_every_call_as_unavailable(ends: OurEnds, spawn: Callable[[str], Program]) -> None:
    server = spawn(target := ends.address())
    client = ends.dial(target)
    wait, linger = client.unary_unary("Wait"), client.unary_stream("Linger")
    seen: list[Any] = []
    blocked = threading.Thread(target=lambda: seen.append(failure(lambda: wait(b"x")).code()))
    stream, read, future, idle = linger(b"x"), linger(b"x"), wait.future(b"x"), wait.future(b"x")
    assert next(stream) == next(read) == b"x"
    reading = threading.Thread(target=lambda: seen.append(failure(lambda: next(read)).code()))
    future.add_done_callback(lambda done: seen.append(done.code()))
    blocked.start()
    reading.start()
    server.kill()
    until(lambda: seen == [Code.UNAVAILABLE] * 3)
    until(idle.done)
    for ended in (idle, stream, future):
        assert ended.code() is Code.UNAVAILABLE
        assert ended.details().startswith("Socket closed: ")
        assert "Socket closed" in ended.debug_error_string()
    blocked.join()
    reading.join()


async def test_the_channel_goes_on_with_the_next_server_of_that_name(driver: Driver, spawn: Any) -> None:
    method = driver.connect(target := driver.address()).unary_unary(path("Echo"))
    for _ in range(2):
        server = spawn(target)
        assert await driver.attempt(method, b"1", wait_for_ready=True) == {"value": b"1"}
        server.kill()
        server.wait()
        assert (await driver.attempt(method, b"2"))["raised"]["code"] == "UNAVAILABLE"


def test_a_server_that_was_replaced_between_two_calls_costs_no_call(ends: OurEnds, service: Service) -> None:
    served = ends.serve(service.methods)
    echo = ends.dial(served).unary_unary("Echo")
    for _ in range(10):
        assert echo(b"x") == b"x"
        served.server.stop(0).wait(PATIENCE_S)
        served = ends.serve(service.methods, address=served.target)


def test_a_channel_that_nobody_has_any_more_lets_go_of_its_connection(ends: OurEnds, service: Service) -> None:
    served = ends.serve(service.methods)
    name = served.target.removeprefix("shm://")
    for _ in range(5):
        lucky_transport_stubs.channel(served.target).unary_unary(path("Echo"))(b"x")
    gc.collect()
    until(lambda: len(connections_of(name)) == 1)  # the listener


def test_channels_that_follow_each_other_are_watched_by_one_thread(
    ends: OurEnds, service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    served = ends.serve(service.methods)
    until_none_left(lambda: threads_of("connection monitor"))
    with monkeypatch.context() as patience:
        patience.setattr(connection_monitor, "_IDLE_S", PATIENCE_S)
        seen = set[threading.Thread]()
        for _ in range(5):
            client = ends.dial(served)
            assert client.unary_unary("Echo")(b"x") == b"x"
            seen |= set(threads_of("connection monitor"))
            client.channel.close()
    connection_monitor.CONNECTION_MONITOR.do(lambda: None)  # wakes the thread, which is patient no more
    assert len(seen) == 1


def test_what_wakes_the_monitor_as_it_ends_writes_to_no_closed_descriptor(monkeypatch: pytest.MonkeyPatch) -> None:
    monitor, done = connection_monitor.ConnectionMonitor(), list[str]()
    write = os.eventfd_write

    def written_late(fd: int, value: int) -> None:
        until(lambda: monitor._thread is None)  # pyright: ignore[reportPrivateUsage]
        write(fd, value)

    monkeypatch.setattr("os.eventfd_write", written_late)
    pipe: Any = SimpleNamespace(end_fds={})
    monitor.watch(pipe, lambda: None)
    monitor.do(lambda: done.append("of before"))
    monitor.watch(pipe, lambda: None)
    until(lambda: done == ["of before"])


def test_a_monitor_that_was_given_up_as_it_started_ends_without_a_word(monkeypatch: pytest.MonkeyPatch) -> None:
    started = list[threading.Thread]()

    def given_up(thread: threading.Thread) -> None:
        thread.start()
        started.append(thread)
        raise KeyboardInterrupt

    monkeypatch.setattr(connection_monitor, "start_thread", given_up)
    seen = list[threading.ExceptHookArgs]()
    monkeypatch.setattr(threading, "excepthook", seen.append)
    pipe: Any = SimpleNamespace(end_fds={})
    with pytest.raises(KeyboardInterrupt):
        connection_monitor.ConnectionMonitor().watch(pipe, lambda: None)
    started[0].join(PATIENCE_S)
    assert not seen


@pytest.mark.parametrize("raises", [True, False])
def test_a_signal_handler_that_raises_before_the_thread_starts_costs_only_that_subscription(
    ends: OurEnds, monkeypatch: pytest.MonkeyPatch, raises: bool
) -> None:
    channel, seen = ends.connect(ends.address()), []

    def strike(thread: threading.Thread) -> None:
        raise KeyboardInterrupt

    if raises:
        with monkeypatch.context() as patched:
            patched.setattr("lucky_transport_stubs.client.channel.threading.Thread.start", strike)
            with pytest.raises(KeyboardInterrupt):
                channel.subscribe(lambda state: None)
    channel.subscribe(seen.append)
    until(lambda: seen == [grpc.ChannelConnectivity.IDLE])
    channel.close()
    with pytest.raises(ValueError, match="closed"):
        channel.subscribe(seen.append)
    assert seen == [grpc.ChannelConnectivity.IDLE]


def test_a_program_that_closes_nothing_ends_by_itself(ends: OurEnds, spawn: Any, run: Any) -> None:
    spawn(target := ends.address())
    code = (
        "import sys, lucky_transport_stubs\n"
        "channel = lucky_transport_stubs.channel(sys.argv[1])\n"
        "channel.subscribe(lambda state: None, try_to_connect=True)\n"
        f"future = channel.unary_unary({path('Wait')!r}).future(b'x')\n"
        "future.add_done_callback(print)\n"
        f"stream = channel.stream_stream({path('Relay')!r})(iter(lambda: b'x', None))\n"
        "next(stream)\n"
    )
    program = run(code, target)
    assert program.communicate(timeout=PATIENCE_S)[1] == ""
    assert program.returncode == 0

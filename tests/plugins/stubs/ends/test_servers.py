"""The life of a server: its ports, start, stop with and without a grace, callers that leave, and being forgotten."""

import asyncio
import gc
import sys
import threading
import weakref
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import grpc
import pytest

import lucky_transport_stubs
from lucky_transport.deadline import Deadline
from lucky_transport.shm.listener.connecting import connect_pipe
from tests.plugins.failing_starts import no_descriptors, no_threads
from tests.support.resources import connections_of, descriptors_of, threads_of
from tests.support.waiting import PATIENCE_S, call_later, until, until_in_loop, until_none_left

from ..differential.both import ASYNCIO, THREADS, Driver, echo
from ..differential.ends import Ends, generic_handler, path
from .conftest import ECHO, Held, OurAioEnds, OurEnds, code_of, failure


def answer(request: bytes, context: Any) -> bytes:
    return request


METHODS: dict[str, Any] = {"unary_unary Method": answer}


async def test_a_port_is_the_name_of_a_listener_and_its_number_is_true(driver: Driver) -> None:
    server, targets = driver.server(generic_handler(METHODS)), [driver.address() for _ in range(3)]
    assert [server.add_insecure_port(target) for target in targets[:2]] == [1, 1]
    await driver.begin(server)
    assert server.add_insecure_port(targets[2]) == 1
    for target in targets:
        method = driver.connect(target).unary_unary(path())
        assert await driver.attempt(method, b"hello", timeout=PATIENCE_S) == {"value": b"hello"}


ELSEWHERE = ("127.0.0.1:0", "[::]:50051", "unix:/tmp/x", "grpc://127.0.0.1:1", "shm://", "x")


async def test_an_address_that_is_taken_or_of_another_kind_is_refused_with_the_remedy(driver: Driver) -> None:
    target = (await driver.serve(METHODS)).target
    with pytest.raises(RuntimeError, match=f"Failed to bind to address {target}: .*listens at"):
        driver.server().add_insecure_port(target)
    with pytest.raises(RuntimeError, match=f"Failed to bind to address {target}: .*listens at"):
        driver.server().add_secure_port(target, grpc.local_server_credentials())
    for elsewhere in ELSEWHERE:
        with pytest.raises(RuntimeError, match=r"shared memory only.*shm://name") as caught:
            driver.server().add_insecure_port(elsewhere)
        assert f"Failed to bind to address {elsewhere}" in str(caught.value)


async def test_a_limit_of_open_files_is_named_and_the_port_can_be_had_afterwards(driver: Driver) -> None:
    target, server = driver.address(), driver.server()
    for allowed in range(5):
        with no_descriptors(allowed), pytest.raises(RuntimeError, match=r"Failed to bind.*too many open.*ulimit"):
            server.add_insecure_port(target)
        assert not connections_of(target.removeprefix("shm://"))
    assert server.add_insecure_port(target) == 1
    await driver.begin(server)


async def test_a_runtime_directory_that_is_refused_is_named(
    driver: Driver, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "lucky_transport").mkdir()
    (tmp_path / "lucky_transport").chmod(0o777)
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    with pytest.raises(RuntimeError, match=r"Failed to bind.*not a directory that only you can enter"):
        driver.server().add_insecure_port(driver.address())


def test_a_server_whose_thread_is_refused_has_ended(ends: OurEnds) -> None:
    server, target = ends.bound({})
    with no_threads(0), pytest.raises(RuntimeError, match="can't start new thread"):
        server.start()
    assert not server.wait_for_termination(PATIENCE_S)
    assert not connections_of(target.removeprefix("shm://"))
    assert not threads_of(f"grpc server {target}")


async def test_callers_may_come_before_the_start(driver: Driver) -> None:
    server, target = driver.server(generic_handler(METHODS)), driver.address()
    server.add_insecure_port(target)
    starting: list[Any] = []
    if driver.driver == THREADS:
        starting.append(call_later(server.start))
    else:
        loop = asyncio.get_running_loop()
        loop.call_later(0.05, lambda: starting.append(asyncio.ensure_future(server.start())))
    method = driver.connect(target).unary_unary(path())
    assert await driver.attempt(method, b"x", timeout=PATIENCE_S) == {"value": b"x"}
    assert starting


def test_stopping_what_was_not_started_has_no_effect(ends: OurEnds) -> None:
    server, target = ends.bound(METHODS)
    assert server.stop(None).is_set()
    server.start()
    assert ends.dial(target).unary_unary("Method")(b"hello", timeout=PATIENCE_S) == b"hello"


async def test_a_stop_with_grace_lets_calls_end_and_refuses_new_ones(aio: OurAioEnds) -> None:
    held = Held()
    served = await aio.serve({**held.methods, **ECHO})
    client = aio.dial(served)
    call = client.unary_unary("Hold")(b"")
    await until_in_loop(lambda: held.begun)
    stopping = asyncio.create_task(served.server.stop(1000))
    await asyncio.sleep(0)
    assert await code_of(client.unary_unary("Echo")(b"")) == "UNAVAILABLE"
    held.release.set()
    assert await call == b"done"
    await stopping


def test_a_call_whose_caller_gave_up_without_a_word_ends_with_its_handler(
    ends: OurEnds, monkeypatch: pytest.MonkeyPatch
) -> None:
    gave_up = threading.Event()

    def late(request: bytes, context: Any) -> Iterator[bytes]:
        gave_up.wait(PATIENCE_S)
        yield request

    monkeypatch.setattr("lucky_transport.rpc.client_call.ClientCall._post_cancel", lambda call: None)
    served = ends.serve({"unary_stream Late": late})
    call = ends.dial(served).unary_stream("Late")(b"", timeout=0.1)
    assert failure(lambda: list(call)).code() is grpc.StatusCode.DEADLINE_EXCEEDED
    gave_up.set()
    assert served.server.stop(2 * PATIENCE_S).wait(PATIENCE_S)


@pytest.mark.parametrize("mark", [lambda handler: handler, lucky_transport_stubs.inline], ids=["pool", "inline"])
def test_a_handler_may_stop_its_server(ends: OurEnds, mark: Any) -> None:
    @mark
    def stop(request: bytes, context: Any) -> bytes:
        assert served.server.stop(None).is_set()
        return b"nobody hears it"

    served = ends.serve({"unary_unary Stop": stop})
    assert failure(lambda: ends.dial(served).unary_unary("Stop")(b"")).code() is grpc.StatusCode.UNAVAILABLE
    assert not served.server.wait_for_termination(PATIENCE_S)


def test_without_clients_a_server_has_one_thread_and_no_timer(ends: OurEnds) -> None:
    served = ends.serve(METHODS)

    def threads() -> int:
        return len(threads_of(f"grpc server {served.target}"))

    others = descriptors_of("timerfd")
    assert threads() == 1
    client = ends.dial(served)
    call = client.unary_unary("Method")

    def is_guarded() -> bool:  # once its handler has proved quick
        call(b"", timeout=PATIENCE_S)
        return threads() == 2

    until(is_guarded)
    client.channel.close()
    until(lambda: threads() == 1)
    until_none_left(lambda: descriptors_of("timerfd") - others)


@pytest.mark.parametrize("is_started", [False, True])
def test_a_server_that_is_dropped_stops_by_itself_and_gives_its_name_back(ends: OurEnds, is_started: bool) -> None:
    target, own = ends.address(), [("grpc.use_local_subchannel_pool", 1)]
    for _ in range(2):
        with ThreadPoolExecutor(1) as pool:
            server = lucky_transport_stubs.server(pool, handlers=(generic_handler(METHODS),))
            server.add_insecure_port(target)
            if is_started:
                server.start()
                client = ends.dial(target, options=own)  # no other channel has its connection
                assert client.unary_unary("Method")(b"x", timeout=PATIENCE_S) == b"x"
            gone = weakref.ref(server)
            del server
            gc.collect()
            assert gone() is None
            until_none_left(lambda: threads_of(f"grpc server {target}"))


@pytest.mark.parametrize("bad", [{}, {"options": 5}, {"interceptors": 5}])
@pytest.mark.parametrize("is_started", [False, True])
def test_a_server_without_a_port_or_that_could_not_be_made_is_dropped_without_a_word(
    bad: dict[str, Any], is_started: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    said: list[Any] = []
    monkeypatch.setattr(sys, "unraisablehook", said.append)
    with ThreadPoolExecutor(1) as pool:
        try:
            server = lucky_transport_stubs.server(pool, **bad)
        except (TypeError, ValueError, AttributeError):
            assert bad
        else:
            server.start() if is_started else None
            del server
        gc.collect()
    assert said == []


async def test_an_asyncio_server_that_was_never_stopped_leaves_nothing_behind(aio: OurAioEnds) -> None:
    lucky_transport_stubs.aio_server().add_insecure_port(aio.address())
    started = lucky_transport_stubs.aio_server()
    started.add_insecure_port(target := aio.address())
    await started.start()
    assert await code_of(aio.dial(target).unary_unary("Method")(b"")) == "UNIMPLEMENTED"


PROGRAMS = {
    THREADS: """
import sys
from concurrent.futures import ThreadPoolExecutor
import lucky_transport_stubs
server = lucky_transport_stubs.server(ThreadPoolExecutor(1))
server.add_insecure_port(sys.argv[1])
server.start()
server.wait_for_termination(0.01)
""",
    ASYNCIO: """
import asyncio, sys, warnings, lucky_transport_stubs
warnings.simplefilter("error")
kept = []
async def main():
    kept.append(lucky_transport_stubs.aio_server())
    kept[0].add_insecure_port(sys.argv[1])
    await kept[0].start()
asyncio.run(main())
""",
}


@pytest.mark.parametrize("kind", PROGRAMS)
def test_a_program_that_forgets_to_stop_its_server_leaves_nothing_behind(ends: Ends, run: Any, kind: str) -> None:
    program = run(PROGRAMS[kind], ends.address())
    assert program.communicate(timeout=PATIENCE_S) == ("", "")
    assert program.returncode == 0


CALLER = f"""
import sys
import lucky_transport_stubs
channel = lucky_transport_stubs.channel(sys.argv[1])
calls = [
    channel.unary_unary({path("Hold")!r}).future(b""),
    channel.stream_unary({path("Read")!r}).future(iter(sys.stdin.read, None)),
    channel.unary_stream({path("Stream")!r})(b""),
]
next(calls[-1])
print("calling", flush=True)
sys.stdin.read()
"""


async def test_a_killed_caller_frees_its_handlers(driver: Driver, run: Any) -> None:
    begun, over = ([driver.flag() for _ in range(3)] for _ in range(2))

    def held(number: int) -> Any:
        async def hold(read: Any, context: Any) -> bytes:
            context.add_done_callback(lambda _: over[number].set())
            begun[number].set()
            await (read() if number == 1 else over[number].happened())
            return b""

        return hold

    arities = {"unary_unary Hold": b"", "stream_unary Read": b"", "unary_stream Stream": b"first"}
    handlers: dict[str, Any] = {}
    for number, (title, first) in enumerate(arities.items()):
        handlers[title] = driver.behaviour(title.partition(" ")[0], held(number), *([first] if first else []))
    program = run(CALLER, (await driver.serve(handlers)).target)
    assert all([await one.happened() for one in begun])
    program.kill()
    assert all([await one.happened() for one in over])


async def test_a_caller_that_writes_garbage_is_dropped_and_the_others_are_served(driver: Driver) -> None:
    behaviour = driver.behaviour("unary_unary", echo)
    served = await driver.serve({"unary_unary Method": behaviour})
    bad = await driver.aside(connect_pipe, served.target.removeprefix("shm://"), Deadline(PATIENCE_S))
    bad.try_push(b"garbage!")
    await until_in_loop(lambda: bad.peer_left)
    bad.close()
    method = driver.connect(served.target).unary_unary(path())
    assert await driver.attempt(method, b"x", timeout=PATIENCE_S) == {"value": b"x"}

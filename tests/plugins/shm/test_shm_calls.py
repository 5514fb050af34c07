"""Commands over shared memory with real processes: the client that steps, those that only ask, and failures."""

from __future__ import annotations

import contextlib
import hashlib
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import lucky_transport
from lucky_transport import api
from lucky_transport.config import load_settings
from lucky_transport.deadline import Deadline
from lucky_transport.engine import RESET
from lucky_transport.engines.toy import ToyEngine
from lucky_transport.errors import (
    Busy,
    Cancelled,
    ClosedError,
    PeerDied,
    PeerTimeout,
    RemoteProtocolError,
    SpecError,
)
from lucky_transport.messages import SetStateRequest
from lucky_transport.messages.methods import method
from lucky_transport.process import EngineProcess
from lucky_transport.rpc.lifecycle import Shape
from lucky_transport.rpc.server_call import ServerCall
from tests.support.waiting import PATIENCE_S, soon, until

pytestmark = pytest.mark.usefixtures("forked_engines")

SCHEMA = method("AgentService/GetAgentSchema")
SEEDS = method("BatchService/SetSeeds")
SET_STATE = method("/lucky_transport.v1.StateService/SetState")
TELEMETRY = method("TelemetryService/StreamTelemetry")

RAW_ENGINE = """
import sys
import lucky_transport
from lucky_transport import api
from lucky_transport.config import load_settings
from lucky_transport.engines.toy import ToyEngine

def count(call):
    for number in range(int(call.payload)):
        call.send(b"%d" % number)
    call.finish()

def echo(call):
    if not call.shape:
        call.finish(call.payload)
        return
    while (item := call.recv()) is not None:
        call.send(item)
    call.finish()

def endless(call):
    while True:
        call.send(bytes(1024))

with api.serve(ToyEngine(2), sys.argv[1], max_message_bytes=64 << 20) as serving:
    for handler in (count, echo, endless):
        serving._servers[0]._dispatcher.register(f"/t/{handler.__name__}", handler)
    print("ready", flush=True)
    sys.stdin.read()
"""


@pytest.fixture
def raw_engine(name: str) -> Iterator[subprocess.Popen[bytes]]:
    """An engine process with raw handlers, which takes messages of 64 MiB."""
    command = [sys.executable, "-c", RAW_ENGINE, f"shm://{name}"]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert process.stdin is not None
    assert process.stdout is not None
    assert process.stdout.readline() == b"ready\n"
    yield process
    with contextlib.suppress(BrokenPipeError):
        process.stdin.close()
    process.wait(PATIENCE_S)
    process.stdout.close()


def connect(name: str, **settings: Any) -> Any:
    return api.open_transport(f"shm://{name}", load_settings(settings))


@contextlib.contextmanager
def engine_process(name: str) -> Iterator[EngineProcess]:
    process = EngineProcess("toy", [f"shm://{name}"], num_envs=2)
    try:
        yield process
    finally:
        process.stop()


@contextlib.contextmanager
def clients(name: str, count: int, **settings: Any) -> Iterator[list[Any]]:
    """Open so many clients: the first may step, all others send commands."""
    with contextlib.ExitStack() as stack:
        yield [stack.enter_context(connect(name, **settings)) for _ in range(count)]


def reset(client: Any) -> Any:
    return client.step(client.actions, np.full(client.spec.num_envs, RESET, np.uint8))


both_kinds = pytest.mark.parametrize("which", [0, 1], ids=["the driver", "a command client"])


@pytest.mark.exhaustive
@both_kinds
def test_calls_and_streams_of_every_shape(name: str, raw_engine: subprocess.Popen[bytes], which: int) -> None:
    with clients(name, 2) as found:
        assert found[which].call(SCHEMA, SCHEMA.request()).schema.observation_size == 8
        calls = found[which]._calls
        stream = calls.open("/t/count", b"3000")
        assert [stream.recv(soon()) for _ in range(3001)] == [*(b"%d" % number for number in range(3000)), None]
        both = calls.open("/t/echo", shape=Shape.BIDIRECTIONAL)
        for number in range(100):
            both.send(b"%d" % number, soon())
            assert both.recv(soon()) == b"%d" % number
        both.half_close()
        assert both.recv(soon()) is None


@pytest.mark.exhaustive
@both_kinds
def test_64_mebibytes_go_there_and_back(name: str, raw_engine: subprocess.Popen[bytes], which: int) -> None:
    message = os.urandom(1 << 20) * 64
    with clients(name, 2, max_message_bytes=64 << 20) as found:
        answer = found[which]._calls.unary("/t/echo", message, Deadline(PATIENCE_S))
    assert hashlib.sha256(answer).digest() == hashlib.sha256(message).digest()


def test_a_message_beyond_the_limit_is_refused_and_the_next_call_works(name: str) -> None:
    with api.serve("toy", f"shm://{name}"), connect(name) as client:
        with pytest.raises(SpecError, match="the limit is 4194304; send less, or raise max_message_bytes"):
            client._calls.unary(SCHEMA.id, bytes(5 << 20), soon())
        assert client.call(SCHEMA, SCHEMA.request()).schema.observation_size == 8


def test_the_engine_that_make_starts_takes_messages_as_long_as_its_caller_allows() -> None:
    state = os.urandom(5 << 20)
    with lucky_transport.make("echo", transport="shm", max_message_bytes=8 << 20) as env:
        assert env.transport.call(SET_STATE, SetStateRequest(0, state)).observation == state


@both_kinds
def test_a_stream_of_the_engine_flows_while_the_driver_steps(name: str, which: int) -> None:
    with engine_process(name), clients(name, 2) as found:
        driver = found[0]
        reset(driver)
        got: list[Any] = []

        def watch() -> None:
            with found[which].stream(TELEMETRY, TELEMETRY.request(target_fps=200)) as stream:
                for frame in stream:
                    got.append(frame)
                    if len(got) == 10:
                        return

        watcher = threading.Thread(target=watch)
        watcher.start()
        steps = 1
        while watcher.is_alive():
            steps += 1
            assert driver.step(driver.actions).seq == steps
        assert len(got) == 10
        assert all(type(frame) is TELEMETRY.response for frame in got)


def test_command_clients_change_the_world_between_the_steps_of_the_driver(name: str) -> None:
    with api.serve("toy", f"shm://{name}", num_envs=2) as serving, clients(name, 3) as (driver, *others):
        reset(driver)
        for client in others:
            assert client.call(SEEDS, SEEDS.request([1, 2])).success
        assert serving.host.driver.startswith("shm client of pid")
        assert driver.step(driver.actions).seq == 2


@pytest.mark.exhaustive
def test_many_clients_get_each_their_own_answers(name: str, raw_engine: subprocess.Popen[bytes]) -> None:
    wrong: list[Any] = []

    def ask(client: Any, number: int) -> None:
        for count in range(200):
            sent = b"%d of %d" % (count, number)
            answer = client._calls.unary("/t/echo", sent, soon())
            if answer != sent:
                wrong.append((sent, answer))

    with clients(name, 6) as found:
        threads = [threading.Thread(target=ask, args=(found[number % 6], number)) for number in range(12)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(PATIENCE_S)
        assert not any(thread.is_alive() for thread in threads)
    assert wrong == []


# --- failures ---


@pytest.mark.exhaustive
@both_kinds
def test_an_engine_killed_during_calls_ends_them_all(
    name: str, raw_engine: subprocess.Popen[bytes], which: int
) -> None:
    found: list[type[Exception]] = []
    with clients(name, 2) as both:
        calls = both[which]._calls

        def ask(streaming: bool) -> None:
            try:
                if streaming:
                    stream = calls.open("/t/endless")
                    while True:
                        stream.recv(soon())
                else:
                    while True:
                        calls.unary("/t/echo", bytes(300_000), soon())
            except Exception as error:
                found.append(type(error))

        threads = [threading.Thread(target=ask, args=(number % 2 == 0,)) for number in range(4)]
        for thread in threads:
            thread.start()
        time.sleep(0.1)
        raw_engine.kill()
        for thread in threads:
            thread.join(PATIENCE_S)
        assert not any(thread.is_alive() for thread in threads)
        assert found == [PeerDied] * 4
        with pytest.raises(PeerDied):
            both[which].call(SCHEMA, SCHEMA.request())


CLIENT = """
import sys, threading
import lucky_transport
from lucky_transport import api
from lucky_transport.deadline import Deadline
transport = api.open_transport(sys.argv[1])
stream = transport._calls.open("/t/endless")
stream.recv()
print("streaming", flush=True)
while True:
    transport._calls.unary("/t/echo", bytes(300_000), Deadline(20))
"""


@pytest.mark.exhaustive
@both_kinds
def test_a_client_killed_in_the_middle_of_messages_is_forgotten_by_itself(name: str, which: int) -> None:
    ended = threading.Event()
    begun: list[ServerCall] = []

    def endless(call: ServerCall) -> None:
        begun.append(call)
        call.call.on_end(ended.set)
        while True:
            call.send(bytes(1024))

    with contextlib.ExitStack() as stack:
        serving: Any = stack.enter_context(api.serve(ToyEngine(2), f"shm://{name}"))
        dispatcher = serving._servers[0]._dispatcher
        dispatcher.register("/t/endless", endless)
        dispatcher.register("/t/echo", lambda call: call.finish(call.payload))
        other = stack.enter_context(connect(name)) if which else None
        child = subprocess.Popen([sys.executable, "-c", CLIENT, f"shm://{name}"], stdout=subprocess.PIPE)
        assert child.stdout is not None
        assert child.stdout.readline() == b"streaming\n"
        time.sleep(0.05)
        child.send_signal(signal.SIGKILL)
        child.wait()
        child.stdout.close()
        assert ended.wait(PATIENCE_S)
        assert begun[0].is_ended
        survivor = other or stack.enter_context(connect(name))
        assert survivor.call(SCHEMA, SCHEMA.request()).schema.observation_size == 8
        assert reset(survivor).seq >= 1


def test_a_driver_that_was_killed_can_be_followed_and_a_command_client_says_so(name: str) -> None:
    with engine_process(name):
        driver = connect(name)
        with connect(name) as observer:
            driver.close()
            with pytest.raises(Busy, match="that one has left: connect again"):
                observer.send(observer.actions)
            with connect(name) as next_driver:
                assert reset(next_driver).seq == 1
                assert observer.call(SCHEMA, SCHEMA.request()).schema.observation_size == 8


@both_kinds
def test_a_command_client_that_writes_garbage_is_dropped_alone(name: str, which: int) -> None:
    with api.serve("toy", f"shm://{name}", num_envs=2), clients(name, 3) as found:
        bad, good = found[which], found[2]
        bad._calls._pipe.try_push(b"\xff" * 60)
        with pytest.raises((RemoteProtocolError, PeerDied)):
            bad.call(SCHEMA, SCHEMA.request())
        assert good.call(SCHEMA, SCHEMA.request()).schema.observation_size == 8
        assert reset(found[0]).seq == 1


@both_kinds
def test_a_client_that_reads_nothing_delays_no_other(name: str, which: int) -> None:
    """Its answers fill the ring and pile up a little; then its requests are left where they are."""
    with contextlib.ExitStack() as stack:
        serving: Any = stack.enter_context(api.serve(ToyEngine(2), f"shm://{name}"))
        serving._servers[0]._dispatcher.register("/t/big", lambda call: call.finish(bytes(1 << 20)))
        found = stack.enter_context(clients(name, 3))
        deaf, good = found[which]._calls, found[2]
        for _ in range(50):
            deaf.open("/t/big", shape=Shape.UNARY)
        for _ in range(50):
            assert good.call(SCHEMA, SCHEMA.request()).schema.observation_size == 8
        if which:
            reset(found[0])
            for _ in range(100):
                found[0].step(found[0].actions)
        assert len(deaf.unary("/t/big", b"", soon())) == 1 << 20  # and it works again once it reads


@both_kinds
def test_cancel_and_deadlines_reach_the_engine(name: str, which: int) -> None:
    begun: list[ServerCall] = []

    def hang(call: ServerCall) -> None:
        begun.append(call)
        call.call.wait(PATIENCE_S)

    with contextlib.ExitStack() as stack:
        serving: Any = stack.enter_context(api.serve(ToyEngine(2), f"shm://{name}"))
        serving._servers[0]._dispatcher.register("/t/hang", hang)
        calls = stack.enter_context(clients(name, 2))[which]._calls
        with pytest.raises(PeerTimeout):
            calls.unary("/t/hang", b"", Deadline(0.05))
        call = calls.open("/t/hang")
        threading.Timer(0.05, call.cancel).start()
        with pytest.raises(Cancelled):
            call.recv(soon())
        until(lambda: len(begun) == 2 and all(one.is_ended for one in begun))


@both_kinds
def test_the_end_of_the_engine_is_told_to_whoever_waits(name: str, which: int) -> None:
    began = threading.Event()
    with contextlib.ExitStack() as stack:
        serving: Any = stack.enter_context(api.serve(ToyEngine(2), f"shm://{name}"))
        serving._servers[0]._dispatcher.register("/t/hang", lambda call: (began.set(), call.call.wait(PATIENCE_S)))
        client = stack.enter_context(clients(name, 2))[which]
        stopper = threading.Thread(target=lambda: (began.wait(PATIENCE_S), serving.stop()))
        stopper.start()
        with pytest.raises((ClosedError, PeerDied)):
            client._calls.unary("/t/hang", b"", soon())
        with pytest.raises((ClosedError, PeerDied)):
            client.call(SCHEMA, SCHEMA.request())
        stopper.join(PATIENCE_S)


def test_after_a_fork_the_child_is_told_to_connect_again(name: str) -> None:
    with api.serve("toy", f"shm://{name}"), clients(name, 2) as (_, client):
        pid = os.fork()
        if not pid:
            try:
                client.call(SCHEMA, SCHEMA.request())
            except ClosedError as error:
                os._exit(0 if "connect again after fork()" in str(error) else 2)
            except BaseException:
                os._exit(3)
            os._exit(1)
        assert os.waitpid(pid, 0)[1] == 0
        assert client.call(SCHEMA, SCHEMA.request()).schema.observation_size == 8

"""Clients of one segment, one after the other and at once: who steps, who only asks, who is let in, who leaves."""

import contextlib
import itertools
import os
import signal
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import lucky_transport
import lucky_transport_shm.client as shm_client
from lucky_transport import api, errors
from lucky_transport.engines.cartpole import CartPoleWorld, CartPoleWorlds
from lucky_transport.messages import SetStateRequest
from lucky_transport.messages.methods import method
from lucky_transport.process import unique_name
from lucky_transport.rpc.lifecycle import Shape
from lucky_transport.sessions.api import AdvanceRequest
from lucky_transport.sessions.batch import WorldsEngine
from lucky_transport.sessions.client import SessionClient
from tests.plugins.shm.conftest import SCHEMA, connect, engine_process, reset
from tests.support.interrupted_moments import interrupted_at
from tests.support.resources import descriptors_of, measure
from tests.support.scripted_engine import ScriptedEngine
from tests.support.waiting import PATIENCE_S, beside, soon, suspend

pytestmark = pytest.mark.usefixtures("forked_engines")


def test_an_engine_that_dies_while_a_second_client_connects_is_not_reachable(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    connect_for_commands = shm_client.CommandTransport
    with engine_process(name) as process, connect(name):

        def connect_after_the_death(*arguments: Any) -> Any:
            process.kill()
            return connect_for_commands(*arguments)

        monkeypatch.setattr(shm_client, "CommandTransport", connect_after_the_death)
        with pytest.raises(errors.NotReachable, match="no engine listens"):
            connect(name, connect_timeout_s=2)


def test_a_second_client_in_the_same_process_may_not_step_either(name: str) -> None:
    with engine_process(name), connect(name), connect(name) as second:
        assert not second.capabilities.lockstep
        with pytest.raises(
            errors.Busy, match=f"pid {os.getpid()}; this one can send commands only; close that client first"
        ):
            second.send(second.actions)
        with pytest.raises(errors.LocalProtocolError, match="without a send"):
            second.recv()


def test_a_second_client_that_does_not_see_the_engines_socket_is_told_to_share_its_directory(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with contextlib.ExitStack() as stack:
        elsewhere = stack.enter_context(tempfile.TemporaryDirectory(dir="/tmp"))  # a socket's path is short
        with monkeypatch.context() as there:
            there.setenv("XDG_RUNTIME_DIR", elsewhere)
            stack.enter_context(engine_process(name))
        with connect(name), pytest.raises(errors.Busy) as caught:
            connect(name, connect_timeout_s=0.1)
    assert "has a client already, pid" in str(caught.value)
    assert f"/dev/shm/{name} is there and its engine lives" in str(caught.value)
    assert "share the runtime directory too" in str(caught.value)
    assert "close that one" not in str(caught.value)


def test_a_client_that_an_engine_does_not_let_in_keeps_nothing(name: str) -> None:
    with engine_process(name) as process:
        with connect(name) as client:
            reset(client)
            suspend(process.pid)
        before = measure(name)
        try:
            with pytest.raises(
                errors.PeerTimeout, match=r", stopped\) did not let go of its last client .*`kill -CONT`"
            ):
                connect(name, connect_timeout_s=0.05)
        finally:
            os.kill(process.pid, signal.SIGCONT)
        assert not measure(name).exceeds(before)
        with connect(name) as client:
            reset(client)


def test_a_forked_child_that_outlives_a_killed_engine_keeps_nobody_waiting(name: str) -> None:
    with engine_process(name) as process, connect(name) as client:
        reset(client)
        pid = os.fork()
        if pid == 0:
            time.sleep(30)
            os._exit(0)
        process.kill()
        with pytest.raises(errors.PeerDied):
            client.step(client.actions)
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)


# --- what they call ---


SEEDS = method("BatchService/SetSeeds")
SET_STATE = method("/lucky_transport.v1.StateService/SetState")
TELEMETRY = method("TelemetryService/StreamTelemetry")


@contextlib.contextmanager
def clients(name: str, count: int, **settings: Any) -> Iterator[list[Any]]:
    """Open so many clients: the first may step, all others send commands."""
    with contextlib.ExitStack() as stack:
        yield [stack.enter_context(connect(name, **settings)) for _ in range(count)]


both_kinds = pytest.mark.parametrize("which", [0, 1], ids=["the driver", "a command client"])


def test_a_message_beyond_the_limit_is_refused_and_the_next_call_works(name: str) -> None:
    with api.serve("toy", f"shm://{name}"), connect(name) as client:
        with pytest.raises(errors.SpecError, match="the limit is 4194304; send less, or raise max_message_bytes"):
            client.call(SET_STATE, SetStateRequest(0, bytes(5 << 20)))
        assert client.call(SCHEMA, SCHEMA.request()).schema.observation_size == 8


@pytest.mark.parametrize("mebibytes", [5, pytest.param(60, marks=pytest.mark.exhaustive)])
def test_the_engine_that_make_starts_takes_messages_as_long_as_its_caller_allows(mebibytes: int) -> None:
    state = os.urandom(1 << 20) * mebibytes
    with lucky_transport.make("echo", transport="shm", max_message_bytes=64 << 20) as env:
        assert env.transport.call(SET_STATE, SetStateRequest(0, state)).observation == state


def test_command_clients_change_and_watch_the_world_between_the_steps_of_the_driver(name: str) -> None:
    with api.serve("toy", f"shm://{name}", num_envs=2) as serving, clients(name, 3) as (driver, *others):
        reset(driver)
        for client in others:
            assert client.call(SEEDS, SEEDS.request([1, 2])).success
        assert serving.host.driver.startswith("shm client of pid")
        with others[0].stream(TELEMETRY, TELEMETRY.request(target_fps=200)) as stream:
            for steps in range(2, 12):
                assert driver.step(driver.actions).seq == steps
                assert type(next(stream)) is TELEMETRY.response


# --- failures ---


def test_a_driver_that_has_left_can_be_followed_and_a_command_client_says_so(name: str) -> None:
    with engine_process(name):
        driver = connect(name)
        with connect(name) as observer:
            driver.close()
            with pytest.raises(errors.Busy, match="that one has left: connect again"):
                observer.send(observer.actions)
            with connect(name) as next_driver:
                assert reset(next_driver).seq == 1
                assert observer.call(SCHEMA, SCHEMA.request()).schema.observation_size == 8


@both_kinds
def test_a_command_client_that_writes_garbage_is_dropped_alone(name: str, which: int) -> None:
    with api.serve("toy", f"shm://{name}", num_envs=2), clients(name, 3) as found:
        bad, good = found[which], found[2]
        bad._calls.pipe.try_push(b"\xff" * 60)
        with pytest.raises((errors.RemoteProtocolError, errors.PeerDied)):
            bad.call(SCHEMA, SCHEMA.request())
        assert good.call(SCHEMA, SCHEMA.request()).schema.observation_size == 8
        assert reset(found[0]).seq == 1


@both_kinds
def test_a_client_that_reads_nothing_delays_no_other(name: str, which: int) -> None:
    """Its answers fill the ring and pile up a little; then its requests are left where they are."""
    with contextlib.ExitStack() as stack:
        serving: Any = stack.enter_context(api.serve(ScriptedEngine(2), f"shm://{name}"))
        serving._servers[0]._end.dispatcher.register("/t/big", lambda call: call.finish(bytes(1 << 20)))
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
def test_the_end_of_the_engine_is_told_to_whoever_waits(name: str, which: int) -> None:
    began = threading.Event()
    with contextlib.ExitStack() as stack:
        serving: Any = stack.enter_context(api.serve(ScriptedEngine(2), f"shm://{name}"))
        serving._servers[0]._end.dispatcher.register("/t/hang", lambda call: (began.set(), call.call.wait(PATIENCE_S)))
        client = stack.enter_context(clients(name, 2))[which]
        with beside(lambda: (began.wait(PATIENCE_S), serving.stop())):
            with pytest.raises((errors.ClosedError, errors.PeerDied)):
                client._calls.unary("/t/hang", b"", soon())
            with pytest.raises((errors.ClosedError, errors.PeerDied)):
                client.call(SCHEMA, SCHEMA.request())


# --- a signal handler interrupts one that leaves ---


def a_driver(name: str) -> Callable[[], None]:
    client = connect(name)
    reset(client)
    return client.close


def an_env(name: str) -> Callable[[], None]:
    env = lucky_transport.make(endpoint=f"shm://{name}")
    env.reset()
    return env.close


@pytest.mark.exhaustive
@pytest.mark.parametrize("opened", [a_driver, an_env])
def test_an_interrupted_close_is_made_by_the_next_one(name: str, opened: Callable[[str], Callable[[], None]]) -> None:
    with engine_process(name):
        for moment in itertools.count():
            close = opened(name)  # which needs the place of the last one
            is_interrupted = interrupted_at(moment, close)
            close()
            assert not descriptors_of(f"{name}.lock")
            if not is_interrupted:
                break


@pytest.mark.parametrize("drives", [True, False], ids=["driver", "command client"])
def test_sessions_advanced_together_are_under_way_together(drives: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    meeting, tick = threading.Barrier(8), CartPoleWorld.tick
    monkeypatch.setattr(CartPoleWorld, "tick", lambda world: (meeting.wait(PATIENCE_S), tick(world))[1])
    endpoint, worlds = f"shm://{unique_name()}", CartPoleWorlds()
    with (
        api.serve(WorldsEngine(worlds, "meeting"), endpoint),
        contextlib.nullcontext() if drives else api.open_transport(endpoint),
        api.open_transport(endpoint) as transport,
    ):
        sessions = SessionClient(transport, worlds)
        outcomes = sessions.advance_all([AdvanceRequest(sessions.create(), 3) for _ in range(8)])
        assert [done.ticks_done for done in outcomes] == [3] * 8

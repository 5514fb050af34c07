"""Deadlines, other drivers, engines that fail, and closing: how an exchange of a client ends."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

pytest.importorskip("grpc", reason="grpcio is not installed: pip install 'lucky-transport[grpc]'")

from lucky_transport.deadline import Deadline
from lucky_transport.engines.toy import ToyEngine
from lucky_transport.errors import (
    Busy,
    ClosedError,
    EngineFailed,
    PeerTimeout,
    RemoteProtocolError,
    Unimplemented,
)
from lucky_transport.messages.methods import method
from lucky_transport.serving import Serving
from lucky_transport.testing.suite import open_reference
from tests.support.resources import threads_of
from tests.support.waiting import PATIENCE_S, until, until_none_left

Serve = Callable[..., Serving]


SERVICES = ("batch", "agent")


# --- deadlines and drivers ---


class Held(ToyEngine):
    """A toy each of whose steps waits for a release of `go_on`."""

    def __init__(self, num_envs: int, **options: Any) -> None:
        super().__init__(num_envs, **options)
        self.go_on = threading.Semaphore(0)

    def step(self, control: Any) -> None:
        assert self.go_on.acquire(timeout=PATIENCE_S)
        super().step(control)


@pytest.mark.parametrize("service", SERVICES)
@pytest.mark.parametrize("num_envs", [1, 3])
def test_a_step_that_missed_its_deadline_was_done_once_and_can_be_received(
    serve: Serve, connect: Any, zeros: Any, service: str, num_envs: int
) -> None:
    engine = Held(num_envs, seed=8)
    client = connect(serve(engine), service)
    with open_reference("toy", num_envs, seed=8) as reference:
        for _ in range(2):
            with pytest.raises(PeerTimeout, match=r"within 0\.02 s.*LUCKY_STEP_TIMEOUT_S"):
                client.step(zeros(client), None, Deadline(0.02))
            with pytest.raises(PeerTimeout):
                client.recv(Deadline(0.02))
            engine.go_on.release()
            expected = reference.step(zeros(client)).observations.tobytes()
            assert client.recv().observations.tobytes() == expected
        engine.go_on.release()
        assert client.step(zeros(client)).observations.tobytes() == reference.step(zeros(client)).observations.tobytes()


@pytest.mark.parametrize("service", SERVICES)
def test_an_expired_deadline_sends_the_step_all_the_same(serve: Serve, connect: Any, zeros: Any, service: str) -> None:
    client = connect(serve(num_envs=1, step_delay_s=0.1), service)
    with pytest.raises(PeerTimeout):
        client.step(zeros(client), None, Deadline(0.0))
    assert client.recv().seq == 1
    assert client.step(zeros(client)).seq == 2


class Interrupting(ToyEngine):
    """Sends this process a Ctrl-C in its first step, once the main thread waits (else it might strike anywhere)."""

    interrupted = False

    def step(self, control: Any) -> None:
        if not self.interrupted:
            self.interrupted = True
            self._await_main_thread()
            os.kill(os.getpid(), signal.SIGINT)
        super().step(control)

    def _await_main_thread(self) -> None:
        unchanged, last = 0, ()
        while unchanged < 50:
            frames = sys._current_frames()  # pyright: ignore[reportPrivateUsage]
            frame = frames[threading.main_thread().ident or 0]
            now = (id(frame), frame.f_lasti)
            unchanged, last = (unchanged + 1, now) if now == last else (0, now)
            time.sleep(0.002)


@pytest.mark.parametrize("service", SERVICES)
def test_an_interrupted_step_can_be_received(serve: Serve, connect: Any, zeros: Any, service: str) -> None:
    client = connect(serve(Interrupting(1, seed=6, step_delay_s=0.3)), service)
    with pytest.raises(KeyboardInterrupt):
        client.step(zeros(client))
    with open_reference("toy", 1, seed=6) as reference:
        assert client.recv().observations.tobytes() == reference.step(zeros(client)).observations.tobytes()
        assert client.step(zeros(client)).observations.tobytes() == reference.step(zeros(client)).observations.tobytes()


def test_closing_ends_although_grpc_never_answers(serve: Serve, connect: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    client = connect(serve())
    forever, real_close = threading.Event(), client._connection._channel.close
    monkeypatch.setattr(client._connection._channel, "close", forever.wait)
    monkeypatch.setattr("lucky_transport_grpc.connection._CLOSE_S", 0.05)
    client.close()
    forever.set()
    real_close()


def test_a_command_has_a_deadline(serve: Serve, connect: Any) -> None:
    entered, resume = threading.Event(), threading.Event()

    class Slow(ToyEngine):
        def step(self, control: Any) -> None:
            entered.set()
            resume.wait(PATIENCE_S)

    client = connect(serve(Slow(1)), command_timeout_s=0.05)
    client.send(np.zeros((1, 2), np.float32))
    assert entered.wait(PATIENCE_S)
    seeds = method("/lucky_transport.v1.BatchService/SetSeeds")
    with pytest.raises(PeerTimeout, match=r"0\.05 s.*LUCKY_COMMAND_TIMEOUT_S"):
        client.call(seeds, seeds.request([1]))
    resume.set()
    assert client.recv().seq == 1


@pytest.mark.parametrize("first", SERVICES)
@pytest.mark.parametrize("second", SERVICES)
def test_a_second_driver_learns_which_client_drives(
    serve: Serve, connect: Any, zeros: Any, first: str, second: str
) -> None:
    serving = serve(idle_s=0.0)
    driver, other = connect(serving, first), connect(serving, second)
    driver.step(zeros(driver))
    with pytest.raises(Busy, match=rf"engine 'toy' is driven by grpc client of pid {os.getpid()} \(\w+\); close that"):
        other.step(zeros(other))
    driver.step(zeros(driver))
    driver.close()
    until(lambda: not serving.host.driver)
    assert other.step(zeros(other)).seq == 1


def test_a_legacy_client_that_does_nothing_is_replaced(serve: Serve, connect: Any, stub: Any, zeros: Any) -> None:
    serving = serve(idle_s=0.0)
    legacy = stub(serving)
    legacy.call("Step")
    client = connect(serving)
    client.step(zeros(client))
    with pytest.raises(Exception, match="is driven by grpc client of pid"):
        legacy.call("Step")


def test_a_legacy_client_that_does_something_is_not_replaced(serve: Serve, connect: Any, stub: Any, zeros: Any) -> None:
    serving = serve(idle_s=60.0)
    stub(serving).call("Step")
    client = connect(serving)
    with pytest.raises(Busy, match="is driven by grpc client ipv4:"):
        client.step(zeros(client))


# --- a chunked exchange that fails half way ---


def test_an_engine_failure_in_the_middle_of_an_exchange_ends_it(serve: Serve, connect: Any, zeros: Any) -> None:
    client = connect(serve(ToyEngine(300, fail_at=2)), "agent")  # 300 agents are two exchanges of the server
    with pytest.raises(EngineFailed, match="asked to fail at step 2"):
        client.step(zeros(client))
    assert client.step(zeros(client)).seq == 1


# --- closing ---


def test_a_call_begun_after_the_close_is_refused(serve: Serve, connect: Any) -> None:
    client = connect(serve())
    client.close()
    row = method("AgentService/GetAgentSchema")
    with pytest.raises(ClosedError):
        client.begin(row, row.request(), None)


def test_a_call_begun_while_another_thread_closes_is_refused_as_one_begun_afterwards(
    serve: Serve, connect: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    transport, row = connect(serve()), method("AgentService/GetAgentSchema")
    beginning = transport._connection._beginning
    run = beginning.run

    def run_once_closed(task: Callable[[], object]) -> None:
        transport.close()
        run(task)

    monkeypatch.setattr(beginning, "run", run_once_closed)
    with pytest.raises(ClosedError, match="the transport is closed"):
        transport.begin(row, row.request())


def test_reset_options_begun_at_an_engine_without_the_batch_service_stay_with_the_client(
    serve: Serve, connect: Any
) -> None:
    client = connect(serve(legacy=True), "agent")
    row = method("BatchService/SetResetOptions")
    assert client.begin(row, row.request(), None).result(PATIENCE_S).success
    with pytest.raises(Unimplemented, match="a legacy engine takes reset options as a contract only"):
        client.begin(row, row.request(options_json='{"a": 1}'), None)


def test_closing_releases_the_lease_and_the_threads(serve: Serve, connect: Any, zeros: Any) -> None:
    serving, before = serve(), set(threads_of("channel_spin"))
    client = connect(serving)
    client.step(zeros(client))
    client.close()
    until(lambda: not serving.host.driver)
    until_none_left(lambda: set(threads_of("channel_spin")) - before)


def test_closing_ends_a_wait_in_another_thread(serve: Serve, connect: Any, zeros: Any) -> None:
    entered, resume = threading.Event(), threading.Event()

    class Slow(ToyEngine):
        def step(self, control: Any) -> None:
            entered.set()
            resume.wait(PATIENCE_S)

    client = connect(serve(Slow(1)))
    client.send(zeros(client))
    failures: list[str] = []

    def wait() -> None:
        try:
            client.recv()
        except ClosedError as error:
            failures.append(str(error))

    waiting = threading.Thread(target=wait)
    waiting.start()
    assert entered.wait(PATIENCE_S)
    client.close()
    waiting.join(PATIENCE_S)
    resume.set()
    assert failures == ["the transport is closed; connect again"]


def test_a_frame_out_of_order_is_refused(serve: Serve, connect: Any, zeros: Any) -> None:
    client = connect(serve(), "batch")
    client.step(zeros(client))
    client._exchange._frame_seq += 1
    with pytest.raises(RemoteProtocolError, match="frame 2 after frame 2: one was lost"):
        client.step(zeros(client))

"""What a client meets when its engine dies, closes, is slow or is stopped."""

from __future__ import annotations

import os
import signal
import threading
from typing import Any

import numpy as np
import pytest

import lucky_transport_shm.client as shm_client
from lucky_transport import api
from lucky_transport.deadline import Deadline
from lucky_transport.engine import RESET
from lucky_transport.errors import (
    ClosedError,
    LocalProtocolError,
    PeerDied,
    PeerTimeout,
)
from lucky_transport.testing.suite import open_reference
from tests.plugins.shm.toys import SCHEMA, connect, engine_process, reset
from tests.support.waiting import PATIENCE_S, suspend

pytestmark = pytest.mark.usefixtures("forked_engines")


def test_an_engine_killed_while_the_client_waits_ends_the_wait(name: str) -> None:
    with engine_process(name, hang_at=2) as process, connect(name) as client:
        reset(client)
        client.send(client.actions)
        process.kill()
        with pytest.raises(PeerDied, match=f"pid {process.pid}"):
            client.recv(Deadline(PATIENCE_S))
        with pytest.raises(PeerDied, match="connect again"):
            client.send(client.actions)


def test_an_engine_that_leaves_in_a_step_ends_the_wait_too(name: str) -> None:
    with engine_process(name, exit_at=2), connect(name) as client:
        reset(client)
        with pytest.raises(PeerDied):
            client.step(client.actions)


def test_an_engine_killed_between_steps_is_noticed_by_the_next_one(name: str) -> None:
    with engine_process(name) as process, connect(name) as client:
        reset(client)
        process.kill()
        with pytest.raises(PeerDied):
            client.step(client.actions)


def test_an_engine_killed_while_a_command_waits_ends_the_wait(name: str) -> None:
    with engine_process(name) as process, connect(name) as client:
        process.kill()
        with pytest.raises(PeerDied):
            client.call(SCHEMA, SCHEMA.request(), Deadline(PATIENCE_S))


def test_an_engine_that_closes_in_order_between_steps_is_closed_and_did_not_die(name: str) -> None:
    with engine_process(name) as process, connect(name) as client:
        reset(client)
        assert process.stop() == 0
        for _ in range(2):
            with pytest.raises(ClosedError, match="the engine closed; start it and connect again"):
                client.step(client.actions)


def test_an_engine_that_closes_in_order_in_a_step_is_closed_and_did_not_die(name: str) -> None:
    with api.serve("toy", f"shm://{name}", num_envs=2) as serving, connect(name) as client:
        reset(client)
        server: Any = serving._servers[0]  # pyright: ignore[reportPrivateUsage]
        server._stopping = True
        (loop,) = (thread for thread in threading.enumerate() if thread.name == f"shm server {name}")
        loop.join(PATIENCE_S)
        assert not loop.is_alive()
        client.send(client.actions)  # nobody looks at it any more
        serving.stop()
        with pytest.raises(ClosedError, match="the engine is closing"):
            client.recv()
        with pytest.raises(ClosedError, match="the engine closed"):
            client.step(client.actions)


def test_frames_stay_readable_after_the_engine_is_gone(name: str) -> None:
    with engine_process(name) as process:
        client = connect(name)
        frame = reset(client)
        shown = frame.observations.copy()
        process.kill()
        client.close()
        assert np.array_equal(frame.observations, shown)


def test_a_slow_step_is_a_timeout_that_can_be_waited_for_again(name: str) -> None:
    with engine_process(name, step_delay_s=0.3), connect(name) as client:
        client.send(client.actions, np.full(2, RESET, np.uint8))
        with pytest.raises(PeerTimeout, match=r"no frame within 0.01 s.*LUCKY_STEP_TIMEOUT_S"):
            client.recv(Deadline(0.01))
        assert client.recv().seq == 1


@pytest.mark.parametrize("how", ["in one call", "in two calls"])
def test_ctrl_c_while_a_frame_is_awaited_leaves_the_exchange_open(name: str, how: str) -> None:
    def interrupt(number: int, frame: Any) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGALRM, interrupt)
    try:
        with engine_process(name, step_delay_s=0.4), connect(name) as client:
            if how == "in two calls":
                client.send(client.actions)
            signal.setitimer(signal.ITIMER_REAL, 0.05)
            with pytest.raises(KeyboardInterrupt):
                client.recv() if how == "in two calls" else client.step(client.actions)
            with pytest.raises(LocalProtocolError, match="outstanding"):
                client.send(client.actions)
            assert client.recv().seq == 1
            assert client.step(client.actions).seq == 2
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


@pytest.mark.parametrize("strikes_in", ["_step_slowly", "_await_frame", "_received", "_show"])
def test_a_handler_that_raises_beside_a_slow_step_leaves_the_exchange_in_order(
    name: str, monkeypatch: pytest.MonkeyPatch, strikes_in: str
) -> None:
    """Once the actions are published: at the entry of what waits for the frame, or of what takes it."""
    plain, strikes = getattr(shm_client.ShmTransport, strikes_in), [True]

    def struck(self: Any, *arguments: Any) -> Any:
        if self._channel.seq == 2 and strikes:
            strikes.clear()
            raise KeyboardInterrupt
        return plain(self, *arguments)

    monkeypatch.setattr(shm_client.ShmTransport, strikes_in, struck)
    with (
        engine_process(name, step_delay_s=0.2, seed=6),
        connect(name) as client,
        open_reference("toy", 2, seed=6) as reference,
    ):
        expected = [reset(reference).observations.tobytes()]
        expected += [reference.step(reference.actions).observations.tobytes() for _ in range(2)]
        reset(client)
        with pytest.raises(KeyboardInterrupt):
            client.step(client.actions)
        if strikes_in in ("_step_slowly", "_await_frame"):
            with pytest.raises(LocalProtocolError, match="outstanding"):
                client.send(client.actions)
            assert client.recv().observations.tobytes() == expected[1]
        else:
            with pytest.raises(LocalProtocolError, match="without a send"):
                client.recv()
        assert client.step(client.actions).observations.tobytes() == expected[2]


def test_a_stopped_process_is_a_timeout_not_a_death(name: str) -> None:
    with engine_process(name) as process, connect(name) as client:
        reset(client)
        suspend(process.pid)
        try:
            with pytest.raises(PeerTimeout, match=rf"the engine \(pid {process.pid}, stopped\) sent no frame"):
                client.step(client.actions, deadline=Deadline(0.1))
        finally:
            os.kill(process.pid, signal.SIGCONT)
        assert client.recv().seq == 2

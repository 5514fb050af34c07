"""Clients of one segment: killed ones, second ones, one after the other, and those that fork."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import tempfile
import time
from typing import Any

import pytest

import lucky_transport_shm.client as shm_client
from lucky_transport.errors import (
    Busy,
    ClosedError,
    LocalProtocolError,
    NotReachable,
    PeerDied,
    PeerTimeout,
)
from tests.plugins.shm.toys import SCHEMA, connect, engine_process, reset
from tests.support.resources import measure
from tests.support.waiting import suspend

pytestmark = pytest.mark.usefixtures("forked_engines")

_CLIENT = """
import sys, time, numpy as np
from lucky_transport import api
client = api.open_transport(sys.argv[1])
client.step(client.actions, np.ones(client.spec.num_envs, np.uint8))
if sys.argv[2] == "midway":
    client.send(client.actions)
print("driving", flush=True)
time.sleep(60)
"""


@pytest.mark.parametrize("moment", ["between", pytest.param("midway", marks=pytest.mark.exhaustive)])
def test_a_killed_client_is_replaced_by_the_next_one(name: str, moment: str) -> None:
    with engine_process(name, step_delay_s=0.02):
        first = subprocess.Popen([sys.executable, "-c", _CLIENT, f"shm://{name}", moment], stdout=subprocess.PIPE)
        assert first.stdout is not None
        assert first.stdout.readline() == b"driving\n"
        first.kill()
        first.wait()
        first.stdout.close()
        with connect(name) as second:
            assert reset(second).seq == 1
            assert second.call(SCHEMA, SCHEMA.request()).schema.observation_size == 8


@pytest.mark.exhaustive
def test_a_second_client_may_not_step_and_is_told_the_first_ones_pid(name: str) -> None:
    with engine_process(name):
        first = subprocess.Popen([sys.executable, "-c", _CLIENT, f"shm://{name}", ""], stdout=subprocess.PIPE)
        assert first.stdout is not None
        first.stdout.readline()
        with connect(name) as second, pytest.raises(Busy, match=f"driven by the shm client of pid {first.pid}"):
            reset(second)
        first.kill()
        first.wait()
        first.stdout.close()


def test_an_engine_that_dies_while_a_second_client_connects_is_not_reachable(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    connect_for_commands = shm_client.CommandTransport
    with engine_process(name) as process, connect(name):

        def connect_after_the_death(*arguments: Any) -> Any:
            process.kill()
            return connect_for_commands(*arguments)

        monkeypatch.setattr(shm_client, "CommandTransport", connect_after_the_death)
        with pytest.raises(NotReachable, match="no engine listens"):
            connect(name, connect_timeout_s=2)


def test_a_second_client_in_the_same_process_may_not_step_either(name: str) -> None:
    with engine_process(name), connect(name), connect(name) as second:
        assert not second.capabilities.lockstep
        with pytest.raises(Busy, match=f"pid {os.getpid()}; this one can send commands only; close that client first"):
            second.send(second.actions)
        with pytest.raises(LocalProtocolError, match="without a send"):
            second.recv()


def test_one_engine_serves_several_clients_one_after_the_other(name: str) -> None:
    with engine_process(name):
        for _ in range(3):
            with connect(name) as client:
                assert reset(client).seq == 1


def test_a_second_client_that_does_not_see_the_engines_socket_is_told_to_share_its_directory(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with contextlib.ExitStack() as stack:
        elsewhere = stack.enter_context(tempfile.TemporaryDirectory(dir="/tmp"))  # a socket's path is short
        with monkeypatch.context() as there:
            there.setenv("XDG_RUNTIME_DIR", elsewhere)
            stack.enter_context(engine_process(name))
        with connect(name), pytest.raises(Busy) as caught:
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
            with pytest.raises(PeerTimeout, match=r", stopped\) did not let go of its last client .*`kill -CONT`"):
                connect(name, connect_timeout_s=0.05)
        finally:
            os.kill(process.pid, signal.SIGCONT)
        assert not measure(name).exceeds(before)
        with connect(name) as client:
            reset(client)


def test_a_forked_child_cannot_use_the_clients_connection_and_can_read_its_arrays(name: str) -> None:
    with engine_process(name), connect(name) as client:
        frame = reset(client)
        shown = float(frame.observations.sum())
        pid = os.fork()
        if pid == 0:
            code = 1
            try:
                client.step(client.actions)
            except ClosedError as error:
                code = 0 if "parent" in str(error) and float(frame.observations.sum()) == shown else 2
            finally:
                os._exit(code)
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
        assert client.step(client.actions).seq == 2


def test_a_forked_child_that_outlives_a_killed_engine_keeps_nobody_waiting(name: str) -> None:
    with engine_process(name) as process, connect(name) as client:
        reset(client)
        pid = os.fork()
        if pid == 0:
            time.sleep(30)
            os._exit(0)
        process.kill()
        with pytest.raises(PeerDied):
            client.step(client.actions)
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)

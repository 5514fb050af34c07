"""What is wrong in luckyrobots 0.5.0 with connecting to engines, launching and stopping them: README's list, shown.

Nothing here may stop or kill a process that it did not start: what would is replaced.
"""

# pyright: basic
# Reason: luckyrobots ships no types.

from __future__ import annotations

import fcntl
import os
import signal
import struct
import termios
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from tests.support.waiting import until

_CHATTY_ENGINE = """#!/bin/sh
cd "$(dirname "$0")"
echo "$@" >arguments
head -c 200000 /dev/zero >&2
: >done
"""


_CURED = pytest.mark.only_over_grpc("the launcher cures the health check")


class TestHealthCheck:
    @_CURED
    def test_it_never_succeeds_although_the_server_answers(self, client: Any) -> None:
        assert not client.health_check()
        assert not client.wait_for_server(timeout=0.2, poll_interval=0.05)
        assert client.get_mujoco_info().success

    def test_it_succeeds_once_the_stub_was_touched(self, client: Any) -> None:
        assert client.mujoco is not None
        assert client.health_check()

    @_CURED
    def test_so_a_session_never_connects(self, lucky: Any, port: int) -> None:
        session = lucky.Session(port=port)
        with pytest.raises(lucky.GrpcConnectionError, match=r"timeout after 0\.3 seconds"):
            session.connect(timeout_s=0.3, robot="quadruped")
        session.close(stop_engine=False)

    def test_readmes_remedy_lets_it_connect(self, session: Any) -> None:
        assert session.engine_client.health_check()

    @_CURED
    def test_a_lucky_env_works_after_it_has_wasted_its_timeout(
        self, lucky: Any, port: int, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        waited: list[bool] = []
        wait = lucky.LuckyEngineClient.wait_for_server
        monkeypatch.setattr(
            lucky.LuckyEngineClient, "wait_for_server", lambda *args, **named: waited.append(wait(*args, **named))
        )
        with lucky.LuckyEnv(port=port, timeout=2.0) as env:  # wasted, and then the deadline of each call
            assert env.reset()[0].shape == (48,)
        assert waited == [False]

    def test_a_sysid_collector_collects_once_it_is_repaired(self, lucky: Any, port: int, repaired: None) -> None:
        with lucky.sysid.collector.EngineCollector(port=port, robot_name="quadruped") as collector:
            found = collector.collect(np.zeros((4, 12)), dt=0.02)
        assert (found.qpos.shape, found.qvel.shape, found.ctrl.shape) == ((4, 19), (4, 18), (4, 12))


class TestSession:
    def test_the_quickstart_of_its_readme_lacks_the_robot(self, lucky: Any, port: int, repaired: None) -> None:
        with pytest.raises(ValueError, match="Robot name is required"):
            lucky.Session(port=port).connect(timeout_s=1.0)

    def test_so_inspect_always_fails(
        self, lucky: Any, port: int, repaired: None, capsys: pytest.CaptureFixture[str]
    ) -> None:
        assert lucky.cli.inspect_main("127.0.0.1", port) == 2
        assert "Robot name is required" in capsys.readouterr().err

    def test_leaving_its_block_stops_engines_even_those_it_did_not_start(
        self, lucky: Any, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        stopped: list[bool] = []
        monkeypatch.setattr(lucky.session, "stop_luckyengine", lambda: stopped.append(True))
        with lucky.Session():
            pass
        assert stopped == [True]

    def test_the_lock_file_of_somebody_else_is_removed(
        self, lucky: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
    ) -> None:
        lock = tmp_path / "luckyengine_lock"
        lock.write_text("1")  # a process that is not ours
        manager = lucky.engine.manager
        monkeypatch.setattr(manager, "LOCK_FILE", str(lock))
        process = manager.EngineProcess()
        assert not process.launch("flat", "quadruped", executable_path="/bin/false")  # a stale lock refuses for ever
        assert process.stop()
        assert not lock.exists()

    def test_it_kills_every_process_with_the_engines_name_in_its_command_line(
        self, lucky: Any, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        commands: list[list[str]] = []
        manager = lucky.engine.manager

        def run(command: list[str], **_: Any) -> Any:
            commands.append(command)
            return SimpleNamespace(returncode=1)

        monkeypatch.setattr(manager, "subprocess", SimpleNamespace(run=run, TimeoutExpired=TimeoutError))
        manager._kill_unix_processes()
        assert commands == [["pkill", "-f", "LuckyEngine"]]


class TestLaunch:
    def test_an_engine_that_writes_more_than_a_pipe_holds_to_its_stderr_stands_still(
        self, lucky: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
    ) -> None:
        manager = lucky.engine.manager
        monkeypatch.setattr(manager, "LOCK_FILE", str(tmp_path / "lock"))
        script = tmp_path / "engine.sh"
        script.write_text(_CHATTY_ENGINE)
        process = manager.EngineProcess()
        assert process.launch("flat", "quadruped", executable_path=str(script), headless=True, grpc_port=7)
        child = process._process
        try:
            capacity = fcntl.fcntl(child.stderr, fcntl.F_GETPIPE_SZ)
            until(lambda: _waiting(child.stderr) == capacity)  # and luckyrobots never reads a byte of it
            assert not (tmp_path / "done").exists()
            arguments = (tmp_path / "arguments").read_text().split()
        finally:
            process._shutdown_event.set()
            os.killpg(child.pid, signal.SIGKILL)
            child.communicate()
        # by luckyrobots' own docstring, engines read none of these
        assert {"--grpc-robot=quadruped", "--grpc-port=7", "--sim-mode=realtime", "-Headless"} <= set(arguments)


def _waiting(pipe: Any) -> int:
    """Return how many bytes lie in a pipe."""
    return struct.unpack("i", fcntl.ioctl(pipe, termios.FIONREAD, bytes(4)))[0]

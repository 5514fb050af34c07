"""Bad luck with real processes: killed engines, killed clients, second clients, forks, hostile and old peers."""

from __future__ import annotations

import contextlib
import os
import signal
import struct
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from mmap import mmap
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import lucky_transport_shm.client as shm_client
from lucky_transport import api
from lucky_transport.config import load_settings
from lucky_transport.deadline import Deadline
from lucky_transport.endpoint import Endpoint
from lucky_transport.engine import RESET
from lucky_transport.engines.toy import ToyEngine
from lucky_transport.errors import (
    Busy,
    ClosedError,
    ConfigError,
    EngineFailed,
    LocalProtocolError,
    NotReachable,
    PeerDied,
    PeerTimeout,
    RemoteProtocolError,
    SegmentError,
)
from lucky_transport.messages.methods import method
from lucky_transport.process import EngineProcess
from lucky_transport.shm.files.liveness import start_time
from lucky_transport.shm.segment.layout import FIELDS
from lucky_transport.testing.suite import open_reference
from tests.support.resources import measure
from tests.support.waiting import PATIENCE_S, suspend

SHM = Path("/dev/shm")
SCHEMA = method("AgentService/GetAgentSchema")


@contextlib.contextmanager
def engine_process(name: str, engine: str = "toy", **options: Any) -> Iterator[EngineProcess]:
    process = EngineProcess(engine, [f"shm://{name}"], num_envs=options.pop("num_envs", 2), options=options)
    try:
        yield process
    finally:
        process.stop()


def connect(name: str, **settings: Any) -> Any:
    return api.open_transport(f"shm://{name}", load_settings(settings))


def reset(client: Any) -> Any:
    return client.step(client.actions, np.full(client.spec.num_envs, RESET, np.uint8))


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


@pytest.mark.parametrize("moment", ["between", "midway"])
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


def test_nobody_there_is_reported_with_the_name(name: str) -> None:
    with pytest.raises(NotReachable, match=name):
        connect(name, connect_timeout_s=0.05)
    with pytest.raises(ConfigError, match="LUCKY_SHM_NAME"):
        api.open_transport(Endpoint("shm"), load_settings(environ={}))


def test_a_foreign_file_is_refused_by_both_ends(name: str) -> None:
    (SHM / name).write_bytes(b"x" * 10_000)
    try:
        with pytest.raises(SegmentError):
            connect(name, connect_timeout_s=0.05)
        with pytest.raises(SegmentError):
            api.serve("toy", f"shm://{name}")
    finally:
        (SHM / name).unlink()


def test_a_name_in_use_is_refused_to_a_second_engine(name: str) -> None:
    with engine_process(name) as process, pytest.raises(Busy, match=f"pid {process.pid}"):
        api.serve("toy", f"shm://{name}")


def test_a_killed_engines_segment_is_taken_over_by_the_next_engine(name: str) -> None:
    with engine_process(name) as process:
        process.kill()
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
        assert (SHM / name).exists()
        with engine_process(name), connect(name) as client:
            assert reset(client).seq == 1


def test_what_a_killed_engine_left_goes_when_the_next_engine_process_starts(name: str) -> None:
    with engine_process(name) as process:
        process.kill()
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
        assert (SHM / name).exists()
        with engine_process(f"{name}_next"):
            assert not (SHM / name).exists()


class SeedClient:
    """A peer that knows only the fields of the original plan: no features, no wake-ups, no locks; plain memory."""

    def __init__(self, name: str) -> None:
        with (SHM / name).open("r+b") as file:
            self._memory = mmap(file.fileno(), 0)
        self.num_envs, self.obs_size, self.act_size = struct.unpack_from("<III", self._memory, 20)
        self._offsets = struct.unpack_from("<5Q", self._memory, 384)
        struct.pack_into("<I", self._memory, 12, os.getpid())

    def step(self, actions: Any, resets: bytes) -> tuple[Any, Any, bytes]:
        obs, act, rewards, dones, control = self._offsets
        self._memory[act : act + actions.nbytes] = actions.tobytes()
        self._memory[control : control + self.num_envs] = resets
        counters = memoryview(self._memory).cast("Q")
        counters[256 // 8] += 1
        deadline = time.monotonic() + 20
        while counters[128 // 8] != counters[256 // 8] and time.monotonic() < deadline:
            pass
        assert counters[128 // 8] == counters[256 // 8]
        n = self.num_envs
        shape = (n, self.obs_size)
        return (
            np.frombuffer(self._memory, np.float32, n * self.obs_size, obs).reshape(shape).copy(),
            np.frombuffer(self._memory, np.float32, n, rewards).copy(),
            self._memory[dones : dones + n],
        )


def test_a_client_that_knows_only_the_original_plan_steps_the_engine(name: str) -> None:
    with engine_process(name, num_envs=3), api.serve("toy", "inproc://plan", num_envs=3):
        old = SeedClient(name)
        with api.open_transport("inproc://plan") as reference:
            generator = np.random.default_rng(0)
            resets = np.ones(3, np.uint8)
            for _ in range(30):
                actions = generator.uniform(-1, 1, (3, 2)).astype(np.float32)
                frame = reference.step(actions, resets)
                observations, rewards, dones = old.step(actions, resets.tobytes())
                assert np.array_equal(observations, frame.observations)
                assert np.array_equal(rewards, frame.rewards)
                assert dones == frame.terminated.tobytes()
                resets = (frame.terminated | frame.truncated).astype(np.uint8)


@pytest.mark.parametrize("jump", [2, 2**40, -1])
def test_a_client_that_breaks_the_action_counter_does_not_break_the_engine(name: str, jump: int) -> None:
    with api.serve("toy", f"shm://{name}", num_envs=2):
        hostile = connect(name)
        reset(hostile)
        with (SHM / name).open("r+b") as file, mmap(file.fileno(), 0) as memory:
            value = struct.unpack_from("<Q", memory, FIELDS["action_seq"].offset)[0]
            struct.pack_into("<Q", memory, FIELDS["action_seq"].offset, (value + jump) % 2**64)
        hostile.close()
        with connect(name) as client:
            assert reset(client).seq == 1


def test_garbage_in_the_command_ring_ends_the_commands_and_stepping_goes_on(name: str) -> None:
    with api.serve("toy", f"shm://{name}", num_envs=2), connect(name) as client:
        reset(client)
        ring = client._segment.layout["ring_c2s"].offset
        with (SHM / name).open("r+b") as file, mmap(file.fileno(), 0) as memory:
            memory[ring + 256 : ring + 512] = b"\xff" * 256
            struct.pack_into("<I", memory, ring, 64)
        for _ in range(20):
            client.step(client.actions)
        for _ in range(2):
            with pytest.raises(RemoteProtocolError, match="skips 524288 bytes"):
                client.call(SCHEMA, SCHEMA.request())
        assert client.step(client.actions).seq == 22
        client.close()
        with connect(name) as another:
            assert another.call(SCHEMA, SCHEMA.request()).schema.observation_size == 8


def test_a_reused_client_pid_is_not_taken_for_the_client(name: str) -> None:
    """The header names this process with another start time: the client it meant is dead."""
    with api.serve("toy", f"shm://{name}", num_envs=2):
        with (SHM / name).open("r+b") as file, mmap(file.fileno(), 0) as memory:
            struct.pack_into("<Q", memory, FIELDS["client_start"].offset, start_time(os.getpid()) + 1)
            struct.pack_into("<I", memory, FIELDS["client_pid"].offset, os.getpid())
        with connect(name, connect_timeout_s=5) as client:
            assert reset(client).seq == 1


def test_an_engine_that_answers_with_the_wrong_message_fails_that_call_alone(name: str) -> None:
    class Confused(ToyEngine):
        @property
        def services(self) -> dict[str, Any]:
            return {SCHEMA.name: lambda request: "no message"}

    with api.serve(Confused(2), f"shm://{name}"), connect(name) as client:
        with pytest.raises(EngineFailed, match="GetAgentSchema is no GetAgentSchemaResponse"):
            client.call(SCHEMA, SCHEMA.request())
        assert reset(client).seq == 1


def test_a_server_that_breaks_says_so_and_keeps_no_client_waiting(
    name: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(self: Any, found: int) -> None:
        raise ZeroDivisionError("a bug")

    with api.serve("toy", f"shm://{name}", num_envs=2), connect(name) as client:
        monkeypatch.setattr("lucky_transport_shm.server.ShmServer._handle", broken)
        with pytest.raises(ClosedError, match="the engine closed"):
            reset(client)
        assert "a bug" in caplog.text

"""Names in use, foreign files, hostile and old peers; and sides that come, end or are struck meanwhile."""

import os
import struct
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from mmap import mmap
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import lucky_transport_shm.client as shm_client
from lucky_transport import api, errors, native
from lucky_transport.config import load_settings
from lucky_transport.endpoint import Endpoint
from lucky_transport.shm.files.liveness import start_time
from lucky_transport.shm.segment import header
from lucky_transport.shm.segment.layout import FIELDS
from lucky_transport.testing.suite import open_reference
from tests.plugins.shm.conftest import SCHEMA, connect, engine_process, reset
from tests.support.waiting import PATIENCE_S, until

pytestmark = pytest.mark.usefixtures("forked_engines")


SHM = Path("/dev/shm")


def test_nobody_there_is_reported_with_the_name(name: str) -> None:
    with pytest.raises(errors.NotReachable, match=name):
        connect(name, connect_timeout_s=0.05)
    with pytest.raises(errors.ConfigError, match="LUCKY_SHM_NAME"):
        api.open_transport(Endpoint("shm"), load_settings(environ={}))


def test_what_a_killed_engine_left_goes_when_the_next_starts_which_may_have_its_name(name: str) -> None:
    with engine_process(name) as process:
        assert (SHM / name).exists()  # once it is dead, any engine that starts meanwhile may remove it
        process.kill()
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
        with api.serve("toy", f"shm://{name}_next"):  # as `make` and `lucky-transport serve` do
            assert not (SHM / name).exists()
        with engine_process(name), connect(name) as client:
            assert reset(client).seq == 1


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


def test_garbage_in_the_command_ring_ends_the_commands_and_stepping_goes_on(name: str) -> None:
    with api.serve("toy", f"shm://{name}", num_envs=2), connect(name) as client:
        reset(client)
        memory, ring = client._segment.mapping, client._segment.layout["ring_c2s"].offset
        memory[ring + 256 : ring + 512] = b"\xff" * 256
        struct.pack_into("<I", memory, ring, 64)
        for _ in range(20):
            client.step(client.actions)
        for _ in range(2):
            with pytest.raises(errors.RemoteProtocolError, match="skips 524288 bytes"):
                client.call(SCHEMA, SCHEMA.request())
        assert client.step(client.actions).seq == 22
        client.close()
        with connect(name) as another:
            assert another.call(SCHEMA, SCHEMA.request()).schema.observation_size == 8


def test_a_server_that_breaks_says_so_and_keeps_no_client_waiting(
    name: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(self: Any, found: int) -> None:
        raise ZeroDivisionError("a bug")

    with api.serve("toy", f"shm://{name}", num_envs=2), connect(name) as client:
        monkeypatch.setattr("lucky_transport_shm.server.StepLoop._handle", broken)
        with pytest.raises(errors.ClosedError, match="the engine closed"):
            reset(client)
        assert "a bug" in caplog.text


# --- who comes and who leaves ---


#: Long enough for an engine that waits for something to look at its client a few times.
LOOKS_S = 0.2


@contextmanager
def served(name: str) -> Iterator[mmap]:
    """Serve an engine; its segment, as a client that writes it word by word sees it."""
    with (
        api.serve("toy", f"shm://{name}", num_envs=2),
        (SHM / name).open("r+b") as file,
        mmap(file.fileno(), 0) as memory,
    ):
        yield memory


def steps(name: str) -> bool:
    """True when a client of its own can step the engine."""
    with connect(name) as client:
        reset(client)
        return client.step(client.actions).seq == 2


@pytest.mark.parametrize("jump", [2, 2**40, -1])
def test_a_client_that_breaks_the_action_counter_does_not_break_the_engine(name: str, jump: int) -> None:
    with served(name) as memory:
        with connect(name) as hostile:
            reset(hostile)
            header.put(memory, "action_seq", (header.get(memory, "action_seq") + jump) % 2**64)
        assert steps(name)


def test_a_reused_client_pid_is_not_taken_for_the_client(name: str) -> None:
    """The header names this process with another start time: the client it meant is dead."""
    with served(name) as memory:
        header.put(memory, "client_start", start_time(os.getpid()) + 1)
        header.put(memory, "client_pid", os.getpid())
        assert steps(name)


def test_a_client_that_takes_long_to_come_is_not_taken_for_one_that_left(name: str) -> None:
    with served(name) as memory:
        header.put(memory, "client_start", start_time(os.getpid()))
        header.put(memory, "client_features", 1)
        time.sleep(LOOKS_S)
        header.put(memory, "client_pid", os.getpid())
        time.sleep(LOOKS_S)
        assert header.get(memory, "client_features") == 1
        assert header.get(memory, "client_pid") == os.getpid()
        header.put(memory, "client_start", 0)
        header.put(memory, "client_pid", 0)
        until(lambda: not header.get(memory, "client_features"))


def test_a_client_that_came_and_left_before_the_engine_looked_is_let_go(name: str) -> None:
    with served(name) as memory:
        header.put(memory, "client_features", 1)
        until(lambda: not header.get(memory, "client_features"))
        assert steps(name)


def test_a_client_that_died_before_it_said_that_it_is_there_is_let_go(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lucky_transport_shm.attached_client.LOOP_SLICE_NS", int(2 * PATIENCE_S * 1e9))
    with served(name) as memory:
        header.put(memory, "client_start", start_time(os.getpid()) + 1)
        header.put(memory, "client_features", 1)
        until(lambda: header.get(memory, "park_engine"))
        native.wake(memory, FIELDS["park_engine"].offset)
        time.sleep(LOOKS_S)
        header.put(memory, "client_pid", os.getpid())
        until(lambda: not header.get(memory, "client_pid"))


def test_a_client_says_that_it_comes_and_that_it_is_there(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[tuple[bool, int]] = []

    def wake(memory: mmap, park: int, wake: Callable[[mmap, int], object] = native.wake) -> None:
        said.append((header.get(memory, "client_features") > 0, header.get(memory, "client_pid")))
        wake(memory, park)

    with served(name):
        monkeypatch.setattr(native, "wake", wake)
        assert steps(name)
    assert said[:2] == [(True, 0), (True, os.getpid())]


def test_a_client_that_died_while_it_came_is_in_nobodys_way(name: str) -> None:
    with served(name) as memory:
        header.put(memory, "client_start", start_time(os.getpid()))
        header.put(memory, "client_features", 1)
        time.sleep(LOOKS_S)
        assert steps(name)


def test_an_engine_that_closes_in_order_in_a_step_is_closed_and_did_not_die(name: str) -> None:
    with api.serve("toy", f"shm://{name}", num_envs=2) as serving, connect(name) as client:
        reset(client)
        thread: Any = next(thread for thread in threading.enumerate() if thread.name == f"shm server {name}")
        thread._target.__self__._stopping = True
        thread.join(PATIENCE_S)
        assert not thread.is_alive()
        client.send(client.actions)  # nobody looks at it any more
        serving.stop()
        with pytest.raises(errors.ClosedError, match="the engine is closing"):
            client.recv()
        with pytest.raises(errors.ClosedError, match="the engine closed"):
            client.step(client.actions)


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
            with pytest.raises(errors.LocalProtocolError, match="outstanding"):
                client.send(client.actions)
            assert client.recv().observations.tobytes() == expected[1]
        else:
            with pytest.raises(errors.LocalProtocolError, match="without a send"):
                client.recv()
        assert client.step(client.actions).observations.tobytes() == expected[2]

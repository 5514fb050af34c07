"""A client that writes what it may not gets an error and harms neither the engine of a kit nor the next client."""

import os
import signal
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest

from lucky_transport.deadline import Deadline
from lucky_transport.errors import TransportError
from lucky_transport.messages import GetJointStateRequest, StreamCameraRequest
from lucky_transport.messages.methods import method
from lucky_transport.process import unique_name
from lucky_transport.shm.ring import HEAD_BYTES
from lucky_transport.shm.ring_pipe import open_writer
from lucky_transport.shm.segment.layout import FIELDS, HEADER_BYTES
from lucky_transport.shm.segment.segment import open_segment
from lucky_transport.transport import Transport
from tests.support.foreign_files import MakeForeignFile
from tests.support.kit_engine import KitEngine
from tests.support.waiting import PATIENCE_S, soon, until, until_none_left

NUM_ENVS = 4
ENGINE = (NUM_ENVS,)
SHM = Path("/dev/shm")
JOINTS, CAMERA = method("MujocoService/GetJointState"), method("CameraService/StreamCamera")
ACTIONS = np.ones((NUM_ENVS, 1), np.float32)


def segment_of(engine: KitEngine) -> Any:
    return open_segment(engine.name, soon())


def put32(segment: Any, offset: int, value: int) -> None:
    segment.mapping[offset : offset + 4] = value.to_bytes(4, "little")


def broken_write_position(segment: Any) -> None:
    put32(segment, segment.layout["ring_c2s"].offset, 0x7FFFFFF8)


def broken_read_position(segment: Any) -> None:
    put32(segment, segment.layout["ring_s2c"].offset + 128, 0x7FFFFFF8)


def record(content: bytes) -> Callable[[Any], None]:
    def write(segment: Any) -> None:
        ring = segment.layout["ring_c2s"]
        open_writer(segment.mapping, ring.offset, ring.size - HEAD_BYTES).try_push(content)

    write.__name__ = f"a record of {len(content)} bytes"
    return write


def assert_serves(engine: KitEngine) -> None:
    """Assert that the next client steps, calls and reads images."""
    with engine.connect() as client:
        client.step(ACTIONS)
        assert client.call(JOINTS, GetJointStateRequest()).success
        with client.stream(CAMERA, StreamCameraRequest(target_fps=500)) as stream:
            assert len(next(stream).data) == 64 * 64 * 4


@pytest.mark.parametrize(
    "attack",
    [broken_write_position, broken_read_position, record(b"\1"), record(b"\xff" * 64), record(bytes(64))],
)
def test_commands_that_are_garbage_end_the_commands_of_that_client_alone(
    engine: KitEngine, attack: Callable[[Any], None]
) -> None:
    with engine.connect() as client:
        client.step(ACTIONS)
        attack(segment_of(engine))
        if attack is not broken_read_position:
            client.step(ACTIONS)
        with pytest.raises(TransportError):
            client.call(JOINTS, GetJointStateRequest(), Deadline(0.5))
        client.step(ACTIONS)
    assert_serves(engine)


@pytest.mark.parametrize("ahead", [2, 1000, 2**63])
def test_an_action_counter_out_of_order_drops_the_exchange(engine: KitEngine, ahead: int) -> None:
    segment = segment_of(engine)
    with engine.connect() as client:
        client.step(ACTIONS)
        at = FIELDS["action_seq"].offset
        now = int.from_bytes(segment.mapping[at : at + 8], "little")
        segment.mapping[at : at + 8] = ((now + ahead) % 2**64).to_bytes(8, "little")
    assert_serves(engine)


@pytest.mark.parametrize("seed", range(8))
def test_random_writes_into_all_that_a_client_may_write_end_nothing(engine: KitEngine, seed: int) -> None:
    random, segment = Random(seed), segment_of(engine)
    words = [FIELDS[name].offset for name in ("action_seq", "frame_seq", "park_engine", "park_frame", "park_command")]
    words += [FIELDS[name].offset for name in ("heartbeat", "frame_status")]
    rings = [segment.layout[name] for name in ("ring_c2s", "ring_s2c")]
    words += [ring.offset + place for ring in rings for place in (0, 128, 192)]
    regions = [segment.layout[name] for name in ("actions", "control", "signals", "observations", "ring_c2s")]

    def mutate() -> None:
        if random.random() < 0.3:
            put32(segment, random.choice(words), random.choice([0, 1, 8, 2**31, 2**32 - 8, random.getrandbits(32)]))
            return
        region = random.choice(regions)
        at = region.offset + random.randrange(min(region.size, 2048))
        segment.mapping[at : at + 1] = random.randbytes(1)

    client = engine.connect(step_timeout_s=0.1, command_timeout_s=0.05)
    for _ in range(100):
        mutate()
        try:
            _use(client, random)
        except (TransportError, ValueError):
            client.close()
            client = engine.connect(step_timeout_s=0.1, command_timeout_s=0.05)
    client.close()
    assert_serves(engine)


def _use(client: Transport, random: Random) -> None:
    if random.random() < 0.5:
        client.step(ACTIONS)
    else:
        client.call(JOINTS, GetJointStateRequest(), Deadline(0.05))


# files


def cut_in_its_sleep(command: list[str], *, reads_beyond: bool) -> str:
    """Truncate an engine's segment just after it fell asleep, and return what it said at its end.

    reads_beyond: when its wait ends, it reads the control bytes, which are gone.
    """
    with KitEngine(command, unique_name(), NUM_ENVS) as engine:
        engine.connect().close()
        memory = segment_of(engine).mapping
        heartbeat, park, actions = (FIELDS[name].offset for name in ("heartbeat", "park_engine", "action_seq"))
        last = memory[heartbeat]
        until(lambda: memory[heartbeat] != last and memory[park])
        os.truncate(SHM / engine.name, HEADER_BYTES)
        memory[actions] += reads_beyond
        _, errors = engine.process.communicate(timeout=PATIENCE_S)
    assert engine.process.returncode == 1
    assert not list(SHM.glob(f"{engine.name}*"))
    assert f"SegmentError: {SHM / engine.name} was cut " in errors
    return errors


def test_an_engine_whose_segment_is_cut_while_it_sleeps_ends_with_an_error(pendulum: list[str]) -> None:
    assert f" was cut to {HEADER_BYTES} of" in cut_in_its_sleep(pendulum, reads_beyond=False)


def test_the_c_kit_survives_an_access_beyond_the_cut(c_pendulum: list[str]) -> None:
    cut_in_its_sleep(c_pendulum, reads_beyond=True)


def check_refused(command: list[str], path: Path, words: str) -> None:
    """An engine at the segment of this file, or of this lock, does not start, and leaves the file alone."""
    with KitEngine(command, path.name.removesuffix(".lock"), NUM_ENVS) as engine:
        _, errors = engine.process.communicate(timeout=PATIENCE_S)
    assert (engine.process.returncode, words in errors) == (1, True)
    path.unlink()


@pytest.mark.parametrize("suffix", ["", ".lock"])
def test_a_file_of_another_user_is_refused_and_left_alone(
    pendulum: list[str], make_foreign_file: MakeForeignFile, suffix: str
) -> None:
    path = SHM / f"{unique_name()}{suffix}"
    make_foreign_file(path, "file")
    check_refused(pendulum, path, "SegmentError")


@pytest.mark.parametrize("mode", [0o644, 0o620, 0o400])
def test_a_file_that_others_may_open_is_refused(pendulum: list[str], mode: int) -> None:
    path = SHM / unique_name()
    path.touch()
    path.chmod(mode)
    check_refused(pendulum, path, f"with mode {mode:04o}")


def test_a_client_that_is_killed_while_it_streams_leaves_its_place_to_the_next(engine: KitEngine) -> None:
    engine.connect().close()
    pid = os.fork()
    if not pid:
        try:
            client = engine.connect()
            client.step(ACTIONS)
            next(client.stream(CAMERA, StreamCameraRequest(target_fps=500), copy=False))
            os.kill(os.getpid(), signal.SIGKILL)
        finally:
            os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == -signal.SIGKILL
    until_none_left(lambda: list(SHM.glob(f"{engine.name}.images.*")))
    assert_serves(engine)

"""Files that a process of our own user truncates while steps, calls and streams run: a typed error on both
sides, never a signal.
"""

import contextlib
import os
import re
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from lucky_transport import api
from lucky_transport.errors import SegmentError
from lucky_transport.messages import ImageFrame
from lucky_transport.process import EngineProcess
from lucky_transport.shm.slot_files.image_reader import ImageReader
from lucky_transport.shm.slot_files.image_store import ImageStores
from tests.support.forked_programs import Programs
from tests.support.waiting import PATIENCE_S, until

pytestmark = pytest.mark.usefixtures("forked_engines")

SHM = Path("/dev/shm")


@contextlib.contextmanager
def _process(*arguments: Any, **options: Any) -> Iterator[EngineProcess]:
    process = EngineProcess(*arguments, **options)
    try:
        yield process
    finally:
        process.stop()


#: Each goes on until something is raised, and says what.
_CLIENT = """
import sys, threading, time
import numpy as np
from lucky_transport import api
from lucky_transport.config import load_settings
from lucky_transport.deadline import Deadline
from lucky_transport.errors import TransportError
from lucky_transport.messages.methods import method

schema, joints = method("AgentService/GetAgentSchema"), method("TelemetryService/StreamTelemetry")

def steps(client):
    client.step(client.actions, np.full(client.spec.num_envs, 1, np.uint8))
    shown = client.step(client.actions).observations
    yield
    try:
        while True:
            client.step(client.actions)
    finally:
        shown.sum()  # what was handed out stays readable

def waiting_steps(client):
    client.step(client.actions, np.full(client.spec.num_envs, 1, np.uint8))
    client.send(client.actions)
    yield
    client.recv(Deadline(30))

def calls(client):
    client.call(schema, schema.request())
    yield
    while True:
        client.call(schema, schema.request())

def streams(client, idle=False):
    with client.stream(joints, joints.request()) as stream:
        idle or next(iter(stream))
        yield
        for _ in stream:
            pass

def idle_streams(client):
    return streams(client, idle=True)

client = api.open_transport(f"shm://{sys.argv[1]}", load_settings())
use = globals()[sys.argv[2]](client)
next(use)
print("running", flush=True)
try:
    for _ in use:
        pass
except TransportError as error:
    print(type(error).__name__, error, flush=True)
client.close()
"""


#: Truncates the segment of this name to this length under a client that does this; returns what that said at its end.
Attack = Callable[[str, str, int], str]


@pytest.fixture
def attack(served_programs: Programs) -> Attack:
    def truncate(name: str, use: str, length: int) -> str:
        with served_programs.start(["-c", _CLIENT, name, use]) as client:
            assert client.stdout.readline() == "running\n", client.communicate(timeout=PATIENCE_S)
            os.truncate(SHM / name, length)
            out, err = client.communicate(timeout=PATIENCE_S)
        assert (client.returncode, err) == (0, "")
        return out

    return truncate


@pytest.mark.parametrize("length", [0, 4096, 8000], ids=["empty", "header left", "some left"])
@pytest.mark.parametrize("use", ["steps", "calls", "streams"])
def test_a_truncated_segment_is_a_typed_error_for_the_client_and_the_engine_lives(
    use: str, length: int, name: str, attack: Attack
) -> None:
    with _process("toy", [f"shm://{name}"], num_envs=512) as engine:
        assert re.match(rf"SegmentError {SHM / name} was truncated", attack(name, use, length))
        assert engine.is_alive
        assert engine.stop() == 0  # it ends in order, by no signal


def test_a_client_that_waits_for_a_frame_is_told_within_moments(name: str, attack: Attack) -> None:
    """The engine hangs in its step, so nothing but the file's size can tell."""
    with _process("toy", [f"shm://{name}"], num_envs=2, options={"hang_at": 2}) as engine:
        assert attack(name, "waiting_steps", 4096).startswith("SegmentError")
        engine.kill()


def test_a_client_that_waits_for_nothing_of_a_stream_is_told_within_moments(name: str, attack: Attack) -> None:
    with _process("toy", [f"shm://{name}"], num_envs=2):
        assert attack(name, "idle_streams", 4096).startswith("SegmentError")


_ENGINE = """
import logging, os, sys, time
import numpy as np
from lucky_transport import api
logging.basicConfig(format="%(levelname)s %(message)s", stream=sys.stdout)
serving = api.serve("toy", [f"shm://{sys.argv[1]}", f"inproc:{sys.argv[1]}"], num_envs=512)
client = api.open_transport(f"shm://{sys.argv[1]}")
client.step(client.actions, np.full(512, 1, np.uint8))
os.truncate(f"/dev/shm/{sys.argv[1]}", int(sys.argv[2]))
try:
    for _ in range(100):
        client.step(client.actions)
    time.sleep(1)
except ValueError as error:
    print(type(error).__name__ + "\\n", end="")  # one write: the log of another thread goes to stdout too
client.close()
until = time.monotonic() + 20
while any(thread.name.startswith("shm server") for thread in __import__("threading").enumerate()):
    assert time.monotonic() < until
    time.sleep(0.01)
with api.open_transport(f"inproc:{sys.argv[1]}") as other:  # the engine itself is free for others
    other.step(other.actions, np.full(512, 1, np.uint8))
serving.stop()
print("stopped")
"""


@pytest.mark.parametrize("length", [0, 4096])
def test_an_engine_closes_its_segment_says_why_and_serves_others(
    length: int, name: str, served_programs: Programs
) -> None:
    with served_programs.start(["-c", _ENGINE, name, str(length)]) as engine:
        out, err = engine.communicate(timeout=PATIENCE_S)
    assert (engine.returncode, err) == (0, "")
    lines = out.splitlines()
    assert "SegmentError" in lines
    assert f"ERROR the shm server of shm://{name} closes: {SHM / name} was truncated" in out
    assert lines[-1] == "stopped"


def test_an_engine_without_a_client_notices_too(name: str) -> None:
    with api.serve("toy", f"shm://{name}") as serving:
        os.truncate(SHM / name, 100)
        until(lambda: not any(thread.name == f"shm server {name}" for thread in threading.enumerate()))
        assert serving.host is not None


def _store(folder: Path) -> tuple[Any, ImageReader]:
    return ImageStores(folder / "segment").open(), ImageReader(folder / "segment", lambda: None)


@pytest.mark.parametrize("length", [0, 4096])
@pytest.mark.parametrize("copy", [True, False], ids=["copied", "viewed"])
def test_a_reader_of_a_truncated_image_file_is_told(copy: bool, length: int, tmp_path: Path) -> None:
    store, reader = _store(tmp_path)
    image = b"a" * 100_000
    images = store.open()
    seen = ImageFrame()
    assert reader.claim(b"", images.put([image])).fill([seen], copy)
    claim = reader.claim(b"", images.put([image]))
    (path,) = tmp_path.iterdir()
    os.truncate(path, length)
    shown = bytes(seen.data)  # a view reads zeros, a copy is whole
    assert shown in (image, bytes(len(image)))
    if copy:
        assert shown == image
    with pytest.raises(SegmentError, match=f"{path} was truncated"):
        claim.fill([ImageFrame()], copy=True)
    store.close()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("drawn", [True, False], ids=["drawn", "copied"])
def test_an_engine_whose_image_file_is_truncated_is_told_once_and_goes_on_with_another(
    drawn: bool, tmp_path: Path
) -> None:
    store, reader = _store(tmp_path)
    images = store.open()
    images.put([b"a" * 100_000])
    (path,) = tmp_path.iterdir()
    os.truncate(path, 0)
    buffer = images.buffer(100_000) if drawn else memoryview(bytearray(100_000))
    buffer[:] = b"b" * 100_000
    with pytest.raises(SegmentError, match=f"{path} was truncated"):
        images.put([buffer])
    seen = ImageFrame()
    assert reader.claim(b"", images.put([b"c" * 100_000])).fill([seen], True)
    assert seen.data == b"c" * 100_000
    store.close()
    assert list(tmp_path.iterdir()) == []

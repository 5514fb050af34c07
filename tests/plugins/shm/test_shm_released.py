"""What was opened is released by `close` and by leaving a stream, without the collector of cycles."""

from __future__ import annotations

import errno
import gc
import itertools
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

import lucky_transport
from lucky_transport import api
from lucky_transport.messages import StreamCameraRequest
from lucky_transport.messages.methods import method
from lucky_transport.process import EngineProcess, unique_name
from lucky_transport.shm.slot_files.image_file import ImageFile
from lucky_transport.shm.slot_files.image_reader import ImageReader
from lucky_transport.transport import Stream
from tests.support.resources import measure, released

CAMERA = method("CameraService/StreamCamera")
ROUNDS = 5


@pytest.fixture
def engine(name: str) -> Iterator[str]:
    """An echo engine in a process of its own; its endpoint."""
    process = EngineProcess("echo", [f"shm://{name}"], options={"width": 32, "height": 32})
    try:
        yield f"shm://{name}"
    finally:
        process.stop()


@pytest.fixture(autouse=True)
def _no_collector() -> Iterator[None]:
    gc.collect()
    gc.disable()
    yield
    gc.enable()


def _env(endpoint: str) -> None:
    with lucky_transport.make(endpoint=endpoint) as env:
        env.reset()
        env.step(env.action_space.sample())


def _connection(endpoint: str) -> None:
    lucky_transport.connect(endpoint).close()


def _two_connections(endpoint: str) -> None:
    with lucky_transport.connect(endpoint), lucky_transport.connect(endpoint):
        pass


def _serving(endpoint: str) -> None:
    other = f"shm://{unique_name()}"
    with lucky_transport.serve("toy", other):
        _env(other)


@pytest.mark.exhaustive
def test_a_closed_session_leaves_nothing_to_the_collector(engine: str, name: str) -> None:
    for session in (_env, _connection, _two_connections, _serving):
        session(engine)  # what is made once in a process
        before = measure(name)
        for _ in range(ROUNDS):
            session(engine)
        assert not released(before, name).exceeds(before), session


def _leave_unread(stream: Stream) -> None:
    pass


def _leave_after_two(stream: Stream) -> None:
    next(stream)
    next(stream)


def _cancel(stream: Stream) -> None:
    next(stream)
    stream.cancel()
    kept.append(stream)


#: Streams that their readers still reference.
kept: list[Stream] = []


@pytest.mark.exhaustive
def test_image_streams_that_are_left_hold_neither_descriptors_nor_memory(engine: str, name: str) -> None:
    for leave, copy in itertools.product((_leave_unread, _leave_after_two, _cancel), (True, False)):
        with api.open_transport(engine) as client:
            before = measure(name)
            with client.stream(CAMERA, StreamCameraRequest(name="x")) as other:
                for _ in range(20):
                    leave(client.stream(CAMERA, StreamCameraRequest(name="x"), copy=copy))
                    next(other)
            now = released(before, name)
        kept.clear()
        assert not now.exceeds(before), (leave, copy)


def test_an_engine_keeps_no_memory_of_image_streams_that_were_left(name: str) -> None:
    with (
        lucky_transport.serve("echo", f"shm://{name}", options={"width": 32, "height": 32}),
        api.open_transport(f"shm://{name}") as client,
    ):
        _leave_after_two(client.stream(CAMERA, StreamCameraRequest(name="x")))
        before = released(measure(name), name)
        for _ in range(ROUNDS):
            for leave in (_leave_unread, _leave_after_two):
                leave(client.stream(CAMERA, StreamCameraRequest(name="x")))
        assert released(before, name).mappings <= before.mappings


def test_a_claim_that_cannot_be_given_back_raises_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    claim = ImageReader(tmp_path / "engine").claim(b"", [(1, 1, 0, 2)])

    def refuse(*_: object, **__: object) -> ImageFile:
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))

    monkeypatch.setattr(ImageFile, "open", refuse)
    claim.release()

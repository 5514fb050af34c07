"""Images over shared memory: where they lie, how long they stay; and what is released without a collector."""

import errno
import gc
import os
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import Any

import pytest

import lucky_transport
from lucky_transport import api
from lucky_transport.config import load_settings
from lucky_transport.errors import RemoteProtocolError
from lucky_transport.messages import GetCameraFrameRequest, ImageFrame, StepRequest, StreamCameraRequest
from lucky_transport.messages.images import ImageBytes
from lucky_transport.messages.methods import method
from lucky_transport.rpc.images import ImageRef
from lucky_transport.shm.slot_files.image_file import ImageFile
from lucky_transport.shm.slot_files.image_reader import ImageReader
from lucky_transport.shm.slot_files.image_store import ImageStream
from lucky_transport.testing.images_contract import ImageEngine, pixels
from lucky_transport.transport import Transport
from tests.support.resources import measure
from tests.support.waiting import until

pytestmark = pytest.mark.usefixtures("forked_engines")


SHM = Path("/dev/shm")
CAMERA = method("CameraService/StreamCamera")
STEP = method("AgentService/Step")
ENDLESS = StreamCameraRequest(name="endless")


def images(name: str) -> list[Path]:
    return sorted(SHM.glob(f"{name}.images.*"))


def connect(name: str) -> Transport:
    return api.open_transport(f"shm://{name}", load_settings({}))


@contextmanager
def served(name: str, **options: Any) -> Iterator[Transport]:
    with api.serve(ImageEngine(**options), f"shm://{name}"), connect(name) as client:
        yield client


def whole(frame: ImageFrame) -> bool:
    return bytes(frame.data) == pixels(frame.frame_number, frame.width, frame.height).tobytes()


# images from another process


# where they lie


def test_a_stream_takes_private_memory_which_goes_with_it(name: str) -> None:
    with served(name) as client:
        stream = client.stream(CAMERA, ENDLESS)
        for _ in range(20):
            assert whole(next(stream))
        assert {path.stat().st_mode & 0o777 for path in images(name)} == {0o600}
        stream.cancel()
        assert until(lambda: images(name) == [])


def test_a_stream_that_ends_by_itself_is_read_to_its_end_and_then_gone(name: str) -> None:
    with served(name) as client:
        frames = list(client.stream(CAMERA, StreamCameraRequest(name="drawn", target_fps=5)))
        assert [whole(frame) for frame in frames] == [True] * 5
        list(client.stream(CAMERA, StreamCameraRequest(name="drawn", target_fps=1)))
        assert until(lambda: len(images(name)) <= 1)


def test_streams_side_by_side_have_files_of_their_own(name: str) -> None:
    with served(name) as client:
        streams = [client.stream(CAMERA, StreamCameraRequest(name="endless", width=8 * n)) for n in (1, 2, 3)]
        for _ in range(10):
            assert all(whole(next(stream)) for stream in streams)
        assert len(images(name)) >= 3
    assert images(name) == []


def test_the_images_of_steps_stay_in_one_file(name: str) -> None:
    with served(name) as client:
        request = StepRequest("agent_1", camera_requests=[GetCameraFrameRequest(name=each) for each in "abc"])
        for _ in range(10):
            answer = client.call(STEP, request)
            assert [frame.frame.data for frame in answer.camera_frames] == [pixels(1, 32, 32).tobytes()] * 3
        assert len(images(name)) == 1


def test_images_larger_than_any_message_may_be_are_carried(name: str) -> None:
    with served(name, width=2000, height=1500) as client:  # 12 MB, the limit of messages is 4
        assert whole(next(client.stream(CAMERA, StreamCameraRequest(name="drawn", target_fps=1))))
        request = StepRequest("agent_1", camera_requests=[GetCameraFrameRequest(name="a")])
        (frame,) = client.call(STEP, request).camera_frames
        assert frame.frame.data == pixels(1, 2000, 1500).tobytes()


# how long they stay


def test_a_view_is_valid_until_the_next_image_and_readable_for_ever(name: str) -> None:
    with served(name) as client:
        stream = client.stream(CAMERA, ENDLESS, copy=False)
        kept: list[ImageFrame] = []
        for _ in range(20):
            frame = next(stream)
            assert isinstance(frame.data, memoryview)
            assert frame.data.readonly
            assert whole(frame)
            kept.append(frame)
        stream.cancel()
        last = kept[-1]
        assert whole(last)  # nobody writes into what a cancelled stream showed last
    assert len({bytes(frame.data) for frame in kept}) < 20  # others show what came later into their slot
    assert whole(last)


# broken engines


def test_a_image_that_was_overwritten_is_skipped_and_counted(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    put = ImageStream.put
    count = 0

    def overwriting(self: ImageStream, images: list[ImageBytes]) -> list[ImageRef]:
        nonlocal count
        count += 1
        (place,) = put(self, images)
        if count % 3 == 0:
            words = ImageFile.open(SHM / name, place.file).words[place.slot]
            words.give_back(place.number)
            words.hand_over(place.number + 2)
        return [place]

    monkeypatch.setattr(ImageStream, "put", overwriting)
    with served(name) as client:
        stream = client.stream(CAMERA, StreamCameraRequest(name="made", target_fps=7))
        assert [frame.frame_number for frame in stream] == [1, 2, 4, 5, 7]
        assert stream.dropped == 2


def test_an_answer_whose_image_was_overwritten_is_an_error(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    put = ImageStream.put

    def overwriting(self: ImageStream, images: list[ImageBytes]) -> list[ImageRef]:
        first, *others = put(self, images)
        return [first._replace(number=first.number + 2), *others]

    with served(name) as client:
        request = StepRequest("agent_1", camera_requests=[GetCameraFrameRequest(name="a")])
        with monkeypatch.context() as patch:
            patch.setattr(ImageStream, "put", overwriting)
            with pytest.raises(RemoteProtocolError, match="overwritten the images"):
                client.call(STEP, request)
        assert client.call(STEP, request).success


def test_images_that_find_no_place_travel_in_their_message(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lucky_transport.shm.slot_files.image_store.MAX_FILES", 0)
    with served(name) as client:
        for kind in ("made", "drawn"):
            frames = list(client.stream(CAMERA, StreamCameraRequest(name=kind, target_fps=3), copy=False))
            assert [whole(frame) for frame in frames] == [True] * 3
        assert images(name) == []


# --- what was opened is released ---


@pytest.fixture
def no_collector() -> Iterator[None]:
    gc.collect()
    gc.disable()
    yield
    gc.enable()


@pytest.mark.usefixtures("no_collector")
def test_an_engine_keeps_no_memory_of_image_streams_that_were_left(name: str) -> None:
    with (
        lucky_transport.serve("echo", f"shm://{name}", options={"width": 32, "height": 32}),
        api.open_transport(f"shm://{name}") as client,
    ):
        list(islice(client.stream(CAMERA, StreamCameraRequest(name="x")), 2))
        before = measure(name)
        for read in (0, 2) * 5:
            list(islice(client.stream(CAMERA, StreamCameraRequest(name="x")), read))
        until(lambda: measure(name).mappings <= before.mappings)


@pytest.mark.usefixtures("no_collector")
def test_a_claim_that_cannot_be_given_back_raises_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    claim = ImageReader(tmp_path / "engine", lambda: None).claim(b"", [(1, 1, 0, 2)])

    def refuse(*_: object, **__: object) -> ImageFile:
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))

    monkeypatch.setattr(ImageFile, "open", refuse)
    claim.release()

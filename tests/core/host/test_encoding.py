"""Answers become bytes; what cannot be encoded is the engine's fault and keeps no slot."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from hypothesis import HealthCheck, given, settings

from lucky_transport.codec.flatbuffers import decode, encode
from lucky_transport.errors import EngineFailed
from lucky_transport.host.encoding import encode_answer, response_encoder
from lucky_transport.messages import ImageFrame
from lucky_transport.messages.methods import method
from lucky_transport.rpc.typed import CallStream
from lucky_transport.shm.slot_files.image_reader import ImageReader
from lucky_transport.shm.slot_files.image_store import SLOTS, ImageStores, ImageStream
from tests.support.message_strategies import messages

_CAMERA = method("CameraService/StreamCamera")
_IMAGE = bytes(range(48))


class Stream:
    """A stream of images in shared memory, as a handler's call has it, and who reads them."""

    def __init__(self, base: Path) -> None:
        self.folder = base.parent
        self.store = ImageStores(base).open()
        self.image_sink: ImageStream = self.store.open()
        self.reader = ImageReader(base)
        self.call = cast(Any, SimpleNamespace(image_sink=self.image_sink))

    def drawn(self, **fields: Any) -> Any:
        """Return a frame whose image was drawn in place."""
        buffer = self.image_sink.buffer(len(_IMAGE))
        buffer[:] = _IMAGE
        return ImageFrame(buffer, width=4, height=4, channels=3, **fields)

    def read(self, payload: bytes, places: Any) -> ImageFrame:
        """Return the frame as its reader sees it; the slot is free again."""
        frame = decode(ImageFrame, payload)
        claim = self.reader.claim(payload, [tuple(place) for place in places])
        assert claim.fill([frame], True)
        claim.release()
        return frame

    @property
    def files(self) -> int:
        """How many files the stream has; one more whenever no slot is free."""
        return len(list(self.folder.iterdir()))


@pytest.fixture
def stream(tmp_path: Path) -> Iterator[Stream]:
    made = Stream(tmp_path / "segment")
    yield made
    made.image_sink.end(lost=True)
    made.store.close()


def test_a_image_drawn_in_place_is_not_in_the_message(stream: Stream) -> None:
    payload, places = encode_answer(_CAMERA, stream.call, stream.drawn(frame_number=7))
    assert [place.length for place in places] == [len(_IMAGE)]
    assert decode(ImageFrame, payload).data == b""
    assert stream.read(payload, places) == ImageFrame(_IMAGE, width=4, height=4, channels=3, frame_number=7)


def test_a_image_of_the_engines_own_is_copied_to_a_slot(stream: Stream) -> None:
    frame = ImageFrame(_IMAGE, width=4, height=4, channels=3)
    payload, places = encode_answer(_CAMERA, stream.call, frame)
    assert frame.data == _IMAGE
    assert decode(ImageFrame, payload).data == b""
    assert stream.read(payload, places) == frame


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(frame=messages(ImageFrame))
def test_the_message_is_the_same_whether_its_image_was_drawn_in_place_or_copied(
    stream: Stream, frame: ImageFrame
) -> None:
    drawn, places = encode_answer(_CAMERA, stream.call, replace(frame, data=stream.drawn().data))
    stream.image_sink.take_back(places)
    copied, places = encode_answer(_CAMERA, stream.call, replace(frame, data=_IMAGE))
    stream.image_sink.take_back(places)
    assert drawn == copied == encode(replace(frame, data=b""))


@pytest.mark.parametrize("is_drawn", [True, False], ids=["drawn", "copied"])
@pytest.mark.parametrize(
    ("field", "value"), [("width", "four"), ("frame_number", -1), ("timestamp_ms", None), ("format", b"\xff")]
)
def test_a_frame_that_cannot_be_encoded_is_the_engines_fault_and_keeps_no_slot(
    stream: Stream, is_drawn: bool, field: str, value: Any
) -> None:
    for _ in range(SLOTS + 1):
        frame = stream.drawn() if is_drawn else ImageFrame(_IMAGE, width=4, height=4, channels=3)
        setattr(frame, field, value)
        with pytest.raises(EngineFailed, match=rf"answer to .*StreamCamera is no ImageFrame: .*{field}"):
            encode_answer(_CAMERA, stream.call, frame)
    assert stream.files == 1


@pytest.mark.parametrize("item", [None, b"raw", 7, ImageFrame])
def test_an_item_of_another_class_is_the_engines_fault(stream: Stream, item: Any) -> None:
    named = rf"the engine's answer to .*StreamCamera is no ImageFrame: it is {type(item).__name__}"
    with pytest.raises(EngineFailed, match=named):
        encode_answer(_CAMERA, stream.call, item)
    with pytest.raises(EngineFailed, match=named):
        response_encoder(_CAMERA)(item)


@pytest.mark.parametrize("copy", [True, False])
def test_a_reader_of_growing_images_lets_go_of_the_files_they_left(stream: Stream, copy: bool) -> None:
    sizes = [1 << bits for bits in range(12, 24)]
    mapped: list[int] = []

    def items() -> Iterator[Any]:
        for size in sizes:
            payload, places = encode_answer(_CAMERA, stream.call, ImageFrame(bytes([size.bit_length()]) * size))
            yield stream.reader.claim(payload, places)
            mapped.append(len(stream.reader.files))

    coming = items()
    call = SimpleNamespace(recv=lambda: next(coming, None), is_ended=lambda: True, cancel=lambda: None, dropped=0)
    calls = SimpleNamespace(images=stream.reader)
    frames = CallStream(cast(Any, calls), cast(Any, call), ImageFrame, copy)
    seen = [(len(frame.data), frame.data[0], frame.data[-1]) for frame in frames]
    assert seen == [(size, size.bit_length(), size.bit_length()) for size in sizes]
    assert max(mapped) == 1
    assert not stream.reader.files

"""Images are found, detached and viewed wherever a message holds them."""

from __future__ import annotations

import copy

import numpy as np
import pytest
from hypothesis import given

import lucky_transport
from lucky_transport.errors import SpecError
from lucky_transport.messages import AgentFrame, ImageFrame, NamedImageFrame, StepResponse
from lucky_transport.messages.images import detach, frames_of, holds_images, image_array, owned
from lucky_transport.messages.methods import METHODS
from tests.support.message_strategies import messages


def _step() -> StepResponse:
    first, second = ImageFrame(b"abc", 1, 1, 3, frame_number=1), ImageFrame(b"xy", 1, 1, 1, depth_scale=0.001)
    return StepResponse(
        True,
        observation=AgentFrame(frame_number=7),
        camera_frames=[NamedImageFrame("a", first), NamedImageFrame("none"), NamedImageFrame("b", second)],
        reward_signals={"alive": 0.5},
    )


def test_the_answers_that_can_hold_images_are_these() -> None:
    found = {method.name.rpartition("/")[2] for method in METHODS if holds_images(method.response)}
    assert found == {"Step", "StreamCamera", "StreamViewport"}


@given(message=messages(StepResponse))
def test_any_message_is_the_same_after_its_images_were_detached_and_put_back(message: StepResponse) -> None:
    before = copy.deepcopy(message)
    bare, images = detach(message)
    for frame, data in zip(frames_of(bare), images, strict=True):
        frame.data = data
    assert repr(bare) == repr(message) == repr(before)  # NaN equals nothing


def test_an_owned_message_shares_no_memory_with_the_engine() -> None:
    memory = bytearray(b"abc")
    message = ImageFrame(memoryview(memory), 1, 1, 3)
    mine = owned(message)
    memory[:] = b"xyz"
    assert mine.data == b"abc"
    assert type(mine.data) is bytes
    assert owned(mine) is mine


def test_a_depth_image_is_an_array_of_codes() -> None:
    codes = np.array([[1, 500], [65535, 0]], "<u2")
    array = lucky_transport.image_array(ImageFrame(codes.tobytes(), 2, 2, 1, depth_scale=0.001))
    assert (array.shape, array.dtype) == ((2, 2), np.uint16)
    assert np.array_equal(array, codes)


def test_an_array_is_a_view_that_cannot_be_written_to() -> None:
    memory = bytearray(6)
    array = image_array(ImageFrame(memory, 2, 1, 3))
    memory[0] = 9
    assert array[0, 0, 0] == 9
    with pytest.raises(ValueError, match="read-only"):
        array[0, 0, 0] = 1


@pytest.mark.parametrize("data", [b"", b"12345", b"1234567"])
def test_bytes_that_are_not_as_many_as_the_sizes_say_are_refused_with_both(data: bytes) -> None:
    with pytest.raises(SpecError, match=rf"{len(data)} bytes, expected 6 for 2 x 1 pixels of 3 channels .*'jpeg'"):
        image_array(ImageFrame(data, 2, 1, 3, "jpeg"))

"""What every transport promises about pictures, as tests.

Rule 1: the yardstick is `inproc`: whatever way its bytes went, a picture is the same.
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager

import numpy as np
import pytest

from lucky_transport.messages import (
    CameraStreamKind,
    GetCameraFrameRequest,
    ImageFrame,
    StepRequest,
    StreamCameraRequest,
)
from lucky_transport.messages.images import image_array
from lucky_transport.messages.methods import method
from lucky_transport.testing.pair import Pair, open_yardstick
from lucky_transport.testing.pictures import PictureEngine, pixels
from lucky_transport.transport import Transport

__all__ = ["ImagesContract"]

_CAMERA = method("CameraService/StreamCamera")
_STEP = method("AgentService/Step")
#: No transport keeps so few pictures that some of these are skipped.
_COUNT = 8


def _views(client: Transport, request: StreamCameraRequest) -> list[ImageFrame]:
    """Return a stream's pictures, seen without a copy and copied before the next one came."""
    found: list[ImageFrame] = []
    with client.stream(_CAMERA, request, copy=False) as stream:
        for frame in stream:
            frame.data = bytes(frame.data)
            found.append(frame)
    return found


class ImagesContract(Pair):
    """The part of `TransportContract` that is about pictures."""

    @contextmanager
    def open_pictures(self) -> Generator[tuple[Transport, Transport]]:
        """Yield a client of an engine of pictures, and one of an equal engine without any wire."""
        with self.open_pair(PictureEngine()) as client, open_yardstick(PictureEngine(), 2) as yardstick:
            self.require(client, "streams")
            yield client, yardstick

    @pytest.mark.parametrize("name", ["made", "drawn", "growing", "shrinking"])
    def test_pictures_are_the_same_as_without_a_wire_and_stay_so(self, name: str) -> None:
        request = StreamCameraRequest(name=name, target_fps=_COUNT)
        with self.open_pictures() as (client, yardstick):
            found = list(client.stream(_CAMERA, request))
            assert all(type(frame.data) is bytes for frame in found)
            assert found == list(yardstick.stream(_CAMERA, request))

    @pytest.mark.parametrize("name", ["made", "drawn", "growing"])
    def test_views_of_pictures_show_the_same(self, name: str) -> None:
        request = StreamCameraRequest(name=name, target_fps=_COUNT)
        with self.open_pictures() as (client, yardstick):
            assert _views(client, request) == list(yardstick.stream(_CAMERA, request))

    def test_a_picture_is_an_array(self) -> None:
        with self.open_pictures() as (client, _):
            stream = client.stream(_CAMERA, StreamCameraRequest(name="drawn", target_fps=1, width=5, height=3))
            assert np.array_equal(image_array(next(stream)), pixels(1, 5, 3))

    def test_an_env_renders_each_of_its_envs(self) -> None:
        from lucky_transport.env.vector_env import VectorEnv

        with self.open_pictures() as (client, _):
            env = VectorEnv(client, render_mode="rgb_array", render_size=(5, 3))
            env.reset()
            for images in (env.render(), env.call("render")):
                assert all(image.flags.c_contiguous for image in images)
                for index, image in enumerate(images):
                    assert image.tobytes() == pixels(index, 5, 3)[:, :, :3].tobytes()
                assert len(images) == env.num_envs == 2

    def test_the_pictures_of_a_step_come_with_its_answer(self) -> None:
        cameras = [
            GetCameraFrameRequest(name="small", width=3, height=2),
            GetCameraFrameRequest(name="large", width=200, height=100),
            GetCameraFrameRequest(name="depth", kind=CameraStreamKind.DEPTH),
        ]
        with self.open_pictures() as (client, yardstick):
            for _ in range(3):
                request = StepRequest("agent_1", [0.5] * client.spec.action.size, camera_requests=cameras)
                answer, expected = client.call(_STEP, request), yardstick.call(_STEP, request)
                assert answer.success
                assert answer.camera_frames == expected.camera_frames
                assert [len(frame.frame.data) for frame in answer.camera_frames] == [24, 80_000, 2048]

    def test_a_picture_that_cannot_be_taken_is_refused_and_the_next_one_comes(self) -> None:
        with self.open_pictures() as (client, yardstick):
            for name in ("broken", "whole"):
                request = StepRequest("agent_0", camera_requests=[GetCameraFrameRequest(name=name)])
                answer, expected = client.call(_STEP, request), yardstick.call(_STEP, request)
                assert (answer.success, answer.message) == (expected.success, expected.message)
                assert answer.camera_frames == expected.camera_frames

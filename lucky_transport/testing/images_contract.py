"""Tests of `TransportContract`: images are the same as over `inproc`."""

from __future__ import annotations

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
from lucky_transport.testing.image_engine import ImageEngine, pixels
from lucky_transport.testing.needs import needs
from lucky_transport.testing.suite import TransportSuite
from lucky_transport.transport import Transport

_CAMERA = method("CameraService/StreamCamera")
_STEP = method("AgentService/Step")
#: No transport keeps so few images that some of these are skipped.
_COUNT = 8


def _views(client: Transport, request: StreamCameraRequest) -> list[ImageFrame]:
    """Return a stream's images, seen without a copy and copied before the next one came."""
    found: list[ImageFrame] = []
    with client.stream(_CAMERA, request, copy=False) as stream:
        for frame in stream:
            frame.data = bytes(frame.data)
            found.append(frame)
    return found


@needs("streams")
class ImagesContract(TransportSuite):
    """The part of `TransportContract` that is about images."""

    @pytest.mark.parametrize("name", ["made", "drawn", "growing", "shrinking"])
    def test_images_are_the_same_as_without_a_wire_and_stay_so(self, name: str) -> None:
        request = StreamCameraRequest(name=name, target_fps=_COUNT)
        with self.open_both(ImageEngine, 2) as (client, reference):
            found = list(client.stream(_CAMERA, request))
            assert all(type(frame.data) is bytes for frame in found)
            assert found == list(reference.stream(_CAMERA, request))

    @pytest.mark.parametrize("name", ["made", "drawn", "growing"])
    def test_views_of_images_show_the_same(self, name: str) -> None:
        request = StreamCameraRequest(name=name, target_fps=_COUNT)
        with self.open_both(ImageEngine, 2) as (client, reference):
            assert _views(client, request) == list(reference.stream(_CAMERA, request))

    def test_an_image_is_an_array(self) -> None:
        with self.open_both(ImageEngine, 2) as (client, _):
            stream = client.stream(_CAMERA, StreamCameraRequest(name="drawn", target_fps=1, width=5, height=3))
            assert np.array_equal(image_array(next(stream)), pixels(1, 5, 3))

    def test_an_env_renders_each_of_its_envs(self) -> None:
        from lucky_transport.env.vector_env import VectorEnv

        with self.open_both(ImageEngine, 2) as (client, _):
            env = VectorEnv(client, render_mode="rgb_array", render_size=(5, 3))
            env.reset()
            for images in (env.render(), env.call("render")):
                assert all(image.flags.c_contiguous for image in images)
                for index, image in enumerate(images):
                    assert image.tobytes() == pixels(index, 5, 3)[:, :, :3].tobytes()
                assert len(images) == env.num_envs == 2

    def test_the_images_of_a_step_come_with_its_answer(self) -> None:
        cameras = [
            GetCameraFrameRequest(name="small", width=3, height=2),
            GetCameraFrameRequest(name="large", width=200, height=100),
            GetCameraFrameRequest(name="depth", kind=CameraStreamKind.DEPTH),
        ]
        with self.open_both(ImageEngine, 2) as (client, reference):
            for _ in range(3):
                request = StepRequest("agent_1", [0.5] * client.spec.action.size, camera_requests=cameras)
                answer, expected = client.call(_STEP, request), reference.call(_STEP, request)
                assert answer.success
                assert answer.camera_frames == expected.camera_frames
                assert [len(frame.frame.data) for frame in answer.camera_frames] == [24, 80_000, 2048]

    def test_an_image_that_cannot_be_taken_is_refused_and_the_next_one_comes(self) -> None:
        with self.open_both(ImageEngine, 2) as (client, reference):
            for name in ("broken", "whole"):
                request = StepRequest("agent_0", camera_requests=[GetCameraFrameRequest(name=name)])
                answer, expected = client.call(_STEP, request), reference.call(_STEP, request)
                assert (answer.success, answer.message) == (expected.success, expected.message)
                assert answer.camera_frames == expected.camera_frames

"""Tests of `TransportContract`: images are the same as over `inproc`; and an engine with predictable images."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from lucky_transport.call import Call
from lucky_transport.engine import Handler, StreamHandler
from lucky_transport.engines.toy import ToyEngine
from lucky_transport.messages import (
    CameraInfo,
    CameraStreamKind,
    GetCameraFrameRequest,
    ImageFrame,
    ListCamerasResponse,
    NamedImageFrame,
    StepRequest,
    StreamCameraRequest,
)
from lucky_transport.messages.images import image_array
from lucky_transport.messages.methods import method
from lucky_transport.testing.needs import needs
from lucky_transport.testing.suite import TransportSuite
from lucky_transport.transport import Transport

CHANNELS = 4
#: The camera that every env has.
LENS = "lens"
_SIDE = 32


def pixels(number: int, width: int, height: int) -> NDArray[np.uint8]:
    """Return image `number`: uint8 (height, width, CHANNELS), no two bytes near each other alike."""
    flat = np.arange(width * height * CHANNELS, dtype=np.uint32) * 7 + number * 31
    return flat.astype(np.uint8).reshape(height, width, CHANNELS)


class ImageEngine(ToyEngine):
    """An engine with predictable images, for tests of what carries them.

        StreamCamera(name, target_fps=n)    n images: "made" as bytes, "drawn" into the call's own memory, "growing" and
                                            "shrinking" from one to the next, "endless" without an end
        StreamCamera(name="agent_1/lens")   images without an end, all of them that of env 1 (`pixels(1, ...)`)
        Step with camera_requests           an image for each, of the size that was asked for

    Every byte of an image follows from its number and size alone (`pixels`). `width`, `height`: of streamed images
    without a requested size, pixels.
    """

    def __init__(self, num_envs: int = 2, *, width: int = _SIDE, height: int = _SIDE, **options: Any) -> None:
        super().__init__(num_envs, **options)
        self._size = width, height

    @property
    def services(self) -> Mapping[str, Handler]:
        listed = ListCamerasResponse([CameraInfo(name=LENS)])
        return {**super().services, "/hazel.rpc.CameraService/ListCameras": lambda _: listed}

    @property
    def streams(self) -> Mapping[str, StreamHandler]:
        return {**super().streams, "/hazel.rpc.CameraService/StreamCamera": self._stream}

    def _stream(self, request: StreamCameraRequest, call: Call) -> Iterator[ImageFrame]:
        agent, _, camera = request.name.rpartition("/")
        if camera == LENS:
            env = int(agent.removeprefix("agent_") or 0)
            width, height = request.width or self._size[0], request.height or self._size[1]
            while not call.is_over:
                yield ImageFrame(pixels(env, width, height).tobytes(), width, height, CHANNELS, "raw", 0, env)
            return
        count = request.target_fps
        numbers = itertools.count(1) if request.name == "endless" else range(1, count + 1)
        for number in numbers:
            if call.is_over:
                return
            scale = {"growing": number, "shrinking": count - number + 1}.get(request.name, 1)
            image = pixels(number, (request.width or self._size[0]) * scale, request.height or self._size[1])
            data: bytes | memoryview = image.tobytes()
            if request.name in ("drawn", "endless"):
                data = call.image_buffer(image.nbytes)
                np.copyto(np.frombuffer(data, np.uint8), image.ravel())
            yield ImageFrame(data, image.shape[1], image.shape[0], CHANNELS, "raw", 0, number)

    def check_camera_requests(self, env: int, requests: Sequence[GetCameraFrameRequest]) -> None:
        for request in requests:
            if request.name == "broken":
                raise ValueError("camera 'broken': it takes no images")

    def camera_frames(self, env: int, requests: Sequence[GetCameraFrameRequest]) -> list[NamedImageFrame]:
        return [NamedImageFrame(request.name, self._image(env, request)) for request in requests]

    def _image(self, env: int, request: GetCameraFrameRequest) -> ImageFrame:
        width, height = request.width or self._size[0], request.height or self._size[1]
        image = pixels(env, width, height)
        if request.kind == CameraStreamKind.DEPTH:
            return ImageFrame(image[:, :, :2].tobytes(), width, height, 1, "raw", 0, env, 0.5)
        return ImageFrame(image.tobytes(), width, height, CHANNELS, "raw", 0, env)


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

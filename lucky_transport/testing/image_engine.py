"""An engine with predictable images, for tests of what carries them.

    StreamCamera(name, target_fps=n)    n images: "made" as bytes, "drawn" into the call's own memory, "growing" and
                                        "shrinking" from one to the next, "endless" without an end
    StreamCamera(name="agent_1/lens")   images without an end, all of them that of env 1 (`pixels(1, ...)`)
    Step with camera_requests           an image for each, of the size that was asked for

Every byte of an image follows from its number and size alone (`pixels`).
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
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
    StreamCameraRequest,
)

CHANNELS = 4
#: The camera that every env has.
LENS = "lens"
_SIDE = 32


def pixels(number: int, width: int, height: int) -> NDArray[np.uint8]:
    """Return image `number`: uint8 (height, width, CHANNELS), no two bytes near each other alike."""
    flat = np.arange(width * height * CHANNELS, dtype=np.uint32) * 7 + number * 31
    return flat.astype(np.uint8).reshape(height, width, CHANNELS)


class ImageEngine(ToyEngine):
    """See the module. `width`, `height`: of streamed images without a requested size, pixels."""

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

"""Pictures that an engine takes for a Holodeck camera.

The engine is asked whether it has such a camera when the sensor is added; pictures are taken between steps.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from lucky_transport.engine import Engine
from lucky_transport.errors import SpecError
from lucky_transport.host.host import Host
from lucky_transport.messages import GetCameraFrameRequest
from lucky_transport_holodeck.sensor_types import SensorShape
from lucky_transport_holodeck.sources import Source

__all__ = ["engine_camera"]


def engine_camera(host: Host, env: int, name: str, shape: SensorShape) -> Source | None:
    """Return the source of a camera of the engine, called `name`, (height, width, 4); None when it has no cameras.

    Raises SpecError, with the engine's own words, when the engine has cameras and none of that name and size.
    """
    if type(host.engine).camera_frames is Engine.camera_frames:
        return None
    height, width, _ = shape.shape
    request = GetCameraFrameRequest(name=name, width=width, height=height, format="raw")
    try:
        with host.between_steps():
            host.engine.check_camera_requests(env, [request])
    except ValueError as error:
        raise SpecError(str(error), backend=host.spec.engine) from error

    def renew(array: NDArray[Any]) -> None:
        with host.between_steps():
            frame = host.engine.camera_frames(env, [request])[0].frame
        if frame is not None and (frame.height, frame.width) == (height, width):
            picture = np.frombuffer(frame.data, np.uint8).reshape(height, width, frame.channels)
            array[..., : frame.channels] = picture

    return Source(np.full(shape.shape, 255, np.uint8), renew)

"""`VectorEnv.render` with render_mode="rgb_array": what one camera sees in each env, as Gymnasium wants it.

The images come from the engine's CameraService, so every transport with typed calls and server streams has them. Where
a batch has several envs, the camera "front" of env 3 is asked for as "agent_3/front".
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from lucky_transport.deadline import Deadline
from lucky_transport.errors import ConfigError, SpecError, Unimplemented, UnknownName, did_you_mean
from lucky_transport.messages import ListCamerasRequest, StreamCameraRequest
from lucky_transport.messages.images import image_array
from lucky_transport.messages.methods import method
from lucky_transport.transport import Transport

RENDER_MODES = ("rgb_array",)

_LIST = method("CameraService/ListCameras")
_STREAM = method("CameraService/StreamCamera")

#: For one image; the first one starts the engine's renderer, which takes seconds on a busy machine.
_TIMEOUT_S = 60.0


def can_render(transport: Transport) -> bool:
    """True when the transport knows, without asking the engine, that there are images."""
    return _carries_images(transport) and transport.implements(_STREAM) is True


def _carries_images(transport: Transport) -> bool:
    return transport.capabilities.commands and transport.capabilities.streams


def make_renderer(transport: Transport, render_mode: str | None, camera: str, size: Any) -> EnvRenderer | None:
    """Return what renders the envs, None without a render mode.

    Raises ConfigError (no such mode, a size that is none, a camera without a mode), Unimplemented (the transport or the
    engine has no images), UnknownName (no such camera).
    """
    if render_mode is None:
        if camera or size is not None:
            raise ConfigError(
                f"camera={camera!r}, render_size={size!r} without a render mode", hint="pass render_mode='rgb_array'"
            )
        return None
    if render_mode not in RENDER_MODES:
        raise ConfigError(f"render_mode {render_mode!r}: expected 'rgb_array' or None")
    width, height = (0, 0) if size is None else _size(size)
    return EnvRenderer(transport, _camera(transport, camera), width, height)


def _size(size: Any) -> tuple[int, int]:
    try:
        width, height = (int(side) for side in size)
    except (TypeError, ValueError):
        width = height = 0
    if width < 1 or height < 1:
        raise ConfigError(f"render_size {size!r}: expected (width, height) in pixels, e.g. (320, 240)")
    return width, height


def _camera(transport: Transport, wanted: str) -> str:
    """Return the name of the wanted camera, by default of the engine's first."""
    engine = transport.spec.engine
    if not _carries_images(transport):
        raise Unimplemented(
            f"render_mode 'rgb_array': transport {transport.name!r} carries no streams, which images come in",
            backend=transport.name,
            hint="leave render_mode out, or use another transport",
        )
    hint = "leave render_mode out, or take an engine that answers CameraService, such as mujoco:quadruped"
    missing = Unimplemented(
        f"render_mode 'rgb_array': engine {engine!r} has no camera", backend=transport.name, hint=hint
    )
    if transport.implements(_STREAM) is False:
        raise missing
    try:
        cameras = transport.call(_LIST, ListCamerasRequest()).cameras
    except Unimplemented:
        raise Unimplemented(
            f"render_mode 'rgb_array': engine {engine!r} does not answer ListCameras, by which its cameras are found",
            backend=transport.name,
            hint=hint,
        ) from None
    names = [camera.name for camera in cameras]
    if not names:
        raise missing
    if wanted and wanted not in names:
        raise UnknownName(
            f"engine {engine!r} has no camera {wanted!r}",
            backend=transport.name,
            hint=f"{did_you_mean(wanted, names)}there are: {', '.join(names)}",
        )
    return wanted or names[0]


class EnvRenderer:
    """Renders the envs of one batch; made by `make_renderer`. width, height: pixels, 0 for the camera's own."""

    def __init__(self, transport: Transport, camera: str, width: int, height: int) -> None:
        self._transport = transport
        self._width, self._height = width, height
        envs = range(transport.spec.num_envs)
        self._names = [f"agent_{env}/{camera}" for env in envs] if len(envs) > 1 else [camera]

    def render(self) -> tuple[NDArray[np.uint8], ...]:
        """Return one image per env, uint8 (height, width, 3), of the state after the last step or reset.

        Raises SpecError (images without colour), PeerTimeout, PeerDied, ClosedError, EngineFailed.
        """
        return tuple(self._image(name) for name in self._names)

    def _image(self, name: str) -> NDArray[np.uint8]:
        # a new stream for each image: it begins with the present state, where a running one may show an earlier one
        request = StreamCameraRequest(name=name, width=self._width, height=self._height)
        with self._transport.stream(_STREAM, request, Deadline(_TIMEOUT_S)) as stream:
            pixels = image_array(next(stream))
        if pixels.ndim != 3 or pixels.shape[2] < 3:
            raise SpecError(
                f"camera {name!r} gives {pixels.dtype} {pixels.shape}, expected colour, uint8 (height, width, 3 or 4)",
                backend=self._transport.name,
                hint="choose another camera by make(camera=...)",
            )
        return np.ascontiguousarray(pixels[:, :, :3], np.uint8)

"""CameraService: the robot's cameras, their settings and images, and the images that belong to a step.

The world is copied between two steps and drawn after that. An image is drawn when it is asked for, so a slow reader
gets fewer images, never old ones.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from lucky_transport import messages as m
from lucky_transport.call import Call
from lucky_transport.errors import LocalProtocolError, SpecError, UnknownName
from lucky_transport.host.task import agent_index
from lucky_transport_mujoco.sensors.render_scene import Snapshot
from lucky_transport_mujoco.sensors.render_thread import CHANNELS, MAX_SIDE, RenderRequest, RenderThread
from lucky_transport_mujoco.services.scene import Entities
from lucky_transport_mujoco.services.service import Service, rate_hz, unknown_name
from lucky_transport_mujoco.world import SHOWN, MujocoWorlds

#: A stream asked for in this format shows depth: the request has no other field to say so.
DEPTH_FORMAT = "depth"

#: What a camera starts with: 1 mm a code, 12 m of range.
_DEFAULT = m.CameraConfig(
    width=640, height=480, record_depth=True, enabled=True, depth_scale=0.001, max_range=12.0, min_range=0.1
)

#: The largest code times the scale is the furthest a camera can say.
_MAX_CODE = 65535


class CameraService(Service):
    """Every robot has the same cameras, with the same settings."""

    service = "CameraService"

    def __init__(self, world: MujocoWorlds, entities: Entities, render_thread: RenderThread) -> None:
        super().__init__(world)
        self._entities = entities
        self._render_thread = render_thread
        self._configs = {row.name: replace(_DEFAULT) for row in entities.cameras}

    def frames(self, env: int, requests: Sequence[m.GetCameraFrameRequest]) -> list[m.NamedImageFrame]:
        """Return the images that belong to the step `env` just made, in the order of `requests`; frame numbers are
        that env's count of control steps.

        To be called between two steps, by the thread that stepped, for requests that `check` let pass; it waits for
        the images. Raises ClosedError, PeerTimeout.
        """
        snapshot = Snapshot.of(self.world, env)
        out: list[m.NamedImageFrame] = []
        for request in requests:
            _, name = self._find(request.id, request.name, env)
            depth = request.kind == m.CameraStreamKind.DEPTH
            frame = self._render(snapshot, name, request.width, request.height, depth, snapshot.frame)
            out.append(m.NamedImageFrame(name if request.id else request.name or name, frame))
        return out

    def check(self, env: int, requests: Sequence[m.GetCameraFrameRequest]) -> None:
        """Do nothing when `frames` can answer these requests; to be called before the step.

        Raises SpecError, a ValueError: no such camera, a camera that is switched off, an image too large.
        """
        for request in requests:
            try:
                _, name = self._find(request.id, request.name, env)
                self._usable(name, depth=request.kind == m.CameraStreamKind.DEPTH)
                size(request.width, request.height, self._native(name))
            except (UnknownName, LocalProtocolError) as error:
                raise SpecError(str(error), backend="mujoco") from error

    def list_cameras(self, _: m.ListCamerasRequest) -> m.ListCamerasResponse:
        return m.ListCamerasResponse([m.CameraInfo(m.EntityId(row.id), row.name) for row in self._entities.cameras])

    def get_camera_config(self, request: m.GetCameraConfigRequest) -> m.CameraConfigResponse:
        _, name = self._find(request.id, request.name, SHOWN)
        return m.CameraConfigResponse(True, replace(self._configs[name]))

    def set_camera_config(self, request: m.SetCameraConfigRequest) -> None:
        _, name = self._find(request.id, request.name, SHOWN)
        if request.config is None:
            raise SpecError("no config: read it with GetCameraConfig, change it, write it back")
        problems = _problems(request.config)
        if problems:
            raise SpecError("; ".join(problems))
        self._configs[name] = replace(request.config)

    def stream_camera(self, request: m.StreamCameraRequest, call: Call) -> Iterator[m.ImageFrame]:
        env, name = self._find(request.id, request.name, SHOWN)
        depth = request.format == DEPTH_FORMAT
        self._usable(name, depth=depth)
        size(request.width, request.height, self._native(name))
        for tick in call.ticks(rate_hz(request.target_fps)):
            with call.between_steps():
                snapshot = Snapshot.of(self.world, env)
            yield self._render(snapshot, name, request.width, request.height, depth, tick + 1, call)

    def _find(self, id: m.EntityId | None, name: str, env: int) -> tuple[int, str]:
        """Return env and plain name of the camera meant by an id or a name: "front" is that of `env`, "agent_3/front"
        that of another.
        """
        if id is not None:
            found = self._entities.find(id, "")
            if found is None or found.kind != "camera":
                raise unknown_name(
                    "no camera with id", id.id, (f"{row.id} ({row.name})" for row in self._entities.cameras)
                )
            return env, found.name
        prefix, slash, plain = name.rpartition("/")
        if slash:
            env = agent_index(self.world.spec, prefix)
        if env < 0 or plain not in self._configs:
            raise unknown_name("no camera", name, self._configs)
        return env, plain

    def _usable(self, name: str, *, depth: bool) -> None:
        config = self._configs[name]
        if not config.enabled:
            raise LocalProtocolError(f"camera {name!r} is switched off", hint="SetCameraConfig with enabled = true")
        if depth and not config.record_depth:
            raise LocalProtocolError(
                f"camera {name!r} records no depth", hint="SetCameraConfig with record_depth = true"
            )

    def _native(self, name: str) -> tuple[int, int]:
        return self._configs[name].width, self._configs[name].height

    def _render(
        self,
        snapshot: Snapshot,
        name: str,
        width: int,
        height: int,
        depth: bool,
        number: int,
        call: Call | None = None,
    ) -> m.ImageFrame:
        """Return the image; that of a stream's `call` is drawn where its client sees it."""
        width, height = size(width, height, self._native(name))
        if depth:
            wanted = RenderRequest(snapshot, name, width, height)
            return depth_frame(self._render_thread.depth(wanted), self._configs[name], number)
        memory = None if call is None else call.image_buffer(width * height * CHANNELS)
        wanted = RenderRequest(snapshot, name, width, height, memory=memory)
        return colour_frame(self._render_thread.colour(wanted), number, memory)


def _problems(config: m.CameraConfig) -> list[str]:
    """Return everything that is wrong with a camera's settings, a sentence each."""
    found: list[str] = []
    for side in ("width", "height"):
        pixels = getattr(config, side)
        if not 1 <= pixels <= MAX_SIDE:
            found.append(f"{side} {pixels}: expected 1 to {MAX_SIDE} pixels")
    for name in ("depth_scale", "max_range", "min_range", "detect_floor", "baseline", "subpixel_sigma"):
        value = getattr(config, name)
        if not (math.isfinite(value) and value >= 0):
            found.append(f"{name} {value}: expected a finite number, 0 or more")
    if config.depth_scale == 0:
        found.append("depth_scale 0: expected metres per code, 0.001 for millimetres")
    if not config.min_range < config.max_range:
        found.append(
            f"min_range {config.min_range:g}, max_range {config.max_range:g}: expected the first to be smaller"
        )
    furthest = config.depth_scale * _MAX_CODE
    if math.isfinite(furthest) and 0 < furthest < config.max_range:
        found.append(
            f"max_range {config.max_range:g}: {_MAX_CODE} codes of {config.depth_scale:g} m reach {furthest:g} m"
        )
    if config.sensor_model:
        found.append(f"sensor_model {config.sensor_model}: this engine measures clean depth, expected 0")
    if config.debug_channel:
        found.append(f"debug_channel {config.debug_channel}: clean depth has no inner channels, expected 0")
    if config.record_mask:
        found.append("record_mask: no method of this protocol carries masks, expected false")
    return found


#: There is no encoder, whatever format was asked for.
_FORMAT = "raw"


def colour_frame(image: NDArray[np.uint8], number: int, memory: memoryview | None = None) -> m.ImageFrame:
    """Return the message of an image, RGBA (height, width, 4), which holds `memory` if it was drawn into it."""
    height, width, channels = image.shape
    data = image.tobytes() if memory is None else memory
    return m.ImageFrame(data, width, height, channels, _FORMAT, _now_ms(), number & 0xFFFFFFFF)


def depth_frame(metres: NDArray[np.float32], config: m.CameraConfig, number: int) -> m.ImageFrame:
    """Return the message of distances (height, width) as little-endian uint16 codes of `depth_scale` metres.

    What is out of the camera's range, or of uint16, is code 0.
    """
    codes = np.rint(metres / np.float32(config.depth_scale))
    measured = (metres >= config.min_range) & (metres <= config.max_range) & (codes <= _MAX_CODE)
    data = np.where(measured, codes, 0).astype("<u2").tobytes()
    height, width = metres.shape
    return m.ImageFrame(data, width, height, 1, _FORMAT, _now_ms(), number & 0xFFFFFFFF, config.depth_scale)


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


def size(width: int, height: int, native: tuple[int, int]) -> tuple[int, int]:
    """Return the size of an image that was asked for with these numbers, 0 meaning native.

    Raises SpecError for one that is too large.
    """
    out = (width or native[0], height or native[1])
    if max(out) > MAX_SIDE:
        raise SpecError(f"an image of {out[0]} x {out[1]} pixels", hint=f"ask for at most {MAX_SIDE} x {MAX_SIDE}")
    return out

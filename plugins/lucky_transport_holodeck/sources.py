"""What a sensor shows of one of our envs.

    a Task                  the reward of the last step, and 1.0 once the episode has ended
    configuration "Key", or else the sensor's own name
                            what the engine calls so: an observation part ("camera.left"), term or element, a reward or
                            termination term, "observation", "action" or "reward"
    Location, Rotation, Orientation, Pose, Depth, GPS, Magnetometer
                            the agent's place, from an engine with SceneService
    RGBCamera, CameraSensor, Viewport
                            an observation of that size, or an image of a camera of the engine
    RangeFinder, WorldNum   the whole observation, as far as it has room

A client of ours is refused anything else; the original's sees zeros, which is logged once.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from itertools import accumulate
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lucky_transport.engine import Buffers, Engine
from lucky_transport.errors import SpecError
from lucky_transport.host.host import Host
from lucky_transport.messages import GetCameraFrameRequest
from lucky_transport.spec.batch_spec import BatchSpec
from lucky_transport.spec.composite import views
from lucky_transport_holodeck.poses import Poses, pose_reader
from lucky_transport_holodeck.sensor_types import SensorShape, is_task

#: Sensors that show all of an observation where nothing more is declared.
_WHOLE = ("RangeFinderSensor", "WorldNumSensor")


@dataclass(frozen=True, slots=True)
class Source:
    """`array`: what is shown, C-contiguous, of the sensor's dtype and shape; `renew` brings it up to date, if given."""

    array: NDArray[Any]
    renew: Callable[[NDArray[Any]], None] | None = None


class Sources:
    """The sources of one host; `buffers` hold its frames. is_holoocean: its client speaks HoloOcean's dialect.

    Values are converted to the sensor's own type and laid flat: what has no room is left out, the rest is 0. All envs
    are converted at once, once per tick; where nothing needs converting a sensor shows the engine's own row.
    """

    def __init__(self, spec: BatchSpec, buffers: Buffers, poses: Poses) -> None:
        self.is_holoocean = False
        self._num_envs = spec.num_envs
        self._buffers = buffers
        self._poses = poses
        self._named = _named_rows(spec, buffers)
        self._tables: dict[tuple[str, SensorShape], NDArray[Any]] = {}
        self._refreshing: list[Callable[[], None]] = []

    def refresh(self) -> None:
        """Convert what has to be converted; call it after each step."""
        for convert in self._refreshing:
            convert()

    def find(
        self, env: int, sensor_type: str, name: str, config: Mapping[str, Any], shape: SensorShape
    ) -> Source | None:
        """Return the source of a sensor that is no camera, None when the engine has nothing for it."""
        if is_task(sensor_type):
            return Source(self._task_table(shape)[env])
        for key in (config.get("Key"), name):
            if key in self._named:
                return Source(self._table(key, shape)[env])
        if sensor_type in _WHOLE and "Key" not in config:
            return Source(self._table("observation", shape)[env])
        if not self._poses.are_known:
            return None
        read = pose_reader(self._poses, env, sensor_type, config, is_holoocean=self.is_holoocean)
        if read is None:
            return None
        return Source(np.zeros(shape.shape, shape.dtype), lambda array: np.copyto(array, read()))

    def image(self, env: int, key: str, shape: SensorShape) -> Source | None:
        """Return the source of a camera from an observation of that size, None when there is none."""
        for name in (key, "observation"):
            rows = self._named.get(name)
            if rows is not None and rows.ndim == 4 and rows.dtype == np.uint8 and rows.shape[1:3] == shape.shape[:2]:
                opaque = np.full(shape.shape, 255, np.uint8)
                return Source(opaque, partial(_copy_image, rows[env][..., : shape.shape[2]]))
        return None

    def _task_table(self, shape: SensorShape) -> NDArray[Any]:
        table = self._tables.get(("", shape))
        if table is None:
            table = self._tables["", shape] = np.zeros((self._num_envs, *shape.shape), shape.dtype)
            self._refreshing.append(partial(_fill_tasks, table, self._buffers))
        return table

    def _table(self, key: str, shape: SensorShape) -> NDArray[Any]:
        """Return what `key` names, (num_envs, *shape), converted where it has to be."""
        table = self._tables.get((key, shape))
        if table is None:
            rows, wanted = self._named[key], (self._num_envs, *shape.shape)
            if shape.point_size:
                table = np.zeros(wanted, shape.dtype)
                self._refreshing.append(partial(_fill_points, table, rows, shape.point_size))
            elif (
                len(shape.shape) == 3 and rows.shape[1:-1] == shape.shape[:2]
            ):  # an image of fewer channels, or as many
                table = np.full(wanted, 255, shape.dtype)
                self._refreshing.append(partial(_copy_image, rows[..., : shape.shape[2]], table))
            elif rows.dtype == shape.dtype and rows.flags.c_contiguous and rows[0].size == np.prod(shape.shape):
                table = rows.reshape(wanted)
            else:
                table = np.zeros(wanted, shape.dtype)
                self._refreshing.append(partial(_convert, table.reshape(self._num_envs, -1), rows))
            self._tables[key, shape] = table
        return table


def _fill_tasks(table: NDArray[np.float32], buffers: Buffers) -> None:
    table[:, 0] = buffers.rewards
    table[:, 1] = (buffers.terminated | buffers.truncated) != 0


def _convert(table: NDArray[Any], rows: NDArray[Any]) -> None:
    values = rows.reshape(len(table), -1)
    count = min(values.shape[1], table.shape[1])
    np.copyto(table[:, :count], values[:, :count], casting="unsafe")


def _fill_points(table: NDArray[Any], rows: NDArray[Any], size: int) -> None:
    """Fill a lidar's blocks: the count of points in a row of its own, and the points, as many as there is room for."""
    values = rows.reshape(len(table), -1)
    count = min(values.shape[1], table.shape[1] - size) // size
    table[:, 0] = count
    np.copyto(table[:, size : size * (count + 1)], values[:, : size * count], casting="unsafe")


def _copy_image(image: NDArray[np.uint8], array: NDArray[Any]) -> None:
    array[..., : image.shape[-1]] = image


def _named_rows(spec: BatchSpec, buffers: Buffers) -> dict[str, NDArray[Any]]:
    """Return name -> array whose first axis is the env; a name that stands for more than one thing keeps its first."""
    found: dict[str, NDArray[Any]] = {"observation": buffers.observations, "action": buffers.actions}
    found["reward"] = buffers.rewards
    for path, view in (views(buffers.observations, spec.observation_parts) if spec.observation_parts else {}).items():
        found.setdefault(".".join(map(str, path)), view)
    flat = buffers.observations.reshape(spec.num_envs, -1)
    ends = accumulate(size for _, size in spec.observation_terms)
    for (name, size), end in zip(spec.observation_terms, ends, strict=True):
        found.setdefault(name, flat[:, end - size : end])
    for number, name in enumerate(spec.observation_names):
        found.setdefault(name, flat[:, number : number + 1])
    for number, name in enumerate((*spec.reward_terms, *spec.termination_terms)):
        found.setdefault(name, buffers.signals[number])
    return found


def engine_camera(host: Host, env: int, name: str, shape: SensorShape) -> Source | None:
    """Return the source of a camera of the engine, called `name`, (height, width, 4); None when it has no cameras.

    Raises SpecError, with the engine's text, when the engine has cameras and none of that name and size.
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
            image = np.frombuffer(frame.data, np.uint8).reshape(height, width, frame.channels)
            array[..., : frame.channels] = image

    return Source(np.full(shape.shape, 255, np.uint8), renew)

"""LidarService: a spinning lidar on every robot, sensor i on agent_i's, measured by MuJoCo's rays.

Materials are the colours of the geoms. A scan shows the moment of the request and has no effect on the simulation.
Ranges are exact: of the return model, intensities follow `intensity_ref_range` and `near_range_r0`, the rest is kept.
"""

from __future__ import annotations

import math
from dataclasses import asdict, fields, replace
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from lucky_transport import messages as m
from lucky_transport.engine import Handler
from lucky_transport.errors import LocalProtocolError, SpecError, Unimplemented, UnknownName
from lucky_transport.messages.methods import METHODS
from lucky_transport_mujoco.sensors.render_scene import RenderScene, Snapshot
from lucky_transport_mujoco.sensors.renderers import cast, colours
from lucky_transport_mujoco.services.service import Service
from lucky_transport_mujoco.world import MujocoWorlds

#: Beam layouts: 0 is what a sensor starts with, then a longer and a longer, finer one.
PRESETS = tuple(
    m.LidarConfigResponse(
        True,
        channels=channels,
        azimuth_bins=bins,
        vfov_min_deg=low,
        vfov_max_deg=high,
        min_range=0.1,
        max_range=reach,
        rotation_hz=10.0,
        geom_group_mask=0b111111,
        self_ignore=1,
    )
    for channels, bins, low, high, reach in (
        (16, 180, -25.0, 15.0, 30.0),
        (32, 360, -25.0, 15.0, 60.0),
        (64, 720, -30.0, 15.0, 100.0),
    )
)

_RETURNS = m.LidarReturnParamsResponse(intensity_ref_range=1.0, near_range_r0=0.5, max_returns=1)

_MAX_BEAMS = 131072

#: The robot's base, and where the sensor is in its frame: above the middle of the trunk.
_BASE = 1
_MOUNT_M = np.array([0.0, 0.0, 0.09])

#: How bright red, green and blue are.
_BRIGHTNESS = np.array([0.2126, 0.7152, 0.0722])


class LidarService(Service):
    """The lidars of all robots."""

    service = "LidarService"

    def __init__(self, world: MujocoWorlds) -> None:
        super().__init__(world)
        self._configs = [PRESETS[0]] * world.num_envs
        self._returns = _RETURNS
        self._live = False
        self._scene: RenderScene | None = None

    def set_lidar_live(self, request: m.SetLidarLiveRequest) -> None:
        self._live = request.live

    def set_lidar_config(self, request: m.SetLidarConfigRequest) -> None:
        config, layout = self._config(request.sensor), asdict(request)
        _refuse(_layout_problems(request))
        del layout["sensor"]
        self._configs[request.sensor] = replace(config, **layout)

    def get_lidar_config(self, request: m.LidarSensorRequest) -> m.LidarConfigResponse:
        return replace(self._config(request.sensor))

    def set_lidar_return_params(self, request: m.SetLidarReturnParamsRequest) -> None:
        given = {item.name: getattr(request, item.name) for item in fields(request)}
        wanted = replace(self._returns, **{name: value for name, value in given.items() if value is not None})
        for item in fields(wanted):
            value = getattr(wanted, item.name)
            if not (math.isfinite(value) and value >= 0):
                raise SpecError(f"{item.name} {value:g}: expected a finite number, 0 or more")
        self._returns = wanted

    def get_lidar_return_params(self, _: m.GetLidarReturnParamsRequest) -> m.LidarReturnParamsResponse:
        return replace(self._returns)

    def set_lidar_preset(self, request: m.SetLidarPresetRequest) -> None:
        if request.preset >= len(PRESETS):
            raise SpecError(f"preset {request.preset}: expected 0 to {len(PRESETS) - 1}")
        self._configs = [PRESETS[request.preset]] * self.world.num_envs

    def set_lidar_secondary_capture(self, request: m.SetLidarSecondaryCaptureRequest) -> None:
        config = self._config(request.sensor)
        if request.capture:
            text = f"capture {request.capture}: nothing in this scene is transparent or a mirror, expected 0"
            raise SpecError(text)
        if request.scope > 1:
            raise SpecError(f"scope {request.scope}: expected 0 or 1")
        self._configs[request.sensor] = replace(config, secondary_scope=request.scope)

    def get_lidar_scan(self, request: m.GetLidarScanRequest) -> m.LidarScanResponse:
        config = self._config(request.sensor)
        if not self._live:
            raise LocalProtocolError("the lidar is off", backend="mujoco", hint="call SetLidarLive(live=True) first")
        if self._scene is None:
            self._scene = RenderScene()
        self._scene.show(Snapshot.of(self.world, request.sensor))
        back, ranges, bright = _measure(self._scene, config)
        near, reference = max(self._returns.near_range_r0, 1e-3), self._returns.intensity_ref_range
        strength = bright * (reference / np.maximum(ranges, near)) ** 2
        strong = request.want_intensity and request.material
        return m.LidarScanResponse(
            len(back),
            _floats(np.where(back, ranges, -1)),
            [-1.0] * len(back) if request.want_secondary else [],
            _floats(np.where(back, strength, 0)) if strong else [],
            _floats(np.where(back, bright, -1)) if strong else [],
        )

    def get_lidar_beam_count(self, request: m.LidarSensorRequest) -> m.LidarBeamCountResponse:
        config = self._config(request.sensor)
        return m.LidarBeamCountResponse(config.channels * config.azimuth_bins)

    def get_lidar_beam_angles(self, request: m.LidarSensorRequest) -> m.LidarBeamAnglesResponse:
        azimuth, elevation = _angles(self._config(request.sensor))
        return m.LidarBeamAnglesResponse(len(azimuth), _floats(azimuth), _floats(elevation))

    def _config(self, sensor: int) -> m.LidarConfigResponse:
        last = self.world.num_envs - 1
        if sensor > last:
            raise UnknownName(f"no lidar sensor {sensor}: there are 0 to {last}, one per robot")
        return self._configs[sensor]


class LidarBaking(Service):
    """Materials are the colours of the geoms: there is nothing to bake."""

    service = "LidarService"

    def handlers(self) -> dict[str, Handler]:
        return {row.name: _no_baking for row in METHODS if "Bake" in row.short_name}


def _no_baking(_: Any) -> NoReturn:
    raise Unimplemented("this engine bakes no lidar materials: its lidar takes them from the geoms", backend="mujoco")


def _refuse(problems: list[str]) -> None:
    if problems:
        raise SpecError("; ".join(problems))


_Array = NDArray[np.float64]


def _floats(values: _Array) -> list[float]:
    return values.astype(np.float32).tolist()


def _angles(config: m.LidarConfigResponse) -> tuple[_Array, _Array]:
    """Return azimuth and elevation of each beam in radians: float64 (beams,) each.

    Beams are numbered column by column: azimuth from the robot's front to its left and round, in a column from the
    lowest elevation to the highest.
    """
    azimuth = 2 * np.pi * np.arange(config.azimuth_bins) / config.azimuth_bins
    elevation = np.deg2rad(np.linspace(config.vfov_min_deg, config.vfov_max_deg, config.channels))
    return np.repeat(azimuth, config.channels), np.tile(elevation, config.azimuth_bins)


def _measure(scene: RenderScene, config: m.LidarConfigResponse) -> tuple[NDArray[np.bool_], _Array, _Array]:
    """Return for each beam whether it comes back, its range in metres and the reflectivity of the surface as seen under
    its angle.
    """
    azimuth, elevation = _angles(config)
    level = np.cos(elevation)
    turned = scene.data.xmat[_BASE].reshape(3, 3)
    rays = np.stack([level * np.cos(azimuth), level * np.sin(azimuth), np.sin(elevation)], axis=1) @ turned.T
    origin = scene.data.xpos[_BASE] + turned @ _MOUNT_M
    groups = np.array([config.geom_group_mask >> group & 1 for group in range(6)], np.uint8)
    # rays pass through what is invisible
    scene.model.geom_rgba[scene.model.geom_bodyid != 0, 3] = 0 if config.self_ignore else 1
    geoms, ranges, normals = cast(scene, origin, rays, groups)
    points = origin + rays * np.where(geoms >= 0, ranges, 0)[:, None]
    facing = np.abs((normals * rays).sum(axis=1))
    bright = colours(scene, geoms, points, np.zeros(len(rays), np.bool_)) @ _BRIGHTNESS * facing
    back = (geoms >= 0) & (ranges >= config.min_range) & (ranges <= config.max_range)
    return back, ranges, bright


def _layout_problems(request: m.SetLidarConfigRequest) -> list[str]:
    """Return everything that is wrong with a beam layout."""
    found: list[str] = []
    if request.scan_pattern:
        found.append(f"scan_pattern {request.scan_pattern}: expected 0 (spinning)")
    if request.channels < 1 or request.azimuth_bins < 1 or request.channels * request.azimuth_bins > _MAX_BEAMS:
        found.append(
            f"channels {request.channels} x azimuth_bins {request.azimuth_bins}: expected 1 to {_MAX_BEAMS} beams"
        )
    if not -90 <= request.vfov_min_deg <= request.vfov_max_deg <= 90:
        found.append(f"vfov {request.vfov_min_deg:g} to {request.vfov_max_deg:g}: expected rising, within -90 to 90")
    if not (0 <= request.min_range < request.max_range and math.isfinite(request.max_range)):
        found.append(f"range {request.min_range:g} to {request.max_range:g}: expected rising, from 0 m on")
    if not (request.rotation_hz > 0 and math.isfinite(request.rotation_hz)):
        found.append(f"rotation_hz {request.rotation_hz:g}: expected more than 0")
    if request.geom_group_mask >= 1 << 6:
        found.append(f"geom_group_mask {request.geom_group_mask}: MuJoCo has six groups, expected at most 63")
    if request.self_ignore > 1:
        found.append(f"self_ignore {request.self_ignore}: expected 0 or 1")
    return found

"""A spinning lidar: where its beams go, what they hit, and which of them come back."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from lucky_transport.messages import LidarConfigResponse, LidarReturnParamsResponse
from lucky_transport_mujoco.sensors.raycast import cast, normals, reflectivity
from lucky_transport_mujoco.sensors.render_scene import RenderScene

_Array = NDArray[np.float64]

#: Where the sensor is, in the frame of the robot's base: above the middle of the trunk.
_MOUNT_M = np.array([0.0, 0.0, 0.09])

_BASE = 1


@dataclass(frozen=True, slots=True)
class LidarReturn:
    """One scan: float32 (beams,) each. ranges: metres, -1 without return. intensity: as received. reflectivity: of the
    surface as seen under its angle, -1 without return.
    """

    ranges: NDArray[np.float32]
    intensity: NDArray[np.float32]
    reflectivity: NDArray[np.float32]


def angles(config: LidarConfigResponse) -> tuple[_Array, _Array]:
    """Return azimuth and elevation of each beam in radians: float64 (beams,) each.

    Beams are numbered column by column: azimuth from the robot's front to its left and round, in a column from the
    lowest elevation to the highest.
    """
    azimuth = 2 * np.pi * np.arange(config.azimuth_bins) / config.azimuth_bins
    elevation = np.deg2rad(np.linspace(config.vfov_min_deg, config.vfov_max_deg, config.channels))
    return np.repeat(azimuth, config.channels), np.tile(elevation, config.azimuth_bins)


def scan(
    scene: RenderScene,
    config: LidarConfigResponse,
    material: LidarReturnParamsResponse | None,
    random: np.random.Generator,
) -> LidarReturn:
    """Return what the sensor on the standing_scene robot measures; without `material` every hit within
    range comes back, exactly.
    """
    azimuth, elevation = angles(config)
    level = np.cos(elevation)
    own = np.stack([level * np.cos(azimuth), level * np.sin(azimuth), np.sin(elevation)], axis=1)
    turned = scene.data.xmat[_BASE].reshape(3, 3)
    rays = own @ turned.T
    origin = scene.data.xpos[_BASE] + turned @ _MOUNT_M
    geoms, ranges = _hits(scene, config, origin, rays)
    points = origin + rays * np.where(np.isfinite(ranges), ranges, 0)[:, None]
    facing = np.abs((normals(scene, geoms, points) * rays).sum(axis=1))
    bright = reflectivity(scene, geoms, points) * facing
    back = (geoms >= 0) & (ranges >= config.min_range) & (ranges <= config.max_range)
    strength = bright
    if material is not None:
        strength = bright * (material.intensity_ref_range / np.maximum(ranges, max(material.near_range_r0, 1e-3))) ** 2
        back &= _comes_back(material, ranges, bright, facing, strength)
        sigma = material.noise_sigma0 + material.noise_slope_per_m * np.where(back, ranges, 0)
        ranges = np.maximum(ranges + sigma * random.standard_normal(len(ranges)), 0)
    return LidarReturn(_where(back, ranges), _where(back, strength, 0.0), _where(back, bright))


def _where(back: NDArray[np.bool_], values: _Array, otherwise: float = -1.0) -> NDArray[np.float32]:
    return np.where(back, values, otherwise).astype(np.float32)


def _hits(
    scene: RenderScene, config: LidarConfigResponse, origin: _Array, rays: _Array
) -> tuple[NDArray[np.int32], _Array]:
    """Return the first hits of all beams; with `self_ignore` they pass through the robot that carries the sensor."""
    groups = np.array([config.geom_group_mask >> group & 1 for group in range(6)], np.uint8)
    colours = scene.model.geom_rgba
    robot = scene.model.geom_bodyid != 0
    seen = colours[robot, 3].copy()
    if config.self_ignore:
        colours[robot, 3] = 0  # rays pass through what is invisible
    try:
        return cast(scene, origin, rays, groups)
    finally:
        colours[robot, 3] = seen


def _comes_back(
    material: LidarReturnParamsResponse, ranges: _Array, bright: _Array, facing: _Array, strength: _Array
) -> NDArray[np.bool_]:
    """Return bool (beams,): which returns are strong enough to be noticed."""
    reach = material.max_range_at_ref * (bright / material.ref_reflectivity) ** (1 / material.range_exp)
    return (
        (ranges <= reach)
        & (ranges >= material.range_floor)
        & (facing >= material.grazing_cos_cutoff)
        & (strength >= material.detect_floor)
    )

"""Lidar sensors that know what their beams hit: scans, sensor configuration, and the material bake behind them.

Generated from proto/lidar.proto by schema/generate.py; do not edit.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from lucky_transport.messages.scalars import F32, I32, U32, U64, no_items

__all__ = [
    "BakeLidarMaterialRequest",
    "GetLidarReturnParamsRequest",
    "GetLidarScanRequest",
    "LidarAck",
    "LidarBakeStatusResponse",
    "LidarBeamAnglesResponse",
    "LidarBeamCountResponse",
    "LidarConfigResponse",
    "LidarReturnParamsResponse",
    "LidarScanResponse",
    "LidarSensorRequest",
    "LoadLidarBakeRequest",
    "SaveLidarBakeRequest",
    "SetLidarConfigRequest",
    "SetLidarLiveRequest",
    "SetLidarPresetRequest",
    "SetLidarReturnParamsRequest",
    "SetLidarSecondaryCaptureRequest",
]


@dataclass(slots=True)
class LidarAck:
    """Whether the change was made, else why not."""

    ok: bool = False
    message: str = ""


@dataclass(slots=True)
class LidarSensorRequest:
    """Names a sensor, from 0."""

    sensor: U32 = 0


@dataclass(slots=True)
class SetLidarLiveRequest:
    """Switches the sensors on or off; they must be on before scans are read, and stay so through resets."""

    live: bool = False


@dataclass(slots=True)
class SetLidarConfigRequest:
    """Sets the beams of one sensor: `channels` in elevation times `azimuth_bins` around.

    vfov_min_deg, vfov_max_deg: lowest and highest elevation, degrees. min_range, max_range: metres. rotation_hz: turns
    per second. geom_group_mask: one bit per MuJoCo geom group. self_ignore: 1 = beams pass through the sensor's own
    body.
    """

    sensor: U32 = 0
    scan_pattern: U32 = 0
    channels: U32 = 0
    azimuth_bins: U32 = 0
    vfov_min_deg: F32 = 0.0
    vfov_max_deg: F32 = 0.0
    min_range: F32 = 0.0
    max_range: F32 = 0.0
    rotation_hz: F32 = 0.0
    geom_group_mask: U32 = 0
    self_ignore: U32 = 0


@dataclass(slots=True)
class LidarConfigResponse:
    """The beams of one sensor; `found` is False where there is no such sensor.

    The fields are those of SetLidarConfigRequest and SetLidarSecondaryCaptureRequest.
    """

    found: bool = False
    scan_pattern: U32 = 0
    channels: U32 = 0
    azimuth_bins: U32 = 0
    vfov_min_deg: F32 = 0.0
    vfov_max_deg: F32 = 0.0
    min_range: F32 = 0.0
    max_range: F32 = 0.0
    rotation_hz: F32 = 0.0
    geom_group_mask: U32 = 0
    self_ignore: U32 = 0
    secondary_capture: U32 = 0  # as SetLidarSecondaryCaptureRequest.capture
    secondary_scope: U32 = 0  # as SetLidarSecondaryCaptureRequest.scope


@dataclass(slots=True)
class SetLidarReturnParamsRequest:
    """Sets how strong a return is, how noisy, and when it is lost, for all sensors.

    A field that may be None keeps what is in force where it is; all others are set.

    max_range_at_ref: metres at which a surface of `ref_reflectivity` (0 to 1) is just seen. range_exp: exponent of the
    fall with distance. noise_sigma0: metres; noise_slope_per_m: metres per metre. grazing_cos_cutoff: cosine of the
    incidence below which nothing returns. intensity_ref_range, near_range_r0, range_floor, min_return_separation:
    metres.
    """

    max_range_at_ref: F32 = 0.0
    ref_reflectivity: F32 = 0.0
    range_exp: F32 = 0.0
    noise_sigma0: F32 = 0.0
    grazing_cos_cutoff: F32 = 0.0
    intensity_ref_range: F32 = 0.0
    detect_floor: F32 = 0.0
    near_range_r0: F32 = 0.0
    noise_slope_per_m: F32 = 0.0
    spec_slope_floor: F32 | None = None
    spec_peak_max: F32 | None = None
    retro_gain: F32 | None = None
    retro_cos_exp: F32 | None = None
    fold_max_slope: F32 | None = None
    range_floor: F32 | None = None
    min_return_separation: F32 | None = None
    max_returns: U32 | None = None


@dataclass(slots=True)
class GetLidarReturnParamsRequest:
    """Asks for the return model in force."""


@dataclass(slots=True)
class LidarReturnParamsResponse:
    """The return model in force, as in SetLidarReturnParamsRequest."""

    max_range_at_ref: F32 = 0.0
    ref_reflectivity: F32 = 0.0
    range_exp: F32 = 0.0
    noise_sigma0: F32 = 0.0
    grazing_cos_cutoff: F32 = 0.0
    intensity_ref_range: F32 = 0.0
    detect_floor: F32 = 0.0
    near_range_r0: F32 = 0.0
    noise_slope_per_m: F32 = 0.0
    spec_slope_floor: F32 = 0.0
    spec_peak_max: F32 = 0.0
    retro_gain: F32 = 0.0
    retro_cos_exp: F32 = 0.0
    fold_max_slope: F32 = 0.0
    range_floor: F32 = 0.0
    min_return_separation: F32 = 0.0
    max_returns: U32 = 0


@dataclass(slots=True)
class SetLidarPresetRequest:
    """Sets every sensor to one of the engine's presets, from 0."""

    preset: U32 = 0


@dataclass(slots=True)
class BakeLidarMaterialRequest:
    """Builds the grid that tells the material at a place; it walks the whole scene and takes its time.

    0 = the scene's own setting. cell_size: metres. max_dim: cells along the longest side. splat_radius: cells, -1 = a
    radius of 0. include_hidden: 1 include, 2 exclude.
    """

    cell_size: F32 = 0.0
    max_dim: I32 = 0
    splat_radius: I32 = 0
    include_hidden: U32 = 0


@dataclass(slots=True)
class LidarBakeStatusResponse:
    """What the grid holds and whether it still fits the scene.

    cell_size_m: metres. geom_materials: 0 = materials are looked up by place only. stale: it answers with the materials
    of the time it was made.
    """

    valid: bool = False
    format_version: U32 = 0
    cell_size_m: F32 = 0.0
    splat_radius: I32 = 0
    dim_x: U32 = 0
    dim_y: U32 = 0
    dim_z: U32 = 0
    filled_cells: U64 = 0
    geom_materials: U64 = 0
    material_fingerprint: U64 = 0
    stale: bool = False


@dataclass(slots=True)
class SetLidarSecondaryCaptureRequest:
    """What becomes of a beam after its first hit.

    capture: 0 nothing, 1 it passes through, 2 it is reflected, 3 both. scope: 0 where the material suggests it, 1 at
    every hit.
    """

    sensor: U32 = 0
    capture: U32 = 0
    scope: U32 = 0


@dataclass(slots=True)
class LoadLidarBakeRequest:
    """Loads a grid that was saved under that name."""

    name: str = ""


@dataclass(slots=True)
class SaveLidarBakeRequest:
    """Saves the grid under that name."""

    name: str = ""


@dataclass(slots=True)
class GetLidarScanRequest:
    """Asks for one scan of a sensor; what is not wanted comes empty.

    material: apply the return model, without which intensities mean nothing.
    """

    sensor: U32 = 0
    material: bool = False
    want_secondary: bool = False
    want_intensity: bool = False


@dataclass(slots=True)
class LidarScanResponse:
    """One scan, one value per beam where it was asked for.

    beams: channels * azimuth_bins. ranges, secondary_ranges: metres, -1 = no return. intensity: as received, falling
    with the square of the range. reflectivity_calibrated: without that fall, -1 = material unknown.
    """

    beams: U32 = 0
    ranges: list[F32] = field(default_factory=no_items)
    secondary_ranges: list[F32] = field(default_factory=no_items)
    intensity: list[F32] = field(default_factory=no_items)
    reflectivity_calibrated: list[F32] = field(default_factory=no_items)


@dataclass(slots=True)
class LidarBeamCountResponse:
    """How many beams a scan has."""

    beams: U32 = 0


@dataclass(slots=True)
class LidarBeamAnglesResponse:
    """Direction of each beam in radians, in the order of LidarScanResponse.ranges: azimuth about the vertical,
    elevation above the horizon.
    """

    beams: U32 = 0
    azimuth: list[F32] = field(default_factory=no_items)
    elevation: list[F32] = field(default_factory=no_items)

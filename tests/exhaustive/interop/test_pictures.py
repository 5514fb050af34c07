"""Cameras, viewport, debug drawing and lidar, as LuckyEngineClient reaches them."""

# pyright: basic
# Reason: luckyrobots ships no types.

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest


def _pixels(frame: Any) -> np.ndarray:
    """Return a colour frame as uint8 (height, width, channels)."""
    return np.frombuffer(frame.data, np.uint8).reshape(frame.height, frame.width, frame.channels)


def _first(stream: Any) -> Any:
    frame = next(stream)
    stream.cancel()
    return frame


def test_cameras_are_listed_by_name_and_id(client: Any) -> None:
    cameras = client.list_cameras()
    assert [camera["name"] for camera in cameras] == ["track", "front", "top"]
    for camera in cameras:
        found = client.get_entity(entity_id=camera["id"])
        assert (found["name"], "Camera" in found["components"]) == (camera["name"], True)


def test_a_camera_is_streamed_by_name_and_by_id(client: Any) -> None:
    entity_id = next(camera["id"] for camera in client.list_cameras() if camera["name"] == "front")
    for wanted in ({"name": "front"}, {"entity_id": entity_id}):
        stream = client.stream_camera(**wanted, target_fps=60, width=64, height=48)
        frames = list(itertools.islice(stream, 3))
        stream.cancel()
        assert [(frame.width, frame.height, frame.channels) for frame in frames] == [(64, 48, 4)] * 3
        assert [len(frame.data) for frame in frames] == [64 * 48 * 4] * 3
        assert frames[0].frame_number < frames[1].frame_number < frames[2].frame_number
        assert len(np.unique(_pixels(frames[0])[..., :3].reshape(-1, 3), axis=0)) > 10  # a picture, no plain colour


def test_a_camera_without_a_size_has_its_own(client: Any) -> None:
    config = client.get_camera_config("front").config
    frame = _first(client.stream_camera(name="front"))
    assert (frame.width, frame.height) == (config.width, config.height) == (640, 480)


def test_an_unknown_camera_ends_its_stream_with_the_names_there_are(client: Any, lucky: Any) -> None:
    grpc = lucky.client.grpc
    with pytest.raises(grpc.RpcError) as caught:
        next(client.stream_camera(name="fornt"))
    assert caught.value.code() is grpc.StatusCode.NOT_FOUND
    assert "did you mean 'front'" in caught.value.details()


def test_a_cameras_settings_are_read_changed_and_written_back(client: Any) -> None:
    before = client.get_camera_config("top")
    assert before.found
    changed = client.pb.camera.CameraConfig()
    changed.CopyFrom(before.config)
    changed.width, changed.height = 80, 60
    assert client.set_camera_config("top", changed).ok
    frame = _first(client.stream_camera(name="top"))
    assert (frame.width, frame.height) == (80, 60)
    changed.width = 0
    assert not client.set_camera_config("top", changed).ok
    assert client.set_camera_config("top", before.config).ok
    assert not client.get_camera_config("bottom").found


def test_a_step_brings_the_frames_that_were_asked_for_in_order(client: Any) -> None:
    client.configure_cameras(
        [
            {"name": "top", "width": 32, "height": 24},
            {"name": "front", "width": 48, "height": 16, "kind": "depth"},
            {"name": "front", "width": 16, "height": 16},
        ]
    )
    client.reset_agent()
    frames = client.step([0.0] * 12).camera_frames
    assert [(frame.name, frame.width, frame.height, frame.channels) for frame in frames] == [
        ("top", 32, 24, 4),
        ("front", 48, 16, 1),
        ("front", 16, 16, 4),
    ]
    assert [len(frame.data) for frame in frames] == [32 * 24 * 4, 48 * 16 * 2, 16 * 16 * 4]
    assert frames[0].depth_scale == frames[2].depth_scale == 0.0
    later = client.step([0.0] * 12).camera_frames
    assert [frame.frame_number for frame in later] == [frame.frame_number + 1 for frame in frames]
    client.configure_cameras([])
    assert client.step([0.0] * 12).camera_frames == []


def test_depth_is_in_metres(client: Any) -> None:
    client.reset_scene()
    client.configure_cameras([{"name": "top", "width": 64, "height": 48, "kind": "depth"}])
    (frame,) = client.step().camera_frames
    metres = np.frombuffer(frame.data, "<u2").reshape(48, 64) * frame.depth_scale
    height = client.get_entity(name="top")["transform"]["position"][2]
    assert metres[0, 0] == pytest.approx(height, rel=0.02)  # the ground, whose depth is the camera's height
    assert metres[24, 32] < height - 0.2  # the robot's back


def test_depth_is_streamed_as_a_format(client: Any) -> None:
    frame = _first(client.stream_camera(name="top", width=32, height=24, format="depth"))
    assert (frame.channels, len(frame.data)) == (1, 32 * 24 * 2)
    assert frame.depth_scale > 0


def test_a_camera_that_is_not_there_refuses_the_step(client: Any) -> None:
    client.configure_cameras([{"name": "rear"}])
    client.reset_agent()
    with pytest.raises(RuntimeError, match="no camera 'rear'"):
        client.step([0.0] * 12)


def test_the_viewport_is_streamed_in_the_size_asked_for(client: Any) -> None:
    (name,) = client.get_viewport_info()["available_viewports"]
    stream = client.stream_viewport(name, target_fps=60, width=96, height=64)
    frames = list(itertools.islice(stream, 2))
    running = client.get_viewport_info()["current_config"]
    stream.cancel()
    assert [(frame.width, frame.height, frame.channels, len(frame.data)) for frame in frames] == [
        (96, 64, 4, 96 * 64 * 4)
    ] * 2
    assert running == {"streaming": True, "viewport_name": "Main", "fps": 60, "width": 96, "height": 64}


def test_what_is_drawn_shows_in_the_viewport(client: Any, lucky: Any) -> None:
    debug = lucky.debug

    def view() -> np.ndarray:
        return _pixels(_first(client.stream_viewport(width=160, height=90)))

    client.debug.Draw(client.pb.debug.DebugDrawRequest(clear_previous=True))
    before = view()
    magenta = (1.0, 0.0, 1.0, 1.0)
    for draw in (
        lambda: debug.draw_line(client, (-1, 0, 0.6), (1, 0, 0.6), color=magenta),
        lambda: debug.draw_arrow(client, (0, 0, 0.5), (0, 0, 1), color=magenta, clear_previous=True),
        lambda: debug.draw_velocity_command(client, (0, 0, 0.4), 1.0, 0.2, 0.5),
    ):
        assert draw()
        assert (view() != before).any()
    assert client.debug.Draw(client.pb.debug.DebugDrawRequest(clear_previous=True)).success
    assert (view() == before).all()


def test_a_drawing_that_is_not_finite_is_refused(client: Any, lucky: Any) -> None:
    assert not lucky.debug.draw_line(client, (float("nan"), 0, 0), (1, 0, 0))


def test_the_lidar_is_switched_on_and_scans(client: Any) -> None:
    assert client.set_lidar_live(True).ok
    beams = client.get_lidar_beam_count()
    scan = client.get_lidar_scan(material=True, want_secondary=True, want_intensity=True)
    assert scan.beams == beams
    for values in (scan.ranges, scan.secondary_ranges, scan.intensity, scan.reflectivity_calibrated):
        assert len(values) == beams
    ranges = np.array(scan.ranges)
    assert ((ranges == -1) | (ranges > 0)).all()
    assert (ranges > 0).any()
    plain = client.get_lidar_scan()
    assert (len(plain.ranges), len(plain.secondary_ranges), len(plain.intensity)) == (beams, 0, 0)
    assert client.set_lidar_live(False).ok


def _changed(request: Any, found: Any, **changes: Any) -> Any:
    """Return `request` with the fields of `found` that it has, and these changes."""
    for name in request.DESCRIPTOR.fields_by_name:
        if name in found.DESCRIPTOR.fields_by_name:
            setattr(request, name, changes.get(name, getattr(found, name)))
    return request


def test_lidar_methods_without_a_wrapper_are_reached_through_the_stub(client: Any) -> None:
    pb, lidar = client.pb.lidar, client.lidar
    sensor = pb.LidarSensorRequest(sensor=0)
    angles = lidar.GetLidarBeamAngles(sensor)
    assert len(angles.azimuth) == len(angles.elevation) == angles.beams == client.get_lidar_beam_count()
    assert lidar.SetLidarPreset(pb.SetLidarPresetRequest(preset=1)).ok
    assert lidar.GetLidarConfig(sensor).channels == 32
    assert lidar.SetLidarPreset(pb.SetLidarPresetRequest(preset=0)).ok
    assert lidar.SetLidarConfig(_changed(pb.SetLidarConfigRequest(), lidar.GetLidarConfig(sensor), channels=8)).ok
    assert lidar.GetLidarConfig(sensor).channels == 8
    assert lidar.SetLidarPreset(pb.SetLidarPresetRequest(preset=0)).ok
    returns = lidar.GetLidarReturnParams(pb.GetLidarReturnParamsRequest())
    assert lidar.SetLidarReturnParams(_changed(pb.SetLidarReturnParamsRequest(), returns, retro_gain=2.0)).ok
    assert lidar.GetLidarReturnParams(pb.GetLidarReturnParamsRequest()).retro_gain == 2.0
    assert lidar.SetLidarReturnParams(_changed(pb.SetLidarReturnParamsRequest(), returns)).ok
    assert client.set_lidar_secondary_capture(capture=0).ok


def test_baking_is_unimplemented(client: Any, lucky: Any) -> None:
    grpc = lucky.client.grpc
    pb, lidar = client.pb.lidar, client.lidar
    for call in (
        client.bake_lidar_material,
        client.get_lidar_bake_status,
        lambda: lidar.LoadLidarBake(pb.LoadLidarBakeRequest()),
        lambda: lidar.SaveLidarBake(pb.SaveLidarBakeRequest()),
    ):
        with pytest.raises(grpc.RpcError) as caught:
            call()
        assert caught.value.code() is grpc.StatusCode.UNIMPLEMENTED
        assert "bakes no lidar materials" in caught.value.details()

"""Lidar scans; images beside a stepping engine, which they do not hold up; and `env.render()`."""

import contextlib
import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from lucky_transport import api, image_array

pytest.importorskip("mujoco", reason="needs the extra: pip install 'lucky-transport[mujoco]'")

from lucky_transport import messages as m
from lucky_transport.call import Call
from lucky_transport.errors import ClosedError, SpecError
from lucky_transport_mujoco.sensors.lidar import PRESETS
from lucky_transport_mujoco.sensors.render_thread import RenderThread
from tests.support.waiting import PATIENCE_S, beside

MOUNT_M = 0.09


@pytest.fixture
def batch(robots: Callable[..., Any]) -> Any:
    """Two robots standing on flat ground, with their lidars on."""
    made = robots(2)
    assert made.ask(m.SetLidarLiveRequest(True)).ok
    return made


def call(batch: Any, name: str, request: Any) -> Any:
    return batch.call(f"LidarService/{name}", request)


def scan(batch: Any, **request: Any) -> Any:
    return batch.ask(m.GetLidarScanRequest(**request))


def ranges(batch: Any, **request: Any) -> NDArray[np.float32]:
    return np.array(scan(batch, **request).ranges, np.float32)


def test_beams_meet_flat_ground_where_trigonometry_says(batch: Any) -> None:
    found = ranges(batch)
    angles = call(batch, "GetLidarBeamAngles", m.LidarSensorRequest(0))
    elevation = np.array(angles.elevation)
    height = batch.engine.world.qpos()[2] + MOUNT_M
    down = elevation < -0.01
    expected = height / np.sin(-elevation[down])
    near = expected <= 30.0
    assert found[down][near] == pytest.approx(expected[near], rel=1e-4)
    assert (found[~down] == -1).all()  # into the sky
    count = call(batch, "GetLidarBeamCount", m.LidarSensorRequest(0)).beams
    assert count == angles.beams == len(found) == len(angles.azimuth) == 16 * 180


def test_azimuth_turns_from_the_front_to_the_left(batch: Any) -> None:
    assert batch.ask(batch.beams(channels=1, azimuth_bins=4, vfov_min_deg=-30.0, vfov_max_deg=-30.0, self_ignore=1)).ok
    angles = call(batch, "GetLidarBeamAngles", m.LidarSensorRequest(0))
    assert angles.azimuth == pytest.approx([0, np.pi / 2, np.pi, 3 * np.pi / 2])
    level = ranges(batch)
    batch.engine.world.qpos()[3:7] = np.cos(0.05), 0, np.sin(0.05), 0  # nose down
    front, left, back, _ = ranges(batch)
    assert front < left < back
    assert left == pytest.approx(level[1], rel=0.05)


def test_the_robot_is_seen_unless_it_is_to_be_ignored(batch: Any) -> None:
    looks_down = {"channels": 4, "azimuth_bins": 90, "vfov_min_deg": -80.0, "vfov_max_deg": -60.0, "min_range": 0.0}
    assert batch.ask(batch.beams(**looks_down, self_ignore=1)).ok
    without = ranges(batch)
    assert batch.ask(batch.beams(**looks_down, self_ignore=0)).ok
    itself = ranges(batch)
    assert itself.min() < 0.1 < without.min()
    assert batch.ask(batch.beams(**looks_down, self_ignore=0, geom_group_mask=0)).ok
    assert (ranges(batch) == -1).all()


def test_range_limits_hold(batch: Any) -> None:
    assert batch.ask(batch.beams(min_range=1.0, max_range=2.0)).ok
    found = ranges(batch)
    seen = found[found >= 0]
    assert seen.size
    assert seen.min() >= 1.0
    assert seen.max() <= 2.0


def test_every_robot_has_its_own_sensor(batch: Any) -> None:
    batch.engine.world.qpos(1)[2] += 0.5
    low, high = ranges(batch, sensor=0), ranges(batch, sensor=1)
    both = (low > 0) & (high > 0)
    assert (high[both] > low[both] + 0.3).all()


def test_intensity_falls_with_the_range_and_reflectivity_does_not_know_it(batch: Any) -> None:
    plain = scan(batch)
    assert plain.intensity == plain.reflectivity_calibrated == plain.secondary_ranges == []
    assert scan(batch, want_intensity=True).intensity == []  # means nothing without the material model
    rich = scan(batch, material=True, want_intensity=True, want_secondary=True)
    found, intensity, own = (np.array(v) for v in (rich.ranges, rich.intensity, rich.reflectivity_calibrated))
    back = found > 0.5
    assert back.sum() > 100
    assert intensity[back] == pytest.approx(own[back] / found[back] ** 2, rel=1e-3)
    assert ((own[back] > 0) & (own[back] < 1)).all()
    assert (own[found < 0] == -1).all()
    assert set(rich.secondary_ranges) == {-1.0}
    assert len(rich.secondary_ranges) == rich.beams


def test_the_return_model_is_kept_and_ranges_stay_exact(batch: Any) -> None:
    exact = ranges(batch, material=True)
    assert batch.ask(batch.returns(retro_gain=3.0, spec_peak_max=0.5)).ok
    assert batch.ask(batch.returns(max_range_at_ref=2.0, noise_sigma0=0.02, retro_gain=0.0)).ok
    after = batch.ask(m.GetLidarReturnParamsRequest())
    assert (after.max_range_at_ref, after.retro_gain, after.spec_peak_max) == (2.0, 0.0, 0.5)
    assert np.array_equal(exact, ranges(batch, material=True))


def test_presets_change_all_sensors(batch: Any) -> None:
    for number, preset in enumerate(PRESETS):
        assert batch.ask(m.SetLidarPresetRequest(number)).ok
        for sensor in range(2):
            assert call(batch, "GetLidarConfig", m.LidarSensorRequest(sensor)) == preset


def test_the_rotation_rate_changes_nothing_in_a_scan(batch: Any) -> None:
    batch.reset()
    batch.step(0.3)
    before = ranges(batch)
    assert batch.ask(batch.beams(rotation_hz=0.5)).ok
    assert call(batch, "GetLidarConfig", m.LidarSensorRequest(0)).rotation_hz == 0.5
    assert ranges(batch).tobytes() == before.tobytes()


def test_the_scope_of_secondary_returns_is_kept(batch: Any) -> None:
    assert batch.ask(m.SetLidarSecondaryCaptureRequest(0, 0, 1)).ok
    assert call(batch, "GetLidarConfig", m.LidarSensorRequest(0)).secondary_scope == 1


# --- images beside a stepping engine ---


def drawing_threads() -> int:
    """Return how many threads draw images now."""
    return sum(thread.name.startswith("images") for thread in threading.enumerate())


def test_an_image_that_takes_long_holds_up_no_step(robots: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> None:
    batch = robots(1, renderer="rays")
    drawing, go_on = threading.Event(), threading.Event()
    colour = RenderThread.colour

    def slow(render_thread: RenderThread, request: Any) -> Any:
        drawing.set()
        assert go_on.wait(PATIENCE_S)
        return colour(render_thread, request)

    monkeypatch.setattr(RenderThread, "colour", slow)
    stream = batch.stream("CameraService/StreamCamera", m.StreamCameraRequest(name="top", width=8, height=8))
    frames: list[Any] = []
    with beside(lambda: frames.append(next(stream))):
        assert drawing.wait(PATIENCE_S)
        batch.reset()
        for _ in range(20):
            batch.step(0.1)
        assert not frames  # it was still being drawn all the while
        go_on.set()
    stream.cancel()
    assert len(frames) == 1


def test_streams_and_steps_side_by_side_give_the_trajectory_of_steps_alone(robots: Callable[..., Any]) -> None:
    watched, alone = robots(2, renderer="rays"), robots(2)
    over = threading.Event()

    def watch() -> None:
        request = m.StartViewportStreamRequest(target_fps=200, width=32, height=18)
        for _ in watched.stream("ViewportService/StreamViewport", request):
            if over.is_set():
                return

    viewer = threading.Thread(target=watch)
    viewer.start()
    try:
        line = m.DebugLine(m.DebugVector3(-0.5, 0, 0.3), m.DebugVector3(0.5, 0, 0.3))
        command = m.DebugVelocityCommand(m.DebugVector3(), 1, 1, 1, 1)
        assert watched.ask(m.DebugDrawRequest([line], [], command)).success
        for batch in (watched, alone):
            batch.reset()
        for actions in np.random.default_rng(1).normal(size=(60, 2, 12)):
            assert watched.step(actions).observations.tobytes() == alone.step(actions).observations.tobytes()
    finally:
        over.set()
        viewer.join(PATIENCE_S)


def test_no_thread_draws_before_an_image_is_wanted_nor_after_the_engine_is_closed(robots: Callable[..., Any]) -> None:
    before = drawing_threads()
    batch = robots(1, renderer="rays")
    batch.reset()
    assert drawing_threads() == before
    stream = batch.engine.streams["/hazel.rpc.CameraService/StreamCamera"](
        m.StreamCameraRequest(name="top", width=8, height=8, target_fps=1000), Call("a test")
    )
    next(stream)
    assert drawing_threads() == before + 1
    batch.close()
    assert drawing_threads() == before
    with pytest.raises(ClosedError, match="no more images"):
        next(stream)


def test_closing_waits_for_no_image_that_hangs(
    robots: Callable[..., Any], monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    drawing, go_on = threading.Event(), threading.Event()
    request.addfinalizer(go_on.set)

    def hang(*_: object) -> None:
        drawing.set()
        go_on.wait(PATIENCE_S)

    monkeypatch.setattr(RenderThread, "_colour", hang)
    monkeypatch.setattr("lucky_transport_mujoco.sensors.render_thread._CLOSING_S", 0.01)
    batch = robots(1, renderer="rays")
    stream = batch.engine.streams["/hazel.rpc.CameraService/StreamCamera"](
        m.StreamCameraRequest(name="top", width=8, height=8), Call("a test")
    )

    def view() -> None:
        with contextlib.suppress(AttributeError):  # of the image that is none
            next(stream)

    threading.Thread(target=view, daemon=True).start()
    assert drawing.wait(PATIENCE_S)
    closing = threading.Thread(target=batch.engine.close, daemon=True)
    closing.start()
    closing.join(PATIENCE_S)
    assert not closing.is_alive()
    assert {thread.daemon for thread in threading.enumerate() if thread.name.startswith("images")} == {True}


def test_an_engine_with_an_unknown_renderer_is_refused(robots: Callable[..., Any]) -> None:
    with pytest.raises(SpecError, match=r"renderer 'crayon'.*auto, opengl, rays"):
        robots(1, renderer="crayon")


# --- `env.render()` ---


def test_an_image_shows_the_state_after_the_last_step() -> None:
    with api.make(
        "mujoco:quadruped", transport="inproc", render_mode="rgb_array", camera="front", render_size=(40, 30)
    ) as env:
        env.reset(seed=0)
        seen: set[bytes] = set()
        for _ in range(4):
            env.step(env.action_space.sample())
            (image,) = env.render()
            with env.client.camera.stream("front", width=40, height=30) as stream:
                assert image.tobytes() == image_array(next(stream))[:, :, :3].tobytes()
            seen.add(image.tobytes())
        assert len(seen) == 4
        assert env.metadata["render_fps"] == 50


def test_without_a_size_the_image_has_the_cameras_own() -> None:
    with api.make("mujoco:quadruped", transport="inproc", render_mode="rgb_array") as env:
        env.reset(seed=0)
        (image,) = env.render()
    assert image.shape == (480, 640, 3)

"""Images beside a stepping engine, which they do not hold up, and `env.render()`, which shows the last step."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from lucky_transport import api, image_array

pytest.importorskip("mujoco", reason="needs the extra: pip install 'lucky-transport[mujoco]'")

from lucky_transport.call import Call
from lucky_transport.errors import ClosedError, SpecError
from lucky_transport.messages import StartViewportStreamRequest, StreamCameraRequest
from lucky_transport.messages.methods import method
from lucky_transport_mujoco.sensors.render_thread import RenderRequest, RenderThread
from tests.support.waiting import PATIENCE_S

pytestmark = pytest.mark.usefixtures("forked_engines")


def drawing_threads() -> int:
    """Return how many threads draw images now."""
    return sum(thread.name.startswith("images") for thread in threading.enumerate())


def test_an_image_that_takes_long_holds_up_no_step(robots: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> None:
    batch = robots(1, renderer="rays")
    drawing, go_on = threading.Event(), threading.Event()
    colour = RenderThread.colour

    def slow(render_thread: RenderThread, request: RenderRequest) -> Any:
        drawing.set()
        assert go_on.wait(PATIENCE_S)
        return colour(render_thread, request)

    monkeypatch.setattr(RenderThread, "colour", slow)
    stream = batch.client.stream(
        method("CameraService/StreamCamera"), StreamCameraRequest(name="top", width=8, height=8)
    )
    frames: list[Any] = []
    viewer = threading.Thread(target=lambda: frames.append(next(stream)))
    viewer.start()
    assert drawing.wait(PATIENCE_S)
    batch.reset()
    for _ in range(20):
        batch.step(0.1)
    assert not frames  # it was still being drawn all the while
    go_on.set()
    viewer.join(PATIENCE_S)
    stream.cancel()
    assert len(frames) == 1


def test_streams_and_steps_side_by_side_give_the_trajectory_of_steps_alone(robots: Callable[..., Any]) -> None:
    watched, alone = robots(2, renderer="rays"), robots(2)
    over = threading.Event()

    def watch() -> None:
        request = StartViewportStreamRequest(target_fps=200, width=32, height=18)
        for _ in watched.client.stream(method("ViewportService/StreamViewport"), request):
            if over.is_set():
                return

    viewer = threading.Thread(target=watch)
    viewer.start()
    try:
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
        StreamCameraRequest(name="top", width=8, height=8, target_fps=1000), Call("a test")
    )
    next(stream)
    assert drawing_threads() == before + 1
    batch.host.close()
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
        StreamCameraRequest(name="top", width=8, height=8), Call("a test")
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

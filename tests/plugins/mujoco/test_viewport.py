"""ViewportService and DebugService: what a person sees, with drawings in it."""

from __future__ import annotations

from collections.abc import Callable
from itertools import islice
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

pytest.importorskip("mujoco", reason="needs the extra: pip install 'lucky-transport[mujoco]'")

from lucky_transport.errors import SpecError, UnknownName
from lucky_transport.messages import (
    DebugArrow,
    DebugColor,
    DebugDrawRequest,
    DebugLine,
    DebugVector3,
    DebugVelocityCommand,
    GetViewportInfoRequest,
    StartViewportStreamRequest,
    ViewportStreamConfig,
)
from lucky_transport.messages.methods import method
from lucky_transport_mujoco.sensors.viewport import MAX_DRAWINGS

RED, MAGENTA = DebugColor(1, 0, 0, 1), DebugColor(1, 0, 1, 1)


@pytest.fixture
def batch(robots: Callable[..., Any]) -> Any:
    """One robot, seen by ray casting: it works everywhere."""
    return robots(1, renderer="rays")


def watch(batch: Any, **request: Any) -> Any:
    """Return a stream of small images of the viewport."""
    usual: dict[str, Any] = {"target_fps": 200, "width": 160, "height": 90}
    wanted = StartViewportStreamRequest(**usual | request)
    return batch.client.stream(method("ViewportService/StreamViewport"), wanted)


def look(batch: Any) -> NDArray[np.int64]:
    """Return one image of the viewport, (90, 160, 4)."""
    stream = watch(batch)
    frame = next(stream)
    stream.cancel()
    return np.frombuffer(frame.data, np.uint8).reshape(frame.height, frame.width, 4).astype(int)


def draw(batch: Any, *shapes: Any, clear: bool = False, command: DebugVelocityCommand | None = None) -> bool:
    """Send Draw with these lines and arrows."""
    lines = [shape for shape in shapes if isinstance(shape, DebugLine)]
    arrows = [shape for shape in shapes if isinstance(shape, DebugArrow)]
    return batch.call("DebugService/Draw", DebugDrawRequest(lines, arrows, command, clear)).success


def line(z: float, color: DebugColor | None = RED) -> DebugLine:
    return DebugLine(DebugVector3(-0.5, 0, z), DebugVector3(0.5, 0, z), color)


def count(image: NDArray[np.int64], red: bool, green: bool, blue: bool) -> int:
    """Return how many pixels are of a pure colour."""
    wanted = [image[..., i] > 150 if on else image[..., i] < 130 for i, on in enumerate((red, green, blue))]
    return int((wanted[0] & wanted[1] & wanted[2]).sum())


def test_there_is_one_viewport_and_it_tells_what_streams(batch: Any) -> None:
    def info() -> Any:
        return batch.call("ViewportService/GetViewportInfo", GetViewportInfoRequest())

    assert info().available_viewports == ["Main"]
    assert not info().current_config.streaming
    stream = watch(batch, viewport_name="Main", target_fps=12)
    next(stream)
    assert info().current_config == ViewportStreamConfig(True, "Main", 12, 160, 90)
    stream.cancel()
    assert not info().current_config.streaming


def test_a_stream_honours_its_size_and_numbers_its_frames(batch: Any) -> None:
    stream = watch(batch, width=100, height=50)
    found = list(islice(stream, 3))
    stream.cancel()
    assert {(frame.width, frame.height, frame.channels, len(frame.data)) for frame in found} == {(100, 50, 4, 20000)}
    assert found[0].frame_number < found[1].frame_number < found[2].frame_number


def test_unknown_viewports_and_sizes_are_refused(batch: Any) -> None:
    with pytest.raises(UnknownName, match="no viewport 'Mian'; did you mean 'Main'"):
        next(watch(batch, viewport_name="Mian"))
    with pytest.raises(SpecError, match="at most 4096"):
        next(watch(batch, width=100_000))


def test_the_view_follows_the_robot(batch: Any) -> None:
    def trunk() -> tuple[float, float]:
        image = look(batch)
        red, green, blue = image[..., 0], image[..., 1], image[..., 2]
        rows, columns = np.nonzero((red > 50) & (red > 1.4 * green) & (green > 1.4 * blue))
        return float(rows.mean()), float(columns.mean())

    before = trunk()
    batch.engine.world.qpos()[:2] += 7.0, -3.0
    assert trunk() == pytest.approx(before, abs=1.5)
    assert before == pytest.approx((45, 80), abs=5)


def test_lines_and_arrows_appear_in_their_colours_and_stay_until_cleared(batch: Any) -> None:
    plain = look(batch)
    assert count(plain, True, False, False) == count(plain, True, False, True) == 0
    assert draw(batch, line(0.6))
    up = DebugArrow(DebugVector3(0, 0, 0.4), DebugVector3(0, 0, 0.15), MAGENTA, 2.0)
    assert draw(batch, up)
    both = look(batch)
    assert count(both, True, False, False) > 20
    assert count(both, True, False, True) > 10
    assert draw(batch, clear=True)
    assert np.array_equal(look(batch), plain)


def test_an_arrow_is_as_long_as_its_direction_times_its_scale(batch: Any) -> None:
    def rows(scale: float) -> int:
        up = DebugArrow(DebugVector3(0, 0, 0.4), DebugVector3(0, 0, 0.1), MAGENTA, scale)
        assert draw(batch, up, clear=True)
        image = look(batch)
        return int(np.ptp(np.nonzero((image[..., 0] > 150) & (image[..., 1] < 100))[0]))

    assert rows(3.0) == pytest.approx(3 * rows(1.0), abs=3)
    assert rows(0.0) == rows(1.0)  # not given


def test_a_velocity_command_is_an_arrow_ahead_and_an_arc_and_the_newest_counts(batch: Any) -> None:
    at = DebugVector3(0, 0, 0.45)
    assert draw(batch, command=DebugVelocityCommand(at, 0.8, 0.0, 1.2, 1.0))
    image = look(batch)
    assert count(image, False, True, False) > 10
    assert count(image, False, False, True) > 10
    assert draw(batch, command=DebugVelocityCommand(at, 0.8, 0.0, 0.0, 1.0))
    image = look(batch)
    assert count(image, False, True, False) > 10
    assert count(image, False, False, True) == 0


def test_a_shape_without_a_colour_is_white(batch: Any) -> None:
    before = count(look(batch), True, True, True)
    assert draw(batch, line(0.5, None))
    assert count(look(batch), True, True, True) != before


def test_what_is_not_finite_or_too_much_is_refused_as_a_whole(batch: Any) -> None:
    plain = look(batch)
    bad = DebugLine(DebugVector3(float("nan"), 0, 0), DebugVector3(), RED)
    assert not draw(batch, line(0.6), bad)
    assert np.array_equal(look(batch), plain)
    assert not draw(batch, *[line(0.6)] * (MAX_DRAWINGS + 1))
    assert draw(batch, *[line(0.6)] * MAX_DRAWINGS)
    assert not draw(batch, line(0.6))
    assert draw(batch, line(0.6), clear=True)


def test_drawing_changes_nothing_in_the_simulation(robots: Callable[..., Any]) -> None:
    drawn, plain = robots(1, renderer="rays"), robots(1)
    for batch in (drawn, plain):
        batch.reset()
    assert draw(drawn, line(0.3), command=DebugVelocityCommand(DebugVector3(), 1, 1, 1, 1))
    look(drawn)
    assert drawn.step(0.2).observations.tobytes() == plain.step(0.2).observations.tobytes()

"""What the sensors of our engines' agents show, and where those agents are."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

from lucky_transport_holodeck.commands import HolodeckCommand

pytest.importorskip("posix_ipc", reason="pip install 'lucky-transport[holodeck]'")

from lucky_transport.engine import Buffers, Engine
from lucky_transport.errors import LocalProtocolError, SpecError
from lucky_transport.messages import ImageFrame, NamedImageFrame
from lucky_transport.spec.batch_spec import ArraySpec, BatchSpec

_OBSERVATION, _TASK = "RangeFinderSensor", "DistanceTask"


# sensors


def test_sensors_show_terms_elements_and_rewards_by_name(bench: Any, placed: Any, agent: Any) -> None:
    bench.serve(placed(1))
    sensors = [
        {"sensor_type": "RangeFinderSensor", "sensor_name": "last_action", "configuration": {"LaserCount": 3}},
        {"sensor_type": "WorldNumSensor", "configuration": {"Key": "ticks_so_far"}},
        {"sensor_type": "VelocitySensor", "configuration": {"Key": "last_action"}},
        {"sensor_type": "CollisionSensor", "configuration": {"Key": "enough"}},
    ]
    world = bench.attach(agent("a", sensors))
    world.reset()
    world.agents["a"].act([10, 2, 3, 4])
    state = world.tick()["a"]
    assert state["last_action"].tolist() == [10, 2, 3]
    assert state["WorldNumSensor"].tolist() == [1]
    assert state["VelocitySensor"].tolist() == [10, 2, 3]
    assert state["CollisionSensor"].tolist() == [True]


def test_a_sensor_of_one_byte_is_written_as_one_byte(bench: Any, placed: Any, agent: Any) -> None:
    """The original's engine writes a float into a block of one byte there."""
    bench.serve(placed(1))
    sensors = [{"sensor_type": "AbuseSensor", "configuration": {"Key": "enough"}}]
    world = bench.attach(agent("a", sensors))
    world.reset()
    world.agents["a"].act([10])
    assert world.tick()["a"]["AbuseSensor"].tolist() == [1]
    assert bench.names.block("a_AbuseSensor_sensor_data").stat().st_size == 1


def test_agents_and_sensors_that_the_engine_does_not_have_are_refused_by_name(
    bench: Any, placed: Any, agent: Any, caplog: pytest.LogCaptureFixture
) -> None:
    bench.serve(placed(1))
    world = bench.attach(
        agent("a", [{"sensor_type": "IMUSensor"}, {"sensor_type": "WorldNumSensor", "configuration": {"Key": "?"}}]),
        agent("b", []),
        agent("there", [{"sensor_type": "DistanceTask"}], existing=True),
    )
    for _ in range(2):
        with pytest.raises(SpecError) as refused:
            world.reset()
        for name in (
            "'IMUSensor' (IMUSensor) of agent 'a'",
            "'WorldNumSensor'",
            "agent 'b' has no env",
            "no agent 'there'",
        ):
            assert name in str(refused.value)
    assert "nothing for sensor 'IMUSensor' (IMUSensor) of agent 'a'; the original's client sees zeros" in caplog.text
    with pytest.raises(LocalProtocolError, match="reset"):
        world.tick()
    world.close()
    assert set(bench.attach(agent("a")).reset()) == {"a"}  # the next client is refused nothing


def test_sensors_come_go_and_take_their_time(bench: Any, placed: Any, agent: Any) -> None:
    bench.serve(placed(1))
    world = bench.attach(agent("a"))
    world.reset()
    world.send(HolodeckCommand("RGBCameraRate", ("a", _OBSERVATION), (3.0,)))
    shown = [world.tick()["a"][_OBSERVATION][0] for _ in range(6)]
    assert len(set(shown)) == 3  # of six ticks, two were shown, and what was shown before
    world.send(HolodeckCommand("RemoveSensor", ("a", _OBSERVATION)))
    last = world.tick()["a"][_OBSERVATION][0]
    assert world.tick(5)["a"][_OBSERVATION][0] == last


def test_a_camera_shows_an_observation_that_is_a_picture(bench: Any, agent: Any) -> None:
    class Painter(Engine):
        spec = BatchSpec("painter", 1, ArraySpec("uint8", (4, 6, 3)), ArraySpec("float32", (2,)))
        shade = 0

        def bind(self, buffers: Buffers) -> None:
            self.buffers = buffers

        def step(self, control: Any) -> None:
            self.shade += 1
            self.buffers.observations[...] = self.shade

    bench.serve(Painter())
    size = {"CaptureWidth": 6, "CaptureHeight": 4}
    world = bench.attach(agent("a", [{"sensor_type": "RGBCamera", "configuration": size}]))
    picture = world.reset()["a"]["RGBCamera"]
    assert picture.shape == (4, 6, 4)
    assert (picture[..., :3] == 1).all()
    assert (picture[..., 3] == 255).all()


def test_a_camera_shows_what_the_engine_takes_for_it_every_so_many_ticks(bench: Any, placed: Any, agent: Any) -> None:
    class Photographer(placed):
        shots = 0

        def check_camera_requests(self, env: int, requests: Any) -> None:
            if requests[0].name != "front":
                raise ValueError(f"no camera {requests[0].name!r}; there is 'front'")

        def camera_frames(self, env: int, requests: Any) -> list[NamedImageFrame]:
            self.shots += 1
            width, height = requests[0].width, requests[0].height
            pixels = bytes([self.shots]) * (width * height * 3)
            return [NamedImageFrame("front", ImageFrame(pixels, width, height, 3))]

    bench.serve(Photographer(1))
    size = {"CaptureWidth": 3, "CaptureHeight": 2}
    good = {"sensor_type": "RGBCamera", "configuration": size | {"Key": "front"}}
    world = bench.attach(agent("a", [good]))
    state = world.reset()["a"]
    assert (state["RGBCamera"][..., :3] == 1).all()
    assert (state["RGBCamera"][..., 3] == 255).all()
    world.send(HolodeckCommand("RGBCameraRate", ("a", "RGBCamera"), (4.0,)))
    assert len({int(world.tick()["a"]["RGBCamera"][0, 0, 0]) for _ in range(8)}) == 3


# what cannot be shown is logged once


def _logged(caplog: pytest.LogCaptureFixture, text: str) -> list[str]:
    return [each.message for each in caplog.records if text in each.message]


def test_a_camera_of_an_engine_without_cameras_is_refused_and_told_once(
    bench: Any, placed: Any, agent: Any, caplog: pytest.LogCaptureFixture
) -> None:
    bench.serve(placed(1))
    world = bench.attach(agent("a", [{"sensor_type": "RGBCamera"}, {"sensor_type": "DistanceTask"}]))
    refusal = "engine 'placed' has no camera for sensor 'RGBCamera' (RGBCamera) of agent 'a'"
    for _ in range(3):
        with pytest.raises(SpecError, match=re.escape(refusal)):
            world.reset()
    assert _logged(caplog, "'RGBCamera'") == [f"{refusal}; the original's client sees zeros"]
    for other in ("dropped", "camera_requests", "Step"):
        assert other not in caplog.text


def test_a_camera_that_the_engine_does_not_have_is_refused_with_the_engines_words(
    bench: Any, placed: Any, agent: Any, caplog: pytest.LogCaptureFixture
) -> None:
    class Photographer(placed):
        def check_camera_requests(self, env: int, requests: Any) -> None:
            raise ValueError(f"no camera {requests[0].name!r}; there is 'front'")

        def camera_frames(self, env: int, requests: Any) -> list[NamedImageFrame]:
            raise AssertionError("nobody asked for it")

    bench.serve(Photographer(1))
    world = bench.attach(agent("a", [{"sensor_type": "RGBCamera", "sensor_name": "back"}]))
    for _ in range(3):
        with pytest.raises(SpecError, match=r"of agent 'a' \(no camera 'back'; there is 'front'\)"):
            world.reset()
    assert len(_logged(caplog, "'back'")) == 1
    assert "dropped" not in caplog.text


def test_what_is_wrong_with_a_scenario_is_told_once_and_not_at_every_reset(
    bench: Any, agent: Any, caplog: pytest.LogCaptureFixture
) -> None:
    bench.serve("toy", act_size=6)
    existing = agent("there", existing=True)
    world = bench.attach(agent("a", [{"sensor_type": "IMUSensor"}]), agent("b"), existing)
    for _ in range(3):
        with pytest.raises(SpecError):
            world.reset()
    assert len(_logged(caplog, "'IMUSensor'")) == 1
    assert len(_logged(caplog, "agent 'b' has no env")) == 1
    assert len(_logged(caplog, "4 of the 6 values")) == 1
    logged = _logged(caplog, "no agent 'there'")
    assert len(logged) == 2  # of its two sensors
    assert "no agents of its own" in logged[0]


@pytest.mark.parametrize(("hold", "then"), [(True, "stands still until the client resets"), (False, "starts again")])
def test_an_agent_without_a_task_is_told_of_once_when_its_episode_ends(
    bench: Any, placed: Any, agent: Any, caplog: pytest.LogCaptureFixture, hold: bool, then: str
) -> None:
    bench.serve(placed(3, hold=hold))
    sensors = [{"sensor_type": "RangeFinderSensor", "configuration": {"LaserCount": 5}}]
    world = bench.attach(agent("a", sensors), agent("b"), agent("c", sensors))
    for _ in range(2):
        world.reset()
        for name in "ab":
            world.agents[name].act([10, 0, 0, 0])
        for _ in range(3):
            world.tick()
    logged = _logged(caplog, "has ended")
    assert len(logged) == 1  # b shows it by its task, and c goes on
    assert logged[0].startswith("the episode of agent 'a' has ended, and no Task sensor shows it; it " + then)


# places


def test_an_agent_is_teleported_turned_and_seen_where_it_is(bench: Any, placed: Any, agent: Any) -> None:
    engine = placed(2)
    bench.serve(engine)
    sensors = [{"sensor_type": f"{what}Sensor"} for what in ("Location", "Rotation", "Orientation")]
    world = bench.attach(agent("a", sensors), agent("b", sensors))
    world.reset()
    world.agents["b"].teleport([1, 2, 3])
    world.agents["b"].teleport(rotation=[10, 20, 30])
    state = world.tick()
    assert state["b"]["LocationSensor"].tolist() == [1, 2, 3]
    assert np.allclose(state["b"]["RotationSensor"], [10, 20, 30], atol=1e-4)
    assert np.allclose(state["b"]["OrientationSensor"] @ state["b"]["OrientationSensor"].T, np.eye(3), atol=1e-6)
    assert state["a"]["LocationSensor"].tolist() == [0, 0, 0]
    assert np.allclose(state["a"]["OrientationSensor"], np.eye(3))
    world.agents["b"].teleport([4, 5, 6])
    assert np.allclose(world.tick()["b"]["RotationSensor"], [10, 20, 30], atol=1e-4)


def test_a_teleport_happens_once(bench: Any, placed: Any, agent: Any) -> None:
    engine = placed(1)
    bench.serve(engine)
    world = bench.attach(agent("a"))
    world.reset()
    world.agents["a"].teleport([1, 0, 0])
    world.tick()
    engine.places[0].position.x = 7.0
    world.tick()
    assert engine.places[0].position.x == 7.0


@pytest.mark.parametrize("flag", [4, 15])
def test_a_physics_state_is_set_with_the_flag_of_either_generation_of_clients(
    bench: Any, placed: Any, agent: Any, flag: int, caplog: pytest.LogCaptureFixture
) -> None:
    engine = placed(1)
    bench.serve(engine)
    world = bench.attach(agent("a", [{"sensor_type": "RotationSensor"}]))
    world.reset()
    world.agents["a"].set_physics_state([1, 2, 3], [0, 0, 90], [1, 0, 0], [0, 0, 0])
    block = bench.names.block("a_teleport_flag")
    block.write_bytes(bytes([flag]))
    state = world.tick()
    place = engine.places[0].position
    assert (place.x, place.y, place.z) == (1, 2, 3)
    assert np.allclose(state["a"]["RotationSensor"], [0, 0, 90], atol=1e-4)
    assert block.read_bytes() == b"\0"
    assert "set without its velocities" in caplog.text


def test_an_agent_starts_where_the_scenario_puts_it(bench: Any, placed: Any, agent: Any) -> None:
    bench.serve(placed(1))
    world = bench.attach(agent("a", [{"sensor_type": "LocationSensor"}], location=[5, 6, 7]))
    assert world.reset()["a"]["LocationSensor"].tolist() == [5, 6, 7]


def test_an_engine_without_places_says_that_it_cannot_teleport(
    bench: Any, agent: Any, caplog: pytest.LogCaptureFixture
) -> None:
    bench.serve("toy", act_size=4)
    world = bench.attach(agent("a"))
    world.reset()
    for _ in range(3):
        world.agents["a"].teleport([1, 2, 3])
        world.tick()
    assert caplog.text.count("engine 'toy' cannot move agents") == 1

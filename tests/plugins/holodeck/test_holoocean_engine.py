"""Our engines as the agents of a HoloOcean world, driven as its client drives one."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from lucky_transport_holodeck.commands import HOLOOCEAN_COMMANDS, KINDS, HolodeckCommand
from lucky_transport_holodeck.dialect import is_holoocean_command, is_holoocean_scenario

pytest.importorskip("posix_ipc", reason="pip install 'lucky-transport[holodeck]'")

from lucky_transport.engine import Buffers, Engine
from lucky_transport.errors import SpecError
from lucky_transport.spec.batch_spec import ArraySpec, BatchSpec
from lucky_transport.spec.composite import Part, pack

_TURNED = [0.0, 0.0, 90.0]


def an_auv(name: str, *sensors: dict[str, Any], **more: Any) -> dict[str, Any]:
    agent = {"agent_name": name, "agent_type": "HoveringAUV", "control_scheme": 0, "sensors": list(sensors)}
    return agent | more


def sensor(kind: str, **config: Any) -> dict[str, Any]:
    return {"sensor_type": kind, "configuration": config}


class Sonars(Engine):
    """Shows an image of a sonar, a cloud of three points, a picture of depths and a count of its steps.

    `steps`: how many it has made.
    """

    _PARTS = (
        Part(("ImagingSonar",), ArraySpec("float32", (2, 3))),
        Part(("RaycastLidar",), ArraySpec("float32", (3, 5))),
        Part(("depths",), ArraySpec("uint8", (2, 3, 3))),
        Part(("steps",), ArraySpec("float32", (1,))),
    )

    def __init__(self) -> None:
        observation, parts, _ = pack(list(self._PARTS))
        self.spec = BatchSpec("sonars", 1, observation, ArraySpec("float32", (8,)), observation_parts=parts, hold=True)
        self.steps = 0
        self.actions: list[list[float]] = []

    def bind(self, buffers: Buffers) -> None:
        self.buffers = buffers

    def step(self, control: Any) -> None:
        from lucky_transport.spec.composite import views

        shown = views(self.buffers.observations, self.spec.observation_parts)
        self.steps += 1
        self.actions.append(self.buffers.actions[0].tolist())
        shown["ImagingSonar",][...] = self.steps
        shown["RaycastLidar",][0] = np.arange(15).reshape(3, 5)
        shown["depths",][0] = np.arange(18).reshape(2, 3, 3)
        shown["steps",][...] = self.steps


def test_sensors_of_a_place_show_where_the_agent_is(bench: Any, placed: Any) -> None:
    bench.serve(placed(1))
    kinds = ("LocationSensor", "PoseSensor", "DepthSensor", "GPSSensor", "MagnetometerSensor", "OrientationSensor")
    north = sensor("MagnetometerSensor", MagneticVector=[0, 2, 0]) | {"sensor_name": "north"}
    world = bench.attach(an_auv("a", *map(sensor, kinds), north, location=[1, 2, -1.5], rotation=_TURNED))
    state = world.reset()["a"]
    assert state["LocationSensor"].tolist() == state["GPSSensor"].tolist() == [1, 2, -1.5]
    assert state["DepthSensor"].tolist() == [-1.5]
    columns = [[0, -1, 0], [1, 0, 0], [0, 0, 1]]  # forward is the world's y, left its -x
    assert np.allclose(state["OrientationSensor"], columns, atol=1e-6)
    assert np.allclose(state["PoseSensor"], [[0, -1, 0, 1], [1, 0, 0, 2], [0, 0, 1, -1.5], [0, 0, 0, 1]], atol=1e-6)
    assert np.allclose(state["MagnetometerSensor"], [0, -1, 0], atol=1e-6)
    assert np.allclose(state["north"], [2, 0, 0], atol=1e-6)


def test_holodecks_own_agents_see_their_axes_as_rows(bench: Any, placed: Any, agent: Any) -> None:
    bench.serve(placed(1))
    world = bench.attach(agent("a", [{"sensor_type": "OrientationSensor"}], rotation=_TURNED))
    assert np.allclose(world.reset()["a"]["OrientationSensor"], [[0, 1, 0], [-1, 0, 0], [0, 0, 1]], atol=1e-6)


@pytest.mark.parametrize("depth", [None, 5.0])
def test_a_gps_shows_nothing_below_its_depth(bench: Any, placed: Any, depth: float | None) -> None:
    bench.serve(placed(1))
    config = {} if depth is None else {"Depth": depth}
    world = bench.attach(an_auv("a", sensor("GPSSensor", **config), location=[0, 0, -3]))
    assert np.isnan(world.reset()["a"]["GPSSensor"]).all() == (depth is None)


def test_sonars_and_lidars_show_what_the_engine_calls_so(bench: Any) -> None:
    engine = Sonars()
    bench.serve(engine)
    sonar = sensor("ImagingSonar", RangeBins=2, AzimuthBins=3)
    lidar = sensor("RaycastLidar", PointsPerSecond=40, RotationFrequency=10)  # room for five points and their count
    small = sensor("RaycastLidar", PointsPerSecond=16, RotationFrequency=8, Key="RaycastLidar")  # for two points
    world = bench.attach(an_auv("a", sonar, lidar, small | {"sensor_name": "small"}))
    state = world.reset()["a"]
    assert state["ImagingSonar"].tolist() == [[1] * 3] * 2
    assert state["RaycastLidar"].tolist() == [3, 0, 0, 0, 0, *range(15), *[0] * 10]
    assert state["small"].tolist() == [2, 0, 0, 0, 0, *range(10)]
    world.agents["a"].act(np.arange(8))
    world.tick()
    assert engine.actions[-1] == list(range(8))


def test_a_camera_of_depths_shows_an_image_by_its_name_and_no_other(bench: Any) -> None:
    bench.serve(Sonars())
    size = {"CaptureWidth": 3, "CaptureHeight": 2}
    named = sensor("DepthCamera", **size, Key="depths")
    shown = bench.attach(an_auv("a", named)).reset()["a"]["DepthCamera"]
    assert shown[..., :3].ravel().tolist() == list(range(18))
    assert (shown[..., 3] == 255).all()
    with pytest.raises(SpecError, match="nothing for sensor 'DepthCamera'"):
        bench.attach(an_auv("a", sensor("DepthCamera", **size))).reset()


def test_a_heavy_sensor_is_shown_every_so_many_ticks_from_its_first_one_on(bench: Any) -> None:
    bench.serve(Sonars())
    rates = sensor("ImagingSonar", RangeBins=2, AzimuthBins=3) | {"Hz": 10}
    world = bench.attach(an_auv("a", rates, sensor("DepthSensor", Key="steps") | {"sensor_name": "steps"}))
    states = [world.reset()["a"], *(world.tick()["a"] for _ in range(6))]
    assert [int(each["ImagingSonar"][0, 0]) for each in states] == [1, 1, 1, 4, 4, 4, 7]
    assert [int(each["steps"][0]) for each in states] == [1, 2, 3, 4, 5, 6, 7]
    world.send(HolodeckCommand("RaycastLidarRate", ("a", "ImagingSonar"), (1.0,)))
    assert [int(world.tick()["a"]["ImagingSonar"][0, 0]) for _ in range(3)] == [8, 9, 10]


def test_a_message_that_never_comes_is_no_message_of_zeros(
    bench: Any, placed: Any, caplog: pytest.LogCaptureFixture
) -> None:
    bench.serve(placed(1))
    world = bench.attach(an_auv("a", sensor("AcousticBeaconSensor"), sensor("OpticalModemSensor")))
    with pytest.raises(SpecError, match="nothing for sensor 'AcousticBeaconSensor'"):
        world.reset()
    shown = world.state()["a"]
    assert np.isnan(shown["AcousticBeaconSensor"]).all()
    assert not shown["OpticalModemSensor"].any()
    assert "AcousticBeaconSensor) of agent 'a'; the original's client sees NaN" in caplog.text
    assert "OpticalModemSensor) of agent 'a'; the original's client sees zeros" in caplog.text


def test_every_command_of_holoocean_is_taken_and_a_wrong_count_is_told(
    bench: Any, placed: Any, caplog: pytest.LogCaptureFixture
) -> None:
    bench.serve(placed(1))
    world = bench.attach(an_auv("a", sensor("DistanceTask")))
    world.reset()
    for kind in sorted(HOLOOCEAN_COMMANDS - {"RaycastLidarRate"}):
        counts = KINDS[kind]
        world.send(HolodeckCommand(kind, ("a",) * counts.strings[0], (1.0,) * counts.numbers[0]))
    world.send(HolodeckCommand("DebugDraw", (), (1.0,) * 12))
    assert world.tick()["a"]["DistanceTask"][0] == 1
    assert "dropped" not in caplog.text
    world.send(HolodeckCommand("Tide", (), (1.0,)))
    world.tick()
    assert "Tide has 1 numbers, expected 2" in caplog.text


# -- which of the two it is -------------------------------------------------------------------------------------------

_PLAIN: dict[str, Any] = {
    "world": "w",
    "agents": [{"agent_name": "a", "agent_type": "UavAgent", "sensors": [{"sensor_type": "RGBCamera"}]}],
}


@pytest.mark.parametrize(
    ("more", "expected"),
    [
        ({}, False),
        ({"weather": {"hour": 7}, "window_width": 3}, False),
        ({"ticks_per_sec": 30}, True),
        ({"octree_min": 0.1}, True),
        ({"agents": [{"agent_type": "TorpedoAUV", "sensors": []}]}, True),
        ({"agents": [{"agent_type": "UavAgent", "sensors": [{"sensor_type": "GPSSensor"}]}]}, True),
        ({"agents": [{"agent_type": "UavAgent", "sensors": [{"sensor_type": "RGBCamera", "Hz": 3}]}]}, True),
        ({"agents": []}, False),
    ],
)
def test_a_scenario_is_holooceans_when_something_in_it_is(more: dict[str, Any], expected: bool) -> None:
    assert is_holoocean_scenario(_PLAIN | more) is expected


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        (HolodeckCommand("SpawnAgent", ("UAV", "a"), (0.0,) * 7), False),
        (HolodeckCommand("SpawnAgent", ("SurfaceVessel", "a"), (0.0,) * 7), True),
        (HolodeckCommand("SpawnAgent"), False),
        (HolodeckCommand("AddSensor", ("a", "s", "RGBCamera", "{}", ""), (0.0,) * 6), False),
        (HolodeckCommand("AddSensor", ("a", "s", "RGBCamera", '{"TicksPerCapture": 1}', ""), (0.0,) * 6), True),
        (HolodeckCommand("AddSensor", ("a", "s", "DVLSensor", "{}", ""), (0.0,) * 6), True),
        (HolodeckCommand("DebugDraw", (), (0.0,) * 11), False),
        (HolodeckCommand("DebugDraw", (), (0.0,) * 12), True),
        (HolodeckCommand("AdjustTPS", (), (30.0,)), True),
        (HolodeckCommand("CustomCommand", ("SetWeather", "rain")), False),
    ],
)
def test_a_client_is_holooceans_when_a_command_is(command: HolodeckCommand, expected: bool) -> None:
    assert is_holoocean_command(command) is expected

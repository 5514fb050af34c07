"""What the sensors of our engines' agents show, Holodeck's and HoloOcean's, and where those agents are."""

import re
from typing import Any

import numpy as np
import pytest

pytest.importorskip("posix_ipc", reason="pip install 'lucky-transport[holodeck]'")

from lucky_transport import api
from lucky_transport.engine import Buffers, Engine
from lucky_transport.errors import LocalProtocolError, SpecError
from lucky_transport.messages import ImageFrame, NamedImageFrame
from lucky_transport.spec.batch_spec import ArraySpec, BatchSpec
from lucky_transport.spec.composite import Part, pack, views
from lucky_transport_holodeck.commands import HOLOOCEAN_COMMANDS, KINDS, HolodeckCommand
from tests.plugins.holodeck.conftest import Bench, PlacedEngine, a_sensor, an_agent

_OBSERVATION = "RangeFinderSensor"
_SIZE = {"CaptureWidth": 3, "CaptureHeight": 2}
_PLACES = ("LocationSensor", "RotationSensor", "OrientationSensor")


def an_auv(*sensors: dict[str, Any], **more: Any) -> dict[str, Any]:
    return an_agent("a", list(sensors), agent_type="HoveringAUV", control_scheme=0, **more)


class Sonars(Engine):
    """Shows an image of a sonar, a cloud of three points, a picture of depths and a count of its steps."""

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
        shown = views(self.buffers.observations, self.spec.observation_parts)
        self.steps += 1
        self.actions.append(self.buffers.actions[0].tolist())
        shown["ImagingSonar",][...] = shown["steps",][...] = self.steps
        shown["RaycastLidar",][0] = np.arange(15).reshape(3, 5)
        shown["depths",][0] = np.arange(18).reshape(2, 3, 3)


class Photographer(PlacedEngine):
    """Has a camera that is called "front"; each of its pictures is lighter than the one before."""

    shots = 0

    def check_camera_requests(self, env: int, requests: Any) -> None:
        if requests[0].name != "front":
            raise ValueError(f"no camera {requests[0].name!r}; there is 'front'")

    def camera_frames(self, env: int, requests: Any) -> list[NamedImageFrame]:
        self.shots += 1
        width, height = requests[0].width, requests[0].height
        return [NamedImageFrame("front", ImageFrame(bytes([self.shots]) * (width * height * 3), width, height, 3))]


def test_sensors_show_terms_elements_and_rewards_by_name(bench: Bench) -> None:
    sensors = [
        a_sensor(_OBSERVATION, "last_action", LaserCount=3),
        a_sensor("WorldNumSensor", Key="ticks_so_far"),
        a_sensor("VelocitySensor", Key="last_action"),
        a_sensor("CollisionSensor", Key="enough"),
        a_sensor("AbuseSensor", Key="enough"),
    ]
    world = bench.drive(an_agent("a", sensors))
    world.agents["a"].act([10, 2, 3, 4])
    state = {name: value.tolist() for name, value in world.tick()["a"].items()}
    assert state["last_action"] == state["VelocitySensor"] == [10, 2, 3]
    assert (state["WorldNumSensor"], state["CollisionSensor"], state["AbuseSensor"]) == ([1], [True], [1])
    # The original's engine writes a float into a block of one byte there.
    assert bench.names.block("a_AbuseSensor_sensor_data").stat().st_size == 1


def test_a_sensor_that_is_removed_shows_nothing_new(bench: Bench) -> None:
    world = bench.drive()
    world.send(HolodeckCommand("RemoveSensor", ("a", _OBSERVATION)))
    last = world.tick()["a"][_OBSERVATION][0]
    assert world.tick(5)["a"][_OBSERVATION][0] == last


def test_sonars_and_lidars_show_what_the_engine_calls_so(bench: Bench) -> None:
    engine = Sonars()
    lidar = a_sensor("RaycastLidar", PointsPerSecond=40, RotationFrequency=10)  # room for five points and their count
    small = a_sensor("RaycastLidar", "small", PointsPerSecond=16, RotationFrequency=8, Key="RaycastLidar")  # for two
    world = bench.drive(an_auv(a_sensor("ImagingSonar", RangeBins=2, AzimuthBins=3), lidar, small), engine=engine)
    state = world.state()["a"]
    assert state["ImagingSonar"].tolist() == [[1] * 3] * 2
    assert state["RaycastLidar"].tolist() == [3, 0, 0, 0, 0, *range(15), *[0] * 10]
    assert state["small"].tolist() == [2, 0, 0, 0, 0, *range(10)]
    world.agents["a"].act(np.arange(8))
    world.tick()
    assert engine.actions[-1] == list(range(8))


def test_a_heavy_sensor_is_shown_every_so_many_ticks_from_its_first_one_on(bench: Bench) -> None:
    rates = a_sensor("ImagingSonar", RangeBins=2, AzimuthBins=3) | {"Hz": 10}
    world = bench.drive(an_auv(rates, a_sensor("DepthSensor", "steps", Key="steps")), engine=Sonars())
    states = [world.state()["a"], *(world.tick()["a"] for _ in range(6))]
    assert [int(each["ImagingSonar"][0, 0]) for each in states] == [1, 1, 1, 4, 4, 4, 7]
    assert [int(each["steps"][0]) for each in states] == [1, 2, 3, 4, 5, 6, 7]
    world.send(HolodeckCommand("RaycastLidarRate", ("a", "ImagingSonar"), (1.0,)))
    assert [int(world.tick()["a"]["ImagingSonar"][0, 0]) for _ in range(3)] == [8, 9, 10]


# cameras


def test_a_camera_of_depths_shows_an_image_by_its_name_and_no_other(bench: Bench) -> None:
    shown = bench.drive(an_auv(a_sensor("DepthCamera", **_SIZE, Key="depths")), engine=Sonars()).state()["a"]
    assert shown["DepthCamera"][..., :3].ravel().tolist() == list(range(18))
    assert (shown["DepthCamera"][..., 3] == 255).all()
    with pytest.raises(SpecError, match="nothing for sensor 'DepthCamera'"):
        bench.attach(an_auv(a_sensor("DepthCamera", **_SIZE))).reset()


def test_a_camera_shows_an_observation_that_is_a_picture(bench: Bench) -> None:
    class Painter(Engine):
        spec = BatchSpec("painter", 1, ArraySpec("uint8", (2, 3, 3)), ArraySpec("float32", (2,)))

        def bind(self, buffers: Buffers) -> None:
            self.buffers = buffers

        def step(self, control: Any) -> None:
            self.buffers.observations[...] += 1

    picture = bench.drive(an_agent("a", [a_sensor("RGBCamera", **_SIZE)]), engine=Painter()).state()["a"]["RGBCamera"]
    assert picture.tolist() == [[[1, 1, 1, 255]] * 3] * 2


def test_a_camera_shows_what_the_engine_takes_for_it_every_so_many_ticks(bench: Bench) -> None:
    world = bench.drive(an_agent("a", [a_sensor("RGBCamera", **_SIZE, Key="front")]), engine=Photographer())
    assert world.state()["a"]["RGBCamera"].tolist() == [[[1, 1, 1, 255]] * 3] * 2
    world.send(HolodeckCommand("RGBCameraRate", ("a", "RGBCamera"), (4.0,)))
    assert len({int(world.tick()["a"]["RGBCamera"][0, 0, 0]) for _ in range(8)}) == 3


# what cannot be shown is refused by its name, and logged once


def _logged(caplog: pytest.LogCaptureFixture, text: str) -> list[str]:
    return [each.message for each in caplog.records if text in each.message]


_NO_CAMERA = "engine 'placed' has no camera for sensor 'RGBCamera' (RGBCamera) of agent 'a'"
_REFUSALS: dict[str, tuple[Any, list[dict[str, Any]], list[str]]] = {
    "a sensor": (
        PlacedEngine,
        [an_agent("a", [a_sensor("IMUSensor"), a_sensor("WorldNumSensor", Key="?")])],
        ["'IMUSensor' (IMUSensor) of agent 'a'; the original's client sees zeros", "'WorldNumSensor'"],
    ),
    "an agent": (
        PlacedEngine,
        [an_agent("a"), an_agent("b", []), an_agent("there", [a_sensor("DistanceTask")], existing=True)],
        ["agent 'b' has no env", "no agent 'there'"],
    ),
    "an action": (
        lambda: api.make_engine("toy", 1, act_size=6),
        [an_agent("a"), an_agent("b")],
        ["agent 'b' has no env", "4 of the 6 values"],
    ),
    "a camera of an engine without": (
        PlacedEngine,
        [an_agent("a", [a_sensor("RGBCamera"), a_sensor("DistanceTask")])],
        [f"{_NO_CAMERA}; the original's client sees zeros"],
    ),
    "another camera": (
        Photographer,
        [an_agent("a", [a_sensor("RGBCamera", "back")])],
        ["of agent 'a' (no camera 'back'; there is 'front')"],
    ),
    "a message": (
        PlacedEngine,
        [an_auv(a_sensor("AcousticBeaconSensor"), a_sensor("OpticalModemSensor"))],
        ["AcousticBeaconSensor) of agent 'a'; the original's client sees NaN", "OpticalModemSensor) of agent 'a'"],
    ),
}


@pytest.mark.parametrize("what", _REFUSALS)
def test_what_the_engine_does_not_have_is_refused_by_its_name_and_told_once(
    bench: Bench, caplog: pytest.LogCaptureFixture, what: str
) -> None:
    made, agents, words = _REFUSALS[what]
    engine = made()
    bench.serve(engine)
    world = bench.attach(*agents)
    for _ in range(3):
        with pytest.raises(SpecError, match=re.escape(words[0].partition(";")[0])):
            world.reset()
    assert [len(_logged(caplog, text)) for text in words] == [1] * len(words)
    assert ("dropped" in caplog.text) == (what == "an agent")  # the sensor of one that is not there
    assert getattr(engine, "shots", 0) == 0
    with pytest.raises(LocalProtocolError, match="reset"):
        world.tick()
    world.close()
    assert set(bench.attach(an_agent("a", [a_sensor("DistanceTask")])).reset()) == {"a"}  # the next client is served


def test_a_message_that_never_comes_is_no_message_of_zeros(bench: Bench) -> None:
    bench.serve(PlacedEngine())
    world = bench.attach(an_auv(a_sensor("AcousticBeaconSensor"), a_sensor("OpticalModemSensor")))
    with pytest.raises(SpecError):
        world.reset()
    shown = world.state()["a"]
    assert np.isnan(shown["AcousticBeaconSensor"]).all()
    assert not shown["OpticalModemSensor"].any()


@pytest.mark.parametrize(("hold", "then"), [(True, "stands still until the client resets"), (False, "starts again")])
def test_an_agent_without_a_task_is_told_of_once_when_its_episode_ends(
    bench: Bench, caplog: pytest.LogCaptureFixture, hold: bool, then: str
) -> None:
    bench.serve(PlacedEngine(3, hold=hold))
    sensors = [a_sensor(_OBSERVATION, LaserCount=5)]
    world = bench.attach(an_agent("a", sensors), an_agent("b"), an_agent("c", sensors))
    for _ in range(2):
        world.reset()
        for name in "ab":
            world.agents[name].act([10, 0, 0, 0])
        for _ in range(3):
            world.tick()
    [told] = _logged(caplog, "has ended")  # b shows it by its task, and c goes on
    assert told.startswith("the episode of agent 'a' has ended, and no Task sensor shows it; it " + then)


def test_every_command_of_holoocean_is_taken_and_a_wrong_count_is_told(
    bench: Bench, caplog: pytest.LogCaptureFixture
) -> None:
    world = bench.drive(an_auv(a_sensor("DistanceTask")))
    for kind in sorted(HOLOOCEAN_COMMANDS - {"RaycastLidarRate"}):
        counts = KINDS[kind]
        world.send(HolodeckCommand(kind, ("a",) * counts.strings[0], (1.0,) * counts.numbers[0]))
    world.send(HolodeckCommand("DebugDraw", (), (1.0,) * 12))
    assert world.tick()["a"]["DistanceTask"][0] == 1
    assert "dropped" not in caplog.text
    world.send(HolodeckCommand("Tide", (), (1.0,)))
    world.tick()
    assert "Tide has 1 numbers, expected 2" in caplog.text


# places


def test_sensors_of_a_place_show_where_the_agent_is(bench: Bench) -> None:
    kinds = (*_PLACES, "PoseSensor", "DepthSensor", "GPSSensor", "MagnetometerSensor")
    north = a_sensor("MagnetometerSensor", "north", MagneticVector=[0, 2, 0])
    state = bench.drive(an_auv(*map(a_sensor, kinds), north, location=[1, 2, -1.5], rotation=[0, 0, 90])).state()["a"]
    assert state["LocationSensor"].tolist() == state["GPSSensor"].tolist() == [1, 2, -1.5]
    assert state["DepthSensor"].tolist() == [-1.5]
    columns = [[0, -1, 0], [1, 0, 0], [0, 0, 1]]  # forward is the world's y, left its -x
    assert np.allclose(state["OrientationSensor"], columns, atol=1e-6)
    assert np.allclose(state["PoseSensor"], [[0, -1, 0, 1], [1, 0, 0, 2], [0, 0, 1, -1.5], [0, 0, 0, 1]], atol=1e-6)
    assert np.allclose(state["MagnetometerSensor"], [0, -1, 0], atol=1e-6)
    assert np.allclose(state["north"], [2, 0, 0], atol=1e-6)
    holodecks = bench.attach(an_agent("a", [a_sensor("OrientationSensor")], rotation=[0, 0, 90])).reset()["a"]
    assert np.allclose(holodecks["OrientationSensor"], np.transpose(columns), atol=1e-6)  # which sees its axes as rows


@pytest.mark.parametrize(("config", "is_shown"), [({}, False), ({"Depth": 5.0}, True)])
def test_a_gps_shows_nothing_below_its_depth(bench: Bench, config: dict[str, float], is_shown: bool) -> None:
    state = bench.drive(an_auv(a_sensor("GPSSensor", **config), location=[0, 0, -3])).state()
    assert np.isnan(state["a"]["GPSSensor"]).all() != is_shown


def test_an_agent_is_teleported_once_turned_and_seen_where_it_is(bench: Bench) -> None:
    engine: Any = PlacedEngine(2)
    sensors = list(map(a_sensor, _PLACES))
    world = bench.drive(an_agent("a", sensors), an_agent("b", sensors), engine=engine)
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
    engine.places[1].position.x = 7.0
    world.tick()
    assert engine.places[1].position.x == 7.0


@pytest.mark.parametrize("flag", [4, 15])
def test_a_physics_state_is_set_with_the_flag_of_either_generation_of_clients(
    bench: Bench, flag: int, caplog: pytest.LogCaptureFixture
) -> None:
    engine: Any = PlacedEngine()
    world = bench.drive(an_agent("a", [a_sensor("RotationSensor")]), engine=engine)
    world.agents["a"].set_physics_state([1, 2, 3], [0, 0, 90], [1, 0, 0], [0, 0, 0])
    block = bench.names.block("a_teleport_flag")
    block.write_bytes(bytes([flag]))
    state = world.tick()
    place = engine.places[0].position
    assert (place.x, place.y, place.z) == (1, 2, 3)
    assert np.allclose(state["a"]["RotationSensor"], [0, 0, 90], atol=1e-4)
    assert block.read_bytes() == b"\0"
    assert "set without its velocities" in caplog.text


def test_an_engine_without_places_says_that_it_cannot_teleport(bench: Bench, caplog: pytest.LogCaptureFixture) -> None:
    world = bench.drive(engine=api.make_engine("toy", 1, act_size=4))
    for _ in range(3):
        world.agents["a"].teleport([1, 2, 3])
        world.tick()
    assert caplog.text.count("engine 'toy' cannot move agents") == 1

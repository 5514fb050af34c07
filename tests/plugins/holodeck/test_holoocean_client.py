"""Our client and HoloOcean: its scenarios, and an engine that behaves as its public sources have it."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Generator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("posix_ipc", reason="pip install 'lucky-transport[holodeck]'")

import lucky_transport
from lucky_transport import api
from lucky_transport.config import load_settings
from lucky_transport.errors import ConfigError, NotReachable
from lucky_transport.process import unique_name
from lucky_transport_holodeck.agent_types import AGENT_TYPES
from lucky_transport_holodeck.commands import HolodeckCommand
from lucky_transport_holodeck.names import Names
from lucky_transport_holodeck.scenario import read_scenario
from lucky_transport_holodeck.sensor_types import HOLOOCEAN_SENSORS, sensor_shape
from lucky_transport_holodeck.world_client import WorldClient
from tests.plugins.holodeck.original_engine import OriginalEngine

_SETTINGS: dict[str, Any] = {"connect_timeout_s": 5.0, "step_timeout_s": 20.0}


@pytest.fixture
def engine() -> Generator[OriginalEngine]:
    made = OriginalEngine(Names(unique_name()))
    yield made
    made.close()
    for path in Path("/dev/shm").glob(f"*{made.names.uuid}*"):
        path.unlink()


def attach(engine: OriginalEngine, scenario: dict[str, Any]) -> WorldClient:
    """Return a client of the engine, before its first reset."""
    settings = load_settings(_SETTINGS)
    return WorldClient.attach(Names(engine.names.uuid), read_scenario(scenario), settings, pre_start_steps=0)


def an_auv(*sensors: dict[str, Any], **more: Any) -> dict[str, Any]:
    agent = {"agent_name": "auv0", "agent_type": "HoveringAUV", "control_scheme": 0, "sensors": list(sensors)}
    return {"name": "s", "world": "w", "main_agent": "auv0", "agents": [agent | more]}


def a_deep_auv(**more: Any) -> dict[str, Any]:
    """Return the scenario of an AUV that knows its depth, with these keys."""
    return an_auv(a_sensor("DepthSensor")) | more


def a_sensor(kind: str, **config: Any) -> dict[str, Any]:
    return {"sensor_type": kind, "configuration": config}


# -- what blocks hold -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "config", "dtype", "shape"),
    [
        ("IMUSensor", {}, "float32", (2, 3)),
        ("IMUSensor", {"ReturnBias": True}, "float32", (4, 3)),
        ("DynamicsSensor", {}, "float32", (18,)),
        ("DynamicsSensor", {"UseRPY": False}, "float32", (19,)),
        ("DVLSensor", {}, "float32", (7,)),
        ("DVLSensor", {"ReturnRange": False}, "float32", (3,)),
        ("PoseSensor", {}, "float32", (4, 4)),
        ("DepthSensor", {}, "float32", (1,)),
        ("GPSSensor", {}, "float32", (3,)),
        ("MagnetometerSensor", {}, "float32", (3,)),
        ("BSTSensor", {}, "float32", (3,)),
        ("AcousticBeaconSensor", {"id": 3}, "float32", (4,)),
        ("OpticalModemSensor", {}, "bool", (1,)),
        ("CameraSensor", {"CaptureWidth": 6, "CaptureHeight": 4}, "uint8", (4, 6, 4)),
        ("DepthCamera", {}, "uint8", (256, 256, 4)),
        ("SemanticSegmentationCamera", {}, "uint8", (256, 256, 4)),
        ("ImagingSonar", {}, "float32", (512, 512)),
        ("ImagingSonar", {"RangeBins": 10, "AzimuthBins": 20}, "float32", (10, 20)),
        ("ImagingSonar", {"RangeMin": 1, "RangeMax": 40, "RangeRes": 0.5, "AzimuthRes": 0.5}, "float32", (78, 240)),
        ("ProfilingSonar", {}, "float32", (750, 480)),
        ("ProfilingSonar", {"RangeRes": 0.5}, "float32", (149, 480)),
        ("SidescanSonar", {}, "float32", (689,)),
        ("SidescanSonar", {"RangeBins": 2000}, "float32", (2000,)),
        ("SinglebeamSonar", {}, "float32", (200,)),
        ("SinglebeamSonar", {"RangeRes": 0.25}, "float32", (38,)),
        ("RaycastLidar", {}, "float32", (42000,)),
        ("RaycastLidar", {"PointsPerSecond": 1000, "RotationFrequency": 20}, "float32", (375,)),
        ("RaycastLidar", {"PointsPerSecond": 1000}, "float32", (1000,)),  # of the client's 42000: so is the engine's
        ("RaycastSemanticLidar", {"PointsPerSecond": 1000, "RotationFrequency": 20}, "float32", (525,)),
        ("RaycastSemanticLidar", {}, "float32", (56000,)),  # the client's own 58800 are more than the engine's block
    ],
)
def test_a_sensors_block_is_as_its_configuration_says(
    kind: str, config: dict[str, Any], dtype: str, shape: tuple[int, ...]
) -> None:
    found = sensor_shape(kind, AGENT_TYPES["HoveringAUV"], config)
    assert (found.dtype, found.shape) == (dtype, shape)


@pytest.mark.parametrize(
    ("sensor", "why"),
    [
        (a_sensor("ImagingSonar", RangeBins=3, RangeRes=1), "both RangeBins and RangeRes"),
        (a_sensor("ProfilingSonar", AzimuthBins=3, AzimuthRes=1), "both AzimuthBins and AzimuthRes"),
        (a_sensor("SidescanSonar", RangeMax=0.25), r"would be float32 \(-"),
        (a_sensor("SinglebeamSonar", RangeRes="wide"), "configuration of SinglebeamSonar"),
        (a_sensor("DVLSensor") | {"Hz": 31}, "Hz of DVLSensor is 31.*at most the 30 ticks per second"),
        (a_sensor("DVLSensor") | {"Hz": 0}, "Hz of DVLSensor is 0"),
    ],
)
def test_a_configuration_that_makes_no_sense_is_named(sensor: dict[str, Any], why: str, tmp_path: Path) -> None:
    path = tmp_path / "scenario.json"
    path.write_text(json.dumps(an_auv(sensor)))
    with pytest.raises(lucky_transport.TransportError, match=why):
        api.open_transport(f"holodeck://{unique_name()}?scenario={path}&binary=/bin/false")


# -- an engine as its sources have it ---------------------------------------------------------------------------------


def test_every_sensor_of_holoocean_is_driven_and_no_block_is_cut_under_us(engine: OriginalEngine) -> None:
    kinds = sorted(HOLOOCEAN_SENSORS)
    small: dict[str, dict[str, Any]] = {
        "ImagingSonar": {"RangeBins": 4, "AzimuthBins": 8},
        "ProfilingSonar": {"RangeRes": 0.5, "AzimuthRes": 1},
        "RaycastLidar": {"PointsPerSecond": 100, "RotationFrequency": 1},
        "RaycastSemanticLidar": {"PointsPerSecond": 100, "RotationFrequency": 1},
    }
    sensors = [a_sensor(kind, **small.get(kind, {})) for kind in kinds]
    sensors += [a_sensor("RaycastSemanticLidar") | {"sensor_name": "more"}, {"sensor_type": "IMUSensor"}]
    sensors.append(a_sensor("RaycastLidar", PointsPerSecond=1000) | {"sensor_name": "few"})
    for _ in range(2):  # the second client finds the blocks as the engine has them
        with attach(engine, an_auv(*sensors)) as world:
            world.reset()
            state = world.tick()["auv0"]
            assert engine.aborted == ""
            assert engine.cut == []
            assert len(state) == len(kinds) + 3
            for name, value in state.items():
                expected = True if name == "OpticalModemSensor" else 2
                assert (value == expected).all(), name


@pytest.mark.parametrize("kind", [each.scenario_name for each in AGENT_TYPES.values() if each.is_holoocean])
def test_each_agent_of_holoocean_acts_by_each_of_its_schemes(engine: OriginalEngine, kind: str, tmp_path: Path) -> None:
    path = tmp_path / "scenario.json"
    for scheme, expected in enumerate(AGENT_TYPES[kind].schemes):
        agent = an_auv(a_sensor("DepthSensor"), a_sensor("DistanceTask"), agent_type=kind, control_scheme=scheme)
        path.write_text(json.dumps(agent))
        endpoint = f"holodeck://{engine.names.uuid}?scenario={path}&pre_start_steps=0"
        with lucky_transport.make(endpoint=endpoint, **_SETTINGS) as env:
            assert env.single_action_space.shape == (expected.size,)
            env.reset()
            action = env.action_space.sample()
            _, rewards, *_ = env.step(action)
            assert rewards.tolist() == [2]
            size = 4 * AGENT_TYPES[kind].action_size
            assert engine.map("auv0", size)[: action.nbytes] == action.astype(np.float32).tobytes()
            assert engine.map("auv0_control_scheme", 1)[0] == scheme
    assert (engine.aborted, engine.cut) == ("", [])


def test_a_heavy_sensor_is_computed_as_often_as_its_rate_says(engine: OriginalEngine) -> None:
    sensors = [
        a_sensor("ImagingSonar", RangeBins=1, AzimuthBins=1) | {"Hz": 5},
        a_sensor("RGBCamera", CaptureWidth=1, CaptureHeight=1) | {"Hz": 7},  # every 30 / 7 ticks: 4
        a_sensor("DepthSensor") | {"Hz": 5},
    ]
    with attach(engine, an_auv(*sensors)) as world:
        world.reset()
        ages = [world.tick()["auv0"] for _ in range(12)]
    assert [int(each["ImagingSonar"][0, 0]) for each in ages] == [0] * 4 + [6] * 6 + [12] * 2
    assert [int(each["RGBCamera"][0, 0, 0]) for each in ages] == [0, 0, *[4] * 4, *[8] * 4, *[12] * 2]
    assert [int(each["DepthSensor"][0]) for each in ages] == list(range(2, 14))  # a light one is there at every tick
    configs = [json.loads(strings[3]) for strings, _ in engine.of_type("AddSensor")]
    assert [config.get("TicksPerCapture") for config in configs] == [6, 4, None]


def test_commands_of_holoocean_reach_the_engine(engine: OriginalEngine) -> None:
    with attach(engine, an_auv(a_sensor("AcousticBeaconSensor"))) as world:
        world.reset()
        world.send(
            HolodeckCommand("SendAcousticMessage", ("auv0", "AcousticBeaconSensor", "auv1", "AcousticBeaconSensor")),
            HolodeckCommand("OceanCurrents", ("auv0",), (1.0, 0.0, 0.0, 0.0)),
        )
        world.tick()
    assert engine.of_type("SendAcousticMessage")[0][0][0] == "auv0"
    assert engine.of_type("OceanCurrents") == [(["auv0"], [1, 0, 0, 0])]


def test_the_yaw_is_randomized_by_the_third_number(engine: OriginalEngine) -> None:
    with attach(engine, an_auv(a_sensor("DepthSensor"), rotation_randomization=[0, 0, 90])) as world:
        for _ in range(20):
            world.reset()
    drawn = np.array([numbers[3:6] for _, numbers in engine.of_type("SpawnAgent")])
    assert not drawn[:, :2].any()
    assert np.ptp(drawn[:, 2]) > 0


def test_the_first_agent_is_the_main_one_where_none_is_named(engine: OriginalEngine) -> None:
    scenario = an_auv(a_sensor("DepthSensor"))
    del scenario["main_agent"]
    scenario["agents"].append(scenario["agents"][0] | {"agent_name": "auv1"})
    with attach(engine, scenario) as world:
        world.reset()
        assert world.main_agent.plan.name == "auv0"
    assert [numbers[6] for _, numbers in engine.of_type("SpawnAgent")] == [1, 0]


# -- how an engine is started -----------------------------------------------------------------------------------------

_ENGINE = """\
#!{python}
import json, sys
with open({path!r}, "w") as file:
    json.dump(sys.argv[1:], file)
"""


@pytest.fixture
def arguments(tmp_path: Path) -> Callable[..., list[str]]:
    """A function that starts an engine for a scenario and returns what it was told on its command line."""
    binary, path, told = tmp_path / "engine", tmp_path / "scenario.json", tmp_path / "told.json"
    binary.write_text(_ENGINE.format(python=sys.executable, path=str(told)))
    binary.chmod(0o755)

    def start(scenario: dict[str, Any], more: str = "") -> list[str]:
        path.write_text(json.dumps(scenario))
        with pytest.raises(NotReachable, match="ended"):
            api.open_transport(f"holodeck://{unique_name()}?scenario={path}&binary={binary}{more}")
        return [each for each in json.loads(told.read_text()) if "UUID" not in each]

    return start


_COMMON = ["w", "-HolodeckOn", "-LOG=HolodeckLog.txt", "-ForceRes", "-ResX=1280", "-ResY=720"]


def test_holoocean_is_started_with_its_own_command_line(
    arguments: Callable[..., list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DISPLAY", ":0")
    defaults = [f"-Env{end}{axis}={value}" for end, value in (("Min", -10.0), ("Max", 10.0)) for axis in "XYZ"]
    leaves = ["-OctreeMin=0.02", "-OctreeMax=5.0"]
    assert arguments(a_deep_auv()) == [*_COMMON, "-TicksPerSec=30", "-FramesPerSec=30", *defaults, *leaves]
    fast = a_deep_auv(ticks_per_sec=200, frames_per_sec=False, env_min=[-1, -2, -3.5], octree_max=8)
    told = arguments(fast)
    assert told[6:11] == ["-TicksPerSec=200", "-FramesPerSec=0", "-EnvMinX=-1.0", "-EnvMinY=-2.0", "-EnvMinZ=-3.5"]
    assert told[-1] == "-OctreeMax=8.0"
    assert arguments(fast, "&ticks_per_second=50")[6] == "-TicksPerSec=50"
    monkeypatch.delenv("DISPLAY")
    assert arguments(a_deep_auv())[-1] == "-RenderOffScreen"


def test_holodeck_is_started_with_its_own_command_line(arguments: Callable[..., list[str]]) -> None:
    scenario = an_auv(a_sensor("RangeFinderSensor"), agent_type="UavAgent")
    assert arguments(scenario) == [*_COMMON, "-TicksPerSec=30", "-opengl4"]


@pytest.mark.parametrize(
    ("more", "why"),
    [
        ({"ticks_per_sec": 0}, "ticks_per_sec is 0"),
        ({"frames_per_sec": "fast"}, "invalid literal"),
        ({"env_min": [1, 2]}, "zip"),
        ({"octree_min": "small"}, "could not convert"),
    ],
)
def test_a_world_that_makes_no_sense_is_named(more: dict[str, Any], why: str, tmp_path: Path) -> None:
    path = tmp_path / "scenario.json"
    path.write_text(json.dumps(a_deep_auv(**more)))
    with pytest.raises(ConfigError, match=why):
        api.open_transport(f"holodeck://{unique_name()}?scenario={path}&binary=/bin/false")


def test_a_step_lasts_as_long_as_the_scenarios_ticks(engine: OriginalEngine, tmp_path: Path) -> None:
    path = tmp_path / "scenario.json"
    path.write_text(json.dumps(a_deep_auv(ticks_per_sec=50)))
    endpoint = f"holodeck://{engine.names.uuid}?scenario={path}&ticks_per_step=5"
    with api.open_transport(endpoint, load_settings(_SETTINGS)) as client:
        assert client.spec.step_s == pytest.approx(0.1)
    with api.open_transport(endpoint + "&ticks_per_second=100", load_settings(_SETTINGS)) as client:
        assert client.spec.step_s == pytest.approx(0.05)

"""Scenarios of both generations, Holodeck's and HoloOcean's: what blocks they make, what they start, what is wrong."""

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("posix_ipc", reason="pip install 'lucky-transport[holodeck]'")


from lucky_transport import api
from lucky_transport.errors import ConfigError, NotReachable, SpecError
from lucky_transport.process import unique_name
from lucky_transport_holodeck.agent_types import AGENT_TYPES
from lucky_transport_holodeck.scenario import read_scenario
from lucky_transport_holodeck.sensor_types import sensor_shape
from tests.plugins.holodeck.conftest import a_sensor, a_uav, an_auv

_TASK = {"sensor_type": "DistanceTask"}


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


def agents_of(*agents: dict[str, Any]) -> dict[str, Any]:
    return {"world": "w", "agents": list(agents)}


_DEPTH = a_sensor("DepthSensor")
_WRONG: list[tuple[dict[str, Any], str]] = [
    (agents_of(), "no agents"),
    (agents_of({"agent_name": "a"}), "agent_type"),
    (a_uav(agent_type="Dragon"), "Dragon"),
    (a_uav(a_sensor("Nose")), "Nose"),
    (a_uav(a_sensor("PressureSensor")), "PressureSensor"),
    (a_uav(a_sensor("RGBCamera", CaptureWidth="w")), "RGBCamera"),
    (a_uav(location=[1]), "unpack"),
    (a_uav(_TASK), "no sensor to observe with"),
    (agents_of(*a_uav(_DEPTH)["agents"], *a_uav(_TASK, agent_name="b")["agents"]), "'a' and 'b' differ"),
    (agents_of(*a_uav(_DEPTH)["agents"] * 2), "2 agents are called 'a'; rename one"),
    (a_uav(_TASK, location_randomization=[1]), "unpack"),
    (a_uav(_TASK, rotation_randomization="abc"), "could not convert"),
    (a_uav({"sensor_type": "IMUSensor", "configuration": [1]}), r"configuration of IMUSensor is \[1\]"),
    (a_uav(_TASK, existing="yes"), "existing is 'yes'.*true or false"),
    (an_auv(a_sensor("ImagingSonar", RangeBins=3, RangeRes=1)), "both RangeBins and RangeRes"),
    (an_auv(a_sensor("ProfilingSonar", AzimuthBins=3, AzimuthRes=1)), "both AzimuthBins and AzimuthRes"),
    (an_auv(a_sensor("SidescanSonar", RangeMax=0.25)), r"would be float32 \(-"),
    (an_auv(a_sensor("SinglebeamSonar", RangeRes="wide")), "configuration of SinglebeamSonar"),
    (an_auv(a_sensor("DVLSensor") | {"Hz": 31}), "Hz of DVLSensor is 31.*at most the 30 ticks per second"),
    (an_auv(a_sensor("DVLSensor") | {"Hz": 0}), "Hz of DVLSensor is 0"),
    (an_auv(_DEPTH) | {"ticks_per_sec": 0}, "ticks_per_sec is 0"),
    (an_auv(_DEPTH) | {"frames_per_sec": "fast"}, "invalid literal"),
    (an_auv(_DEPTH) | {"env_min": [1, 2]}, "zip"),
    (an_auv(_DEPTH) | {"octree_min": "small"}, "could not convert"),
]


@pytest.mark.parametrize(("scenario", "words"), _WRONG, ids=[words for _, words in _WRONG])
def test_what_is_wrong_in_a_scenario_is_named(scenario: dict[str, Any], words: str, tmp_path: Path) -> None:
    path = tmp_path / "scenario.json"
    path.write_text(json.dumps(scenario))
    with pytest.raises((ConfigError, SpecError), match=words):
        api.open_transport(f"holodeck://{unique_name()}?scenario={path}&binary=/bin/false")


@pytest.mark.parametrize(
    "query", ["scenari=x", "ticks_per_step=0", "ticks_per_step=x", "scenario=/nowhere/x.json", "pre_start_steps=-1"]
)
def test_wrong_options_are_named(query: str) -> None:
    with pytest.raises(ConfigError, match=query.partition("=")[0]):
        api.open_transport(f"holodeck://{unique_name()}?{query}")


def test_keys_that_have_no_effect_are_named(caplog: pytest.LogCaptureFixture) -> None:
    scenario = a_uav({"sensor_type": "IMUSensor", "sockt": "x"}, loaction=[1, 2, 3])
    read_scenario(scenario | {"weather": {"hour": 7}})
    for key, where in (("weather", "scenario"), ("loaction", "agent 'a'"), ("sockt", "sensor 'IMUSensor'")):
        assert any(key in each.message and where in each.message for each in caplog.records)


# how an engine is started

_ENGINE = """\
#!{python}
import json, sys
with open({path!r}, "w") as file:
    json.dump(sys.argv[1:], file)
"""
_COMMON = ["w", "-HolodeckOn", "-LOG=HolodeckLog.txt", "-ForceRes", "-ResX=1280", "-ResY=720"]


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


def test_each_generation_is_started_with_its_own_command_line(
    arguments: Callable[..., list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DISPLAY", ":0")
    assert arguments(a_uav(a_sensor("RangeFinderSensor"))) == [*_COMMON, "-TicksPerSec=30", "-opengl4"]
    defaults = [f"-Env{end}{axis}={value}" for end, value in (("Min", -10.0), ("Max", 10.0)) for axis in "XYZ"]
    leaves = ["-OctreeMin=0.02", "-OctreeMax=5.0"]
    assert arguments(an_auv(_DEPTH)) == [*_COMMON, "-TicksPerSec=30", "-FramesPerSec=30", *defaults, *leaves]
    fast = an_auv(_DEPTH) | {"ticks_per_sec": 200, "frames_per_sec": False, "env_min": [-1, -2, -3.5], "octree_max": 8}
    told = arguments(fast)
    assert told[6:11] == ["-TicksPerSec=200", "-FramesPerSec=0", "-EnvMinX=-1.0", "-EnvMinY=-2.0", "-EnvMinZ=-3.5"]
    assert told[-1] == "-OctreeMax=8.0"
    assert arguments(fast, "&ticks_per_second=50")[6] == "-TicksPerSec=50"
    monkeypatch.delenv("DISPLAY")
    assert arguments(an_auv(_DEPTH))[-1] == "-RenderOffScreen"

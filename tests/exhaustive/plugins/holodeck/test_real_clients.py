"""The original clients, in a Python of their own: Holodeck's 0.3.1, unmodified, and HoloOcean's.

They drive our engines, and our client sends what they send.
"""

import json
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("posix_ipc", reason="pip install 'lucky-transport[holodeck]'")

import lucky_transport_holodeck
from lucky_transport import api
from lucky_transport.process import unique_name
from lucky_transport_holodeck.export import write_package
from lucky_transport_holodeck.names import REFUSED
from lucky_transport_holodeck.sensor_types import HOLOOCEAN_SENSORS
from tests.plugins.holodeck.conftest import SHARED, Bench, PlacedEngine, a_sensor, an_agent
from tests.plugins.holodeck.original_engine import OriginalEngine
from tests.plugins.holodeck.peer import (
    TIMEOUT_S,
    check_started,
    command,
    environment,
    run,
    run_as_pasted,
    unnamed_blocks,
)
from tests.support.waiting import until_none_left


@dataclass(frozen=True)
class Peer:
    """An original client: which of the two, a Python that has it, and the version that its installations are of."""

    name: str
    python: str
    version: str

    def run(self, *arguments: str) -> Any:
        return run(self.python, *arguments)


@pytest.fixture
def holodeck(peer_python: str) -> Peer:
    return Peer("holodeck", peer_python, "0.3.1")


@pytest.fixture
def holoocean(holoocean_python: str) -> Peer:
    program = "import holoocean; print(holoocean.__version__)"
    shown = subprocess.run([holoocean_python, "-c", program], capture_output=True, text=True, check=True).stdout
    return Peer("holoocean", holoocean_python, shown.strip())


@pytest.fixture(params=["holodeck", "holoocean"])
def peer(request: pytest.FixtureRequest) -> Peer:
    return request.getfixturevalue(request.param)


def test_it_starts_our_engine_resets_it_and_steps_it_bit_for_bit(peer: Peer, tmp_path: Path) -> None:
    check_started(peer.python, tmp_path / peer.version / "worlds", 1000 if peer.name == "holodeck" else 500)


def test_an_engine_that_it_started_ends_when_it_is_killed(peer: Peer, tmp_path: Path) -> None:
    worlds = tmp_path / peer.version / "worlds"
    write_package(worlds, "toy", api.make_engine("toy").spec, num_envs=1, seed=None, options={})
    before = unnamed_blocks()
    env = environment(HOLODECKPATH=str(tmp_path))
    with subprocess.Popen(command(peer.python, "waits"), env=env, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"there\n"
        process.kill()
    until_none_left(lambda: unnamed_blocks() - before)


def test_it_attaches_after_another_one_that_ended_without_a_goodbye(peer: Peer, bench: Bench) -> None:
    bench.serve(PlacedEngine())
    for _ in range(2):
        assert peer.run("one_step", bench.names.uuid) == [1.0, 2.0, 3.0]


def test_it_drives_several_agents_of_an_engine_that_runs_again_and_again(holodeck: Peer, bench: Bench) -> None:
    bench.serve(PlacedEngine(2))
    for _ in range(2):
        assert holodeck.run("several", bench.names.uuid) == {
            "first": [1, 0, 0, 0, 0],
            "after": {"a": [2, 1, 2, 3, 4], "b": [2, 5, 6, 7, 8]},
            "stepped": [6, 9, 0, 0, 0],
            "b": [6, 5, 6, 7, 8],
        }


def test_it_drives_agents_of_its_own_kinds_again_and_again(holoocean: Peer, bench: Bench) -> None:
    bench.serve(PlacedEngine(3))
    for _ in range(2):
        found = holoocean.run("several_auvs", bench.names.uuid)
        assert found["first"] == [1, 0, 0, 0, 0]
        after, stepped = (
            {name: found[key][name]["RangeFinderSensor"] for name in "abc"} for key in ("after", "stepped")
        )
        assert after == {"a": [2, 1, 2, 3, 4], "b": [2, 0, 1, 2, 3], "c": [2, 5, 6, 0, 0]}
        assert stepped == {"a": [6, 9, 0, 0, 0], "b": [6, 0, 1, 2, 3], "c": [6, 5, 6, 0, 0]}
        assert found["stepped"]["b"]["DistanceTask"] == [6, 0]


def test_it_teleports_and_sends_commands_of_every_kind(
    holodeck: Peer, bench: Bench, caplog: pytest.LogCaptureFixture
) -> None:
    bench.serve(PlacedEngine())
    first, second, third = holodeck.run("places", bench.names.uuid)
    assert first["LocationSensor"] == [1, 2, 3]
    assert np.allclose(first["RotationSensor"], [10, 20, 30], atol=1e-4)
    assert second["LocationSensor"] == third["LocationSensor"] == [4, 5, 6]
    assert np.allclose(second["OrientationSensor"], [0, 1, 0, -1, 0, 0, 0, 0, 1], atol=1e-6)
    assert "dropped" not in caplog.text


def test_it_sees_places_teleports_and_sends_commands_of_every_kind(
    holoocean: Peer, bench: Bench, caplog: pytest.LogCaptureFixture
) -> None:
    bench.serve(PlacedEngine())
    first, second, third = holoocean.run("places_of_an_auv", bench.names.uuid)
    assert first["LocationSensor"] == first["GPSSensor"] == [1, 2, -1]
    assert np.allclose(first["PoseSensor"], [[1, 0, 0, 1], [0, 1, 0, 2], [0, 0, 1, -1], [0, 0, 0, 1]], atol=1e-6)
    turned = [[0, -1, 0], [1, 0, 0], [0, 0, 1]]
    assert np.allclose(second["OrientationSensor"], turned, atol=1e-6)
    assert np.allclose(second["MagnetometerSensor"], [0, -1, 0], atol=1e-6)
    assert second["DepthSensor"] == [-30]
    assert "GPSSensor" not in second  # too deep
    assert third["LocationSensor"] == [4, 5, 6]
    assert all("AcousticBeaconSensor" not in state and "OpticalModemSensor" not in state for state in (first, third))
    assert "dropped" not in caplog.text


_SIZES: dict[str, tuple[dict[str, Any], Any]] = {
    "IMUSensor": ({"ReturnBias": True}, [4, 3]),
    "DVLSensor": ({"ReturnRange": False}, [3]),
    "DynamicsSensor": ({"UseRPY": False}, [19]),
    "ImagingSonar": ({"RangeMax": 40, "RangeRes": 0.5, "AzimuthRes": 0.5}, [79, 240]),
    "ProfilingSonar": ({}, [750, 480]),
    "SidescanSonar": ({}, [689]),
    "SinglebeamSonar": ({"RangeBins": 30}, [30]),
    "CameraSensor": ({"CaptureWidth": 6, "CaptureHeight": 4}, [4, 6, 4]),
    "SemanticSegmentationCamera": ({"CaptureWidth": 5, "CaptureHeight": 3}, [3, 5, 4]),
}


def test_a_sensor_of_every_size_shows_what_the_engine_calls_so(holoocean: Peer, bench: Bench, tmp_path: Path) -> None:
    bench.serve(PlacedEngine())
    key = {"Key": "ticks"}
    sensors = [{"sensor_type": kind, "configuration": config | key} for kind, (config, _) in _SIZES.items()]
    del sensors[[each["sensor_type"] for each in sensors].index("CameraSensor")]["configuration"]["Key"]
    sensors.append({"sensor_type": "DVLSensor", "sensor_name": "slow", "configuration": dict(key), "Hz": 10})
    path = tmp_path / "sensors.json"
    path.write_text(json.dumps(sensors))
    states = holoocean.run("sizes", bench.names.uuid, str(path))
    for number, state in enumerate(states, 1):
        for kind, (_, shape) in _SIZES.items():
            shown = 0 if kind == "CameraSensor" else number  # which this engine does not have
            assert state[kind] == [shape, [shown]], kind
    assert [state.get("slow") for state in states] == [[[7], [1]], None, None]


def test_it_gives_up_on_an_engine_that_was_killed_and_leaves_nothing(holoocean: Peer, bench: Bench) -> None:
    engine = bench.spawn(act_size=4)
    started = command(holoocean.python, "outlives", bench.names.uuid)
    with subprocess.Popen(started, env=environment(), stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"there\n"
        engine.kill()
        output, _ = process.communicate(b"go on\n", TIMEOUT_S)
    assert json.loads(output) == "BusyError"
    loading = bench.names.file_of(bench.names.loading)
    assert bench.leftovers() == [loading.name]  # the blocks and the other semaphores are gone
    loading.unlink()


def test_the_pages_program_that_attaches_runs_as_pasted(holodeck: Peer, tmp_path: Path) -> None:
    page = Path(lucky_transport_holodeck.__file__).with_name("README.md").read_text(encoding="utf-8")
    block = page.partition("**It attaches to one that runs**")[2].partition("\n\n")[2].partition("`holodeck://`")[0]
    assert block.count('demo"') + block.count("//demo") == 2
    assert "RangeFinderSensor" in run_as_pasted(block, unique_name(), holodeck.python, tmp_path)


def test_the_pages_programs_run_as_pasted(holoocean: Peer, tmp_path: Path) -> None:
    page = Path(lucky_transport_holodeck.__file__).with_name("HOLOOCEAN.md").read_text(encoding="utf-8")
    starts, attaches = page.partition("by its scenario's name:\n\n")[2].split("\n\nor attaches to one that runs:\n\n")
    starts = starts.replace("/2.3.0/", f"/{holoocean.version}/")  # of whatever version the client is
    assert "RangeFinderSensor" in run_as_pasted(starts, "", holoocean.python, tmp_path / "starts")
    shown = run_as_pasted(attaches.partition("\n\n")[0], unique_name(), holoocean.python, tmp_path / "attaches")
    assert len(shown.splitlines()) == 100


# what our client sends

_WORLD = {"name": "everything", "world": "w", "window_width": 640, "window_height": 480}
_PLACE = {"location": [1.5, -2, 3], "rotation": [10, 20, 30]}
_NOISE = {"location_randomization": [0.5, 1, 2], "rotation_randomization": [5, 45, 90]}
_CAMERA: dict[str, Any] = {"CaptureWidth": 8, "CaptureHeight": 4}
_JOINTS = [{"sensor_type": f"{what}Sensor"} for what in ("JointRotation", "Pressure", "RelativeSkeletalPosition")]
_UAV_SENSORS: list[dict[str, Any]] = [
    {"sensor_type": "LocationSensor", "sensor_name": "here", "socket": "Head", "rotation": [1, 2, 3]},
    {"sensor_type": "RotationSensor", "location": [0.25, 0, 0]},
    {"sensor_type": "VelocitySensor", "existing": True},
    {"sensor_type": "OrientationSensor", "existing": False},
    {"sensor_type": "IMUSensor"},
    {"sensor_type": "CollisionSensor", "configuration": None},
    a_sensor("RangeFinderSensor", LaserCount=3, LaserDebug=True),
    {"sensor_type": "RangeFinderSensor", "sensor_name": "one"},
    a_sensor("RGBCamera", **_CAMERA),
    {"sensor_type": "RGBCamera", "sensor_name": "large"},
    {"sensor_type": "ViewportCapture"},
    a_sensor("WorldNumSensor", Key="n"),
    {"sensor_type": "BallLocationSensor"},
    a_sensor("BallLocationSensor", "ball"),
    a_sensor("AbuseSensor", AccelerationLimit=300.5),
    a_sensor("DistanceTask", GoalLocation=[1, 2, 3], Interval=0.5),
    *({"sensor_type": f"{kind}Task"} for kind in ("Location", "Follow", "Avoid", "CupGame", "CleanUp")),
]
_HOLODECK_AGENTS = [
    an_agent("uav", _UAV_SENSORS, **_PLACE, **_NOISE),
    an_agent(
        "resident", [{"sensor_type": "LocationSensor"}], agent_type="TurtleAgent", control_scheme=0, existing=True
    ),
    an_agent("android", _JOINTS, agent_type="AndroidAgent", control_scheme=7),
    an_agent("hand", _JOINTS, agent_type="HandAgent", control_scheme=7),
    an_agent("sphere", [], agent_type="SphereAgent", control_scheme=0),
    an_agent("nav", [], agent_type="NavAgent", control_scheme=0),
]
_CONFIGURED: dict[str, dict[str, Any]] = {
    "ImagingSonar": {"RangeBins": 4, "AzimuthRes": 8},
    **{f"Raycast{kind}": {"PointsPerSecond": 1000, "RotationFrequency": 20} for kind in ("Lidar", "SemanticLidar")},
    **{kind: {"id": 4} for kind in ("AcousticBeaconSensor", "OpticalModemSensor")},
}
_AUV_SENSORS = [
    *(a_sensor(kind, **_CONFIGURED.get(kind, {})) for kind in sorted(HOLOOCEAN_SENSORS)),
    a_sensor("IMUSensor", ReturnBias=True) | {"socket": "IMUSocket"},
    a_sensor("RGBCamera", **_CAMERA) | {"Hz": 20},
    a_sensor("SinglebeamSonar", "slow") | {"Hz": 7},
    a_sensor("DVLSensor", "light") | {"Hz": 5, "rotation": [1, 2, 3]},
]
_HOLOOCEAN_AGENTS = [
    an_agent("auv", _AUV_SENSORS, agent_type="HoveringAUV", **_PLACE, **_NOISE),
    *(
        an_agent(kind, [], agent_type=kind, control_scheme=2)
        for kind in ("BlueROV2", "ScubaDiver", "FixedWing", "TorpedoAUV", "CougUV", "SurfaceVessel")
    ),
    an_agent("uav", [], control_scheme=0),
]
_RATES = {"ticks_per_sec": 60, "frames_per_sec": 30}
_OCTREE = {"env_min": [-1, -2, -3], "env_max": [1, 2, 3], "octree_min": 0.1, "octree_max": 5}
_SCENARIOS: dict[str, dict[str, Any]] = {
    "holodeck": {**_WORLD, "package_name": "p", "main_agent": "uav", "agents": _HOLODECK_AGENTS},
    "holoocean": {**_WORLD, **_RATES, **_OCTREE, "agents": _HOLOOCEAN_AGENTS},
}


def test_a_scenario_with_every_key_and_sensor_is_sent_as_it_sends_it(peer: Peer, bench: Bench, tmp_path: Path) -> None:
    scenario = _SCENARIOS[peer.name]
    path = tmp_path / "everything.json"
    path.write_text(json.dumps(scenario))
    theirs, ours = bench.original("resident"), bench.original("resident")
    their_sizes = peer.run("resets", theirs.names.uuid, str(path), "11")
    with bench.enter(ours.names, scenario) as world:
        world.seed([11] * len(scenario["agents"]))
        world.reset()
        prefix = f"HOLODECK_MEM{ours.names.uuid}_"
        sizes = {each.name.removeprefix(prefix): each.stat().st_size for each in SHARED.glob(f"{prefix}*")}
        del sizes[REFUSED]  # which our client makes beside them
    assert (theirs.aborted, ours.aborted) == ("", "")
    assert (theirs.cut, ours.cut) == ([], [])
    assert _parsed(ours) == _parsed(theirs) if peer.name == "holoocean" else ours.commands == theirs.commands
    assert sizes == their_sizes


def _parsed(engine: OriginalEngine) -> list[Any]:
    """Return the commands, with configurations as what they say: the order of their keys is nobody's."""
    found: list[Any] = []
    for kind, strings, numbers in engine.commands:
        texts: list[Any] = list(strings)
        if kind == "AddSensor":
            texts[3] = json.loads(strings[3])
        found.append((kind, texts, numbers))
    return found

"""HoloOcean's own client, in its own Python, drives our engines, and ours sends what it sends."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Generator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("posix_ipc", reason="pip install 'lucky-transport[holodeck]'")

from lucky_transport import api
from lucky_transport.config import load_settings
from lucky_transport.process import unique_name
from lucky_transport_holodeck.export import write_package
from lucky_transport_holodeck.names import REFUSED, Names
from lucky_transport_holodeck.scenario import read_scenario
from lucky_transport_holodeck.sensor_types import HOLOOCEAN_SENSORS
from lucky_transport_holodeck.world_client import WorldClient
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

_SCRIPT = "original_holoocean.py"


@pytest.fixture
def worlds(holoocean_python: str, tmp_path: Path) -> Path:
    """The folder `worlds` of an installation in `tmp_path`, of the version that the client has."""
    program = "import holoocean; print(holoocean.__version__)"
    shown = subprocess.run([holoocean_python, "-c", program], capture_output=True, text=True, check=True).stdout
    return tmp_path / shown.strip() / "worlds"


def test_it_starts_our_engine_resets_it_and_steps_it_bit_for_bit(holoocean_python: str, worlds: Path) -> None:
    check_started(_SCRIPT, holoocean_python, worlds, 500)


def test_it_drives_agents_of_its_own_kinds_again_and_again(holoocean_python: str, bench: Any, placed: Any) -> None:
    bench.serve(placed(3))
    for _ in range(2):
        found = run(_SCRIPT, holoocean_python, "several", bench.names.uuid)
        assert found["first"] == [1, 0, 0, 0, 0]
        after, stepped = (
            {name: found[key][name]["RangeFinderSensor"] for name in "abc"} for key in ("after", "stepped")
        )
        assert after == {"a": [2, 1, 2, 3, 4], "b": [2, 0, 1, 2, 3], "c": [2, 5, 6, 0, 0]}
        assert stepped == {"a": [6, 9, 0, 0, 0], "b": [6, 0, 1, 2, 3], "c": [6, 5, 6, 0, 0]}
        assert found["stepped"]["b"]["DistanceTask"] == [6, 0]


def test_it_sees_places_teleports_and_sends_commands_of_every_kind(
    holoocean_python: str, bench: Any, placed: Any, caplog: pytest.LogCaptureFixture
) -> None:
    bench.serve(placed(1))
    first, second, third = run(_SCRIPT, holoocean_python, "places", bench.names.uuid)
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


def test_a_sensor_of_every_size_shows_what_the_engine_calls_so(
    holoocean_python: str, bench: Any, placed: Any, tmp_path: Path
) -> None:
    bench.serve(placed(1))
    key = {"Key": "ticks"}
    sensors = [{"sensor_type": kind, "configuration": config | key} for kind, (config, _) in _SIZES.items()]
    del sensors[[each["sensor_type"] for each in sensors].index("CameraSensor")]["configuration"]["Key"]
    sensors.append({"sensor_type": "DVLSensor", "sensor_name": "slow", "configuration": dict(key), "Hz": 10})
    path = tmp_path / "sensors.json"
    path.write_text(json.dumps(sensors))
    states = run(_SCRIPT, holoocean_python, "sizes", bench.names.uuid, str(path))
    for number, state in enumerate(states, 1):
        for kind, (_, shape) in _SIZES.items():
            shown = 0 if kind == "CameraSensor" else number  # which this engine does not have
            assert state[kind] == [shape, [shown]], kind
    assert [state.get("slow") for state in states] == [[[7], [1]], None, None]


def test_it_attaches_after_another_one_that_ended_without_a_goodbye(
    holoocean_python: str, bench: Any, placed: Any
) -> None:
    bench.serve(placed(1))
    for _ in range(2):
        assert run(_SCRIPT, holoocean_python, "one_step", bench.names.uuid) == [1.0, 2.0, 3.0]


def test_an_engine_that_it_started_ends_when_it_is_killed(holoocean_python: str, worlds: Path, tmp_path: Path) -> None:
    write_package(worlds, "toy", api.make_engine("toy").spec, num_envs=1, seed=None, options={})
    before = unnamed_blocks()
    env = environment(HOLODECKPATH=str(tmp_path))
    with subprocess.Popen(command(_SCRIPT, holoocean_python, "waits"), env=env, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"there\n"
        process.kill()
    until_none_left(lambda: unnamed_blocks() - before)


def test_it_gives_up_on_an_engine_that_was_killed_and_leaves_nothing(holoocean_python: str, bench: Any) -> None:
    engine = bench.spawn(act_size=4)
    started = command(_SCRIPT, holoocean_python, "outlives", bench.names.uuid)
    with subprocess.Popen(started, env=environment(), stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"there\n"
        engine.kill()
        output, _ = process.communicate(b"go on\n", TIMEOUT_S)
    assert json.loads(output) == "BusyError"
    loading = bench.names.file_of(bench.names.loading)
    assert bench.leftovers() == [loading.name]  # the blocks and the other semaphores are gone
    loading.unlink()


def test_the_pages_programs_run_as_pasted(holoocean_python: str, worlds: Path, tmp_path: Path) -> None:
    import lucky_transport_holodeck

    page = Path(lucky_transport_holodeck.__file__).with_name("HOLOOCEAN.md").read_text(encoding="utf-8")
    starts, attaches = page.partition("by its scenario's name:\n\n")[2].split("\n\nor attaches to one that runs:\n\n")
    starts = starts.replace("/2.3.0/", f"/{worlds.parent.name}/")  # of whatever version the client is
    assert "RangeFinderSensor" in run_as_pasted(starts, "", holoocean_python, tmp_path / "starts")
    attaches = attaches.partition("\n\n")[0]
    shown = run_as_pasted(attaches, unique_name(), holoocean_python, tmp_path / "attaches")
    assert len(shown.splitlines()) == 100


# -- what our client sends --------------------------------------------------------------------------------------------

_CONFIGURED: dict[str, dict[str, Any]] = {
    "ImagingSonar": {"RangeBins": 4, "AzimuthRes": 8},
    "RaycastLidar": {"PointsPerSecond": 1000, "RotationFrequency": 20},
    "RaycastSemanticLidar": {"PointsPerSecond": 1000, "RotationFrequency": 20},
    "AcousticBeaconSensor": {"id": 4},
    "OpticalModemSensor": {"id": 4},
}
_EVERYTHING: dict[str, Any] = {
    "name": "everything",
    "world": "w",
    "ticks_per_sec": 60,
    "frames_per_sec": 30,
    "window_width": 640,
    "window_height": 480,
    "env_min": [-1, -2, -3],
    "env_max": [1, 2, 3],
    "octree_min": 0.1,
    "octree_max": 5,
    "agents": [
        {
            "agent_name": "auv",
            "agent_type": "HoveringAUV",
            "control_scheme": 1,
            "location": [1.5, -2, 3],
            "rotation": [10, 20, 30],
            "location_randomization": [0.5, 1, 2],
            "rotation_randomization": [5, 45, 90],
            "sensors": [
                *(
                    {"sensor_type": kind, "configuration": dict(_CONFIGURED.get(kind, {}))}
                    for kind in sorted(HOLOOCEAN_SENSORS)
                ),
                {"sensor_type": "IMUSensor", "socket": "IMUSocket", "configuration": {"ReturnBias": True}},
                {"sensor_type": "RGBCamera", "configuration": {"CaptureWidth": 8, "CaptureHeight": 4}, "Hz": 20},
                {"sensor_type": "SinglebeamSonar", "sensor_name": "slow", "configuration": {}, "Hz": 7},
                {
                    "sensor_type": "DVLSensor",
                    "sensor_name": "light",
                    "configuration": {},
                    "Hz": 5,
                    "rotation": [1, 2, 3],
                },
            ],
        },
        *(
            {"agent_name": kind, "agent_type": kind, "control_scheme": 2, "sensors": []}
            for kind in ("BlueROV2", "ScubaDiver", "FixedWing", "TorpedoAUV", "CougUV", "SurfaceVessel")
        ),
        {"agent_name": "uav", "agent_type": "UavAgent", "control_scheme": 0, "sensors": []},
    ],
}


@pytest.fixture
def engines() -> Generator[tuple[OriginalEngine, OriginalEngine]]:
    made = OriginalEngine(Names(unique_name())), OriginalEngine(Names(unique_name()))
    yield made
    for engine in made:
        engine.close()
        for path in Path("/dev/shm").glob(f"*{engine.names.uuid}*"):
            path.unlink()


def test_a_scenario_with_every_key_and_sensor_is_sent_as_it_sends_it(
    engines: tuple[OriginalEngine, OriginalEngine], holoocean_python: str, tmp_path: Path
) -> None:
    path = tmp_path / "scenario.json"
    path.write_text(json.dumps(_EVERYTHING))
    theirs, ours = engines
    their_sizes = run(_SCRIPT, holoocean_python, "resets", theirs.names.uuid, str(path), "11")
    settings = load_settings({"connect_timeout_s": 5.0, "step_timeout_s": 20.0})
    scenario = read_scenario(_EVERYTHING)
    with WorldClient.attach(Names(ours.names.uuid), scenario, settings, pre_start_steps=0) as world:
        world.seed([11] * len(_EVERYTHING["agents"]))
        world.reset()
        prefix = f"HOLODECK_MEM{ours.names.uuid}_"
        sizes = {each.name.removeprefix(prefix): each.stat().st_size for each in Path("/dev/shm").glob(f"{prefix}*")}
        del sizes[REFUSED]  # which our client makes beside them
    assert (theirs.aborted, ours.aborted) == ("", "")
    assert (theirs.cut, ours.cut) == ([], [])
    assert _parsed(ours) == _parsed(theirs)
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

"""Our client against an engine that behaves as the original's: what it is sent, and what stays when a client leaves."""

from __future__ import annotations

import json
from collections.abc import Callable, Generator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("posix_ipc", reason="pip install 'lucky-transport[holodeck]'")

import lucky_transport
from lucky_transport import api
from lucky_transport.config import load_settings
from lucky_transport.errors import ConfigError, Unimplemented
from lucky_transport.messages import SetSeedsRequest
from lucky_transport.messages.methods import method
from lucky_transport.process import unique_name
from lucky_transport_holodeck.names import REFUSED, Names
from lucky_transport_holodeck.scenario import read_scenario
from lucky_transport_holodeck.world_client import WorldClient
from tests.plugins.holodeck.original_engine import OriginalEngine
from tests.plugins.holodeck.peer import run

_SETTINGS: dict[str, Any] = {"connect_timeout_s": 5.0, "step_timeout_s": 20.0}
_TASK = {"sensor_type": "DistanceTask"}
_LASER = {"sensor_type": "RangeFinderSensor"}


@pytest.fixture
def start() -> Generator[Callable[..., OriginalEngine]]:
    """A function that starts such an engine, with these residents, at a uuid of its own."""
    engines: list[OriginalEngine] = []

    def start(*residents: str) -> OriginalEngine:
        engines.append(OriginalEngine(Names(unique_name()), *residents))
        return engines[-1]

    yield start
    for engine in engines:
        engine.close()
        for path in Path("/dev/shm").glob(f"*{uuid_of(engine)}*"):  # the blocks: nothing of the original removes them
            path.unlink()


def uuid_of(engine: OriginalEngine) -> str:
    return engine.names.uuid


def attach(engine: OriginalEngine, scenario: dict[str, Any]) -> WorldClient:
    """Return a client of the engine, before its first reset."""
    settings = load_settings(_SETTINGS)
    return WorldClient.attach(Names(uuid_of(engine)), read_scenario(scenario), settings, pre_start_steps=0)


def one_agent(*sensors: dict[str, Any], **more: Any) -> dict[str, Any]:
    agent = {"agent_name": "a", "agent_type": "UavAgent", "control_scheme": 1, "sensors": list(sensors)}
    return {"world": "w", "main_agent": "a", "agents": [agent | more]}


# -- what is sent -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["RGBCamera", "ViewportCapture", "RangeFinderSensor", "IMUSensor", "DistanceTask"])
@pytest.mark.parametrize("more", [{}, {"configuration": None}, {"configuration": {}}])
def test_a_sensor_without_a_configuration_is_sent_an_empty_one(
    start: Callable[..., OriginalEngine], kind: str, more: dict[str, Any]
) -> None:
    engine = start()
    with attach(engine, one_agent({"sensor_type": kind} | more)) as world:
        world.reset()
    assert engine.aborted == ""
    assert [strings for strings, _ in engine.of_type("AddSensor")] == [["a", kind, kind, "{}", ""]]


def test_the_most_usual_scenario_is_driven(start: Callable[..., OriginalEngine], tmp_path: Path) -> None:
    engine = start()
    path = tmp_path / "scenario.json"
    path.write_text(json.dumps(one_agent({"sensor_type": "RGBCamera"}, {"sensor_type": "LocationSensor"}, _TASK)))
    endpoint = f"holodeck://{uuid_of(engine)}?scenario={path}&pre_start_steps=0"
    with lucky_transport.make(endpoint=endpoint, **_SETTINGS) as env:
        observations, _ = env.reset()
        assert observations["RGBCamera"].shape == (1, 256, 256, 4)
        assert (observations["RGBCamera"] == 1).all()
        observations, rewards, *_ = env.step(np.zeros((1, 4), np.float32))
        assert (observations["LocationSensor"] == 2).all()
        assert rewards.tolist() == [2]
    assert engine.aborted == ""


_EVERYTHING = {
    "name": "everything",
    "world": "w",
    "package_name": "p",
    "main_agent": "uav",
    "window_width": 640,
    "window_height": 480,
    "agents": [
        {
            "agent_name": "uav",
            "agent_type": "UavAgent",
            "control_scheme": 1,
            "location": [1.5, -2, 3],
            "rotation": [10, 20, 30],
            "location_randomization": [0.5, 1, 2],
            "rotation_randomization": [5, 45, 90],
            "sensors": [
                {"sensor_type": "LocationSensor", "sensor_name": "here", "socket": "Head", "rotation": [1, 2, 3]},
                {"sensor_type": "RotationSensor", "location": [0.25, 0, 0]},
                {"sensor_type": "VelocitySensor", "existing": True},
                {"sensor_type": "OrientationSensor", "existing": False},
                {"sensor_type": "IMUSensor"},
                {"sensor_type": "CollisionSensor", "configuration": None},
                {"sensor_type": "RangeFinderSensor", "configuration": {"LaserCount": 3, "LaserDebug": True}},
                {"sensor_type": "RangeFinderSensor", "sensor_name": "one"},
                {"sensor_type": "RGBCamera", "configuration": {"CaptureWidth": 8, "CaptureHeight": 4}},
                {"sensor_type": "RGBCamera", "sensor_name": "large"},
                {"sensor_type": "ViewportCapture"},
                {"sensor_type": "WorldNumSensor", "configuration": {"Key": "n"}},
                {"sensor_type": "BallLocationSensor"},
                {"sensor_type": "BallLocationSensor", "sensor_name": "ball", "configuration": {}},
                {"sensor_type": "AbuseSensor", "configuration": {"AccelerationLimit": 300.5}},
                {"sensor_type": "DistanceTask", "configuration": {"GoalLocation": [1, 2, 3], "Interval": 0.5}},
                *({"sensor_type": f"{kind}Task"} for kind in ("Location", "Follow", "Avoid", "CupGame", "CleanUp")),
            ],
        },
        {
            "agent_name": "resident",
            "agent_type": "TurtleAgent",
            "control_scheme": 0,
            "existing": True,
            "sensors": [{"sensor_type": "LocationSensor"}],
        },
        *(
            {
                "agent_name": name,
                "agent_type": kind,
                "control_scheme": 7,
                "sensors": [
                    {"sensor_type": f"{what}Sensor"}
                    for what in ("JointRotation", "Pressure", "RelativeSkeletalPosition")
                ],
            }
            for name, kind in (("android", "AndroidAgent"), ("hand", "HandAgent"))
        ),
        {"agent_name": "sphere", "agent_type": "SphereAgent", "control_scheme": 0, "sensors": []},
        {"agent_name": "nav", "agent_type": "NavAgent", "control_scheme": 0, "sensors": []},
    ],
}


def test_a_scenario_with_every_key_and_sensor_is_sent_as_the_original_client_sends_it(
    start: Callable[..., OriginalEngine], peer_python: str, tmp_path: Path
) -> None:
    path = tmp_path / "scenario.json"
    path.write_text(json.dumps(_EVERYTHING))
    theirs, ours = start("resident"), start("resident")
    their_sizes = run("original_client.py", peer_python, "resets", uuid_of(theirs), str(path), "11")
    with attach(ours, _EVERYTHING) as world:
        world.seed([11] * len(_EVERYTHING["agents"]))
        world.reset()
        blocks = {path.name.removeprefix(f"HOLODECK_MEM{uuid_of(ours)}_"): path for path in world_blocks(ours)}
        sizes = {key: path.stat().st_size for key, path in blocks.items()}
        del sizes[REFUSED]  # which our client makes beside them
    assert (theirs.aborted, ours.aborted) == ("", "")
    assert ours.commands == theirs.commands
    assert sizes == their_sizes


def world_blocks(engine: OriginalEngine) -> list[Path]:
    return list(Path("/dev/shm").glob(f"HOLODECK_MEM{uuid_of(engine)}_*"))


# -- where agents start -----------------------------------------------------------------------------------------------

_RANDOM = {"location": [10, 20, 30], "location_randomization": [1, 2, 0], "rotation_randomization": [5, 45, 90]}


def starts(engine: OriginalEngine) -> list[list[float]]:
    """Return place and rotation of every spawn, the oldest first."""
    return [numbers[:6] for _, numbers in engine.of_type("SpawnAgent")]


def test_each_reset_draws_a_start_around_the_scenarios_place(start: Callable[..., OriginalEngine]) -> None:
    engine = start()
    with attach(engine, one_agent(_LASER, _TASK, **_RANDOM)) as world:
        for _ in range(40):
            world.reset()
    drawn = np.array(starts(engine))
    assert len(np.unique(drawn, axis=0)) == 40
    middle, reach = (
        np.array([10, 20, 30, 0, 0, 0]),
        np.array([1, 2, 0, 5, 45, 45]),
    )  # yaw's reach is roll's, as in 0.3.1
    assert (np.abs(drawn - middle) <= reach).all()
    assert (np.ptp(drawn, axis=0) >= reach).all()  # over 40 draws it fills at least half of the range


def test_seeds_decide_the_starts_of_the_following_resets(start: Callable[..., OriginalEngine], tmp_path: Path) -> None:
    engine = start()
    scenario = one_agent(_LASER, _TASK, **_RANDOM)
    scenario["agents"].append(scenario["agents"][0] | {"agent_name": "b"})
    path = tmp_path / "scenario.json"
    path.write_text(json.dumps(scenario))
    endpoint = f"holodeck://{uuid_of(engine)}?scenario={path}&pre_start_steps=0"
    with lucky_transport.make(endpoint=endpoint, **_SETTINGS) as env:
        for seed in (3, None, 3, None, 4):
            env.reset(seed=seed)
        env.reset(seed=[4, 3])
    drawn = [starts(engine)[at : at + 2] for at in range(0, 12, 2)]
    assert drawn[0:2] == drawn[2:4]
    assert drawn[0] != drawn[1]
    assert drawn[0][1] == drawn[4][0]  # seed 4, whichever agent has it
    assert drawn[5] == [drawn[4][0], drawn[0][0]]


def test_a_world_without_randomized_starts_has_no_use_for_seeds(
    start: Callable[..., OriginalEngine], tmp_path: Path
) -> None:
    path = tmp_path / "scenario.json"
    seeds = method("BatchService/SetSeeds")
    for randomization, has_use in (({}, False), (_RANDOM, True)):
        engine = start()
        path.write_text(json.dumps(one_agent(_LASER, **randomization)))
        with api.open_transport(f"holodeck://{uuid_of(engine)}?scenario={path}", load_settings(_SETTINGS)) as client:
            assert client.implements(seeds) is has_use
            if has_use:
                assert client.call(seeds, SetSeedsRequest([1])).success
                assert not client.call(seeds, SetSeedsRequest([1, 2])).success
            else:
                with pytest.raises(Unimplemented, match="SetSeeds"):
                    client.call(seeds, SetSeedsRequest([1]))


def test_an_agent_that_exists_is_not_spawned_and_has_its_sensors(start: Callable[..., OriginalEngine]) -> None:
    engine = start("a")
    with attach(engine, one_agent({"sensor_type": "LocationSensor"}, existing=True)) as world:
        state = world.reset()
        assert world.step([0, 0, 0, 0])[0]["LocationSensor"].tolist() == (state["a"]["LocationSensor"] + 1).tolist()
        assert state["a"]["LocationSensor"].all()
    assert engine.of_type("SpawnAgent") == []
    assert engine.aborted == ""


def test_keys_that_have_no_effect_are_named(caplog: pytest.LogCaptureFixture) -> None:
    scenario = one_agent({"sensor_type": "IMUSensor", "sockt": "x"}, loaction=[1, 2, 3])
    read_scenario(scenario | {"weather": {"hour": 7}})
    for key, where in (("weather", "scenario"), ("loaction", "agent 'a'"), ("sockt", "sensor 'IMUSensor'")):
        assert any(key in each.message and where in each.message for each in caplog.records)


@pytest.mark.parametrize(
    ("scenario", "why"),
    [
        (one_agent(_TASK, location_randomization=[1]), "unpack"),
        (one_agent(_TASK, rotation_randomization="abc"), "could not convert"),
        (one_agent({"sensor_type": "IMUSensor", "configuration": [1]}), r"configuration of IMUSensor is \[1\]"),
        (one_agent(_TASK, existing="yes"), "existing is 'yes'.*true or false"),
    ],
)
def test_values_of_the_wrong_kind_are_named(scenario: dict[str, Any], why: str, tmp_path: Path) -> None:
    path = tmp_path / "scenario.json"
    path.write_text(json.dumps(scenario))
    with pytest.raises(ConfigError, match=why):
        api.open_transport(f"holodeck://{unique_name()}?scenario={path}&binary=/bin/false")


# -- coming again -----------------------------------------------------------------------------------------------------


def test_one_client_after_the_other_sees_what_a_running_engine_shows(start: Callable[..., OriginalEngine]) -> None:
    engine = start()
    for _ in range(3):
        with attach(engine, one_agent({"sensor_type": "LocationSensor"}, _LASER, _TASK)) as world:
            assert world.reset()["a"]["LocationSensor"].tolist() == [1, 1, 1]
            world.agents["a"].act([1, 2, 3, 4])
            state = world.tick()["a"]
            assert (state["LocationSensor"].tolist(), state["RangeFinderSensor"].tolist()) == ([2, 2, 2], [2])
            mapped = engine.map("a", 16)[:]
            assert np.frombuffer(mapped, np.float32).tolist() == [1, 2, 3, 4]  # what the engine maps is what we write


def test_a_client_with_other_sensors_finds_the_engine_too(start: Callable[..., OriginalEngine]) -> None:
    engine = start()
    for lasers in (2, 5, 3):
        sensor = {"sensor_type": "RangeFinderSensor", "configuration": {"LaserCount": lasers}}
        with attach(engine, one_agent(sensor)) as world:
            world.reset()
            assert world.tick()["a"]["RangeFinderSensor"].tolist() == [2] * lasers

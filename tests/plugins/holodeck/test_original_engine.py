"""Our client against an engine that behaves as the originals': what it is sent, and what stays when a client leaves."""

import json
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

pytest.importorskip("posix_ipc", reason="pip install 'lucky-transport[holodeck]'")

import lucky_transport
from lucky_transport import api
from lucky_transport.config import load_settings
from lucky_transport.errors import Unimplemented
from lucky_transport.messages import SetSeedsRequest
from lucky_transport.messages.methods import method
from lucky_transport_holodeck.agent_types import AGENT_TYPES
from lucky_transport_holodeck.commands import HolodeckCommand
from lucky_transport_holodeck.sensor_types import HOLOOCEAN_SENSORS
from tests.plugins.holodeck.conftest import SETTINGS, Bench, a_sensor, a_uav, an_auv
from tests.plugins.holodeck.original_engine import OriginalEngine

_TASK = {"sensor_type": "DistanceTask"}
_LASER = {"sensor_type": "RangeFinderSensor"}
_RANDOM = {"location": [10, 20, 30], "location_randomization": [1, 2, 0], "rotation_randomization": [5, 45, 90]}


@pytest.fixture
def engine(bench: Bench) -> OriginalEngine:
    return bench.original()


@pytest.fixture
def endpoint(engine: OriginalEngine, tmp_path: Any) -> Callable[..., str]:
    """A function that returns where the engine is stepped as the agents of a scenario."""

    def at(scenario: dict[str, Any], more: str = "") -> str:
        path = tmp_path / "scenario.json"
        path.write_text(json.dumps(scenario))
        return f"holodeck://{engine.names.uuid}?scenario={path}&pre_start_steps=0{more}"

    return at


# what is sent


@pytest.mark.parametrize("kind", ["RGBCamera", "ViewportCapture", "RangeFinderSensor", "IMUSensor", "DistanceTask"])
@pytest.mark.parametrize("more", [{}, {"configuration": None}, {"configuration": {}}])
def test_a_sensor_without_a_configuration_is_sent_an_empty_one(
    bench: Bench, engine: OriginalEngine, kind: str, more: dict[str, Any]
) -> None:
    with bench.enter(engine.names, a_uav({"sensor_type": kind} | more)) as world:
        world.reset()
    assert engine.aborted == ""
    assert [strings for strings, _ in engine.of_type("AddSensor")] == [["a", kind, kind, "{}", ""]]


def test_the_most_usual_scenario_is_driven(engine: OriginalEngine, endpoint: Callable[..., str]) -> None:
    scenario = a_uav({"sensor_type": "RGBCamera"}, {"sensor_type": "LocationSensor"}, _TASK)
    with lucky_transport.make(endpoint=endpoint(scenario), **SETTINGS) as env:
        observations, _ = env.reset()
        assert observations["RGBCamera"].shape == (1, 256, 256, 4)
        assert (observations["RGBCamera"] == 1).all()
        observations, rewards, *_ = env.step(np.zeros((1, 4), np.float32))
        assert (observations["LocationSensor"] == 2).all()
        assert rewards.tolist() == [2]
    assert engine.aborted == ""


def test_every_sensor_of_holoocean_is_driven_and_no_block_is_cut_under_us(bench: Bench, engine: OriginalEngine) -> None:
    kinds = sorted(HOLOOCEAN_SENSORS)
    small: dict[str, dict[str, Any]] = {
        "ImagingSonar": {"RangeBins": 4, "AzimuthBins": 8},
        "ProfilingSonar": {"RangeRes": 0.5, "AzimuthRes": 1},
        "RaycastLidar": {"PointsPerSecond": 100, "RotationFrequency": 1},
        "RaycastSemanticLidar": {"PointsPerSecond": 100, "RotationFrequency": 1},
    }
    sensors = [a_sensor(kind, **small.get(kind, {})) for kind in kinds]
    sensors += [a_sensor("RaycastSemanticLidar", "more"), {"sensor_type": "IMUSensor"}]
    sensors.append(a_sensor("RaycastLidar", "few", PointsPerSecond=1000))
    for _ in range(2):  # the second client finds the blocks as the engine has them
        with bench.enter(engine.names, an_auv(*sensors)) as world:
            world.reset()
            state = world.tick()["a"]
            assert engine.aborted == ""
            assert engine.cut == []
            assert len(state) == len(kinds) + 3
            for name, value in state.items():
                expected = True if name == "OpticalModemSensor" else 2
                assert (value == expected).all(), name


@pytest.mark.parametrize("kind", [each.scenario_name for each in AGENT_TYPES.values() if each.is_holoocean])
def test_each_agent_of_holoocean_acts_by_each_of_its_schemes(
    engine: OriginalEngine, endpoint: Callable[..., str], kind: str
) -> None:
    for scheme, expected in enumerate(AGENT_TYPES[kind].schemes):
        scenario = an_auv(a_sensor("DepthSensor"), _TASK, agent_type=kind, control_scheme=scheme)
        with lucky_transport.make(endpoint=endpoint(scenario), **SETTINGS) as env:
            assert env.single_action_space.shape == (expected.size,)
            env.reset()
            action = env.action_space.sample()
            _, rewards, *_ = env.step(action)
            assert rewards.tolist() == [2]
            size = 4 * AGENT_TYPES[kind].action_size
            assert engine.map("a", size)[: action.nbytes] == action.astype(np.float32).tobytes()
            assert engine.map("a_control_scheme", 1)[0] == scheme
    assert (engine.aborted, engine.cut) == ("", [])


def test_a_heavy_sensor_is_computed_as_often_as_its_rate_says(bench: Bench, engine: OriginalEngine) -> None:
    sensors = [
        a_sensor("ImagingSonar", RangeBins=1, AzimuthBins=1) | {"Hz": 5},
        a_sensor("RGBCamera", CaptureWidth=1, CaptureHeight=1) | {"Hz": 7},  # every 30 / 7 ticks: 4
        a_sensor("DepthSensor") | {"Hz": 5},
    ]
    with bench.enter(engine.names, an_auv(*sensors)) as world:
        world.reset()
        ages = [world.tick()["a"] for _ in range(12)]
    assert [int(each["ImagingSonar"][0, 0]) for each in ages] == [0] * 4 + [6] * 6 + [12] * 2
    assert [int(each["RGBCamera"][0, 0, 0]) for each in ages] == [0, 0, *[4] * 4, *[8] * 4, *[12] * 2]
    assert [int(each["DepthSensor"][0]) for each in ages] == list(range(2, 14))  # a light one is there at every tick
    configs = [json.loads(strings[3]) for strings, _ in engine.of_type("AddSensor")]
    assert [config.get("TicksPerCapture") for config in configs] == [6, 4, None]


def test_commands_of_holoocean_reach_the_engine(bench: Bench, engine: OriginalEngine) -> None:
    with bench.enter(engine.names, an_auv(a_sensor("AcousticBeaconSensor"))) as world:
        world.reset()
        world.send(
            HolodeckCommand("SendAcousticMessage", ("a", "AcousticBeaconSensor", "b", "AcousticBeaconSensor")),
            HolodeckCommand("OceanCurrents", ("a",), (1.0, 0.0, 0.0, 0.0)),
        )
        world.tick()
    assert engine.of_type("SendAcousticMessage")[0][0][0] == "a"
    assert engine.of_type("OceanCurrents") == [(["a"], [1, 0, 0, 0])]


def test_the_first_agent_is_the_main_one_where_none_is_named(bench: Bench, engine: OriginalEngine) -> None:
    scenario = an_auv(a_sensor("DepthSensor"))
    del scenario["main_agent"]
    scenario["agents"].append(scenario["agents"][0] | {"agent_name": "b"})
    with bench.enter(engine.names, scenario) as world:
        world.reset()
        assert world.main_agent.plan.name == "a"
    assert [numbers[6] for _, numbers in engine.of_type("SpawnAgent")] == [1, 0]


def test_a_step_lasts_as_long_as_the_scenarios_ticks(endpoint: Callable[..., str]) -> None:
    scenario = an_auv(a_sensor("DepthSensor")) | {"ticks_per_sec": 50}
    for more, step_s in (("", 0.1), ("&ticks_per_second=100", 0.05)):
        opened = api.open_transport(endpoint(scenario, f"&ticks_per_step=5{more}"), load_settings(SETTINGS))
        with opened as client:
            assert client.spec.step_s == pytest.approx(step_s)


# where agents start


def starts(engine: OriginalEngine) -> list[list[float]]:
    """Return place and rotation of every spawn, the oldest first."""
    return [numbers[:6] for _, numbers in engine.of_type("SpawnAgent")]


@pytest.mark.parametrize(("scenario", "yaw"), [(a_uav, 45), (an_auv, 90)])  # Holodeck's reach of yaw is roll's
def test_each_reset_draws_a_start_around_the_scenarios_place(
    bench: Bench, engine: OriginalEngine, scenario: Any, yaw: int
) -> None:
    with bench.enter(engine.names, scenario(_LASER, _TASK, **_RANDOM)) as world:
        for _ in range(40):
            world.reset()
    drawn = np.array(starts(engine))
    assert len(np.unique(drawn, axis=0)) == 40
    middle, reach = np.array([10, 20, 30, 0, 0, 0]), np.array([1, 2, 0, 5, 45, yaw])
    assert (np.abs(drawn - middle) <= reach).all()
    assert (np.ptp(drawn, axis=0) >= reach).all()  # over 40 draws it fills at least half of the range


def test_seeds_decide_the_starts_of_the_following_resets(engine: OriginalEngine, endpoint: Callable[..., str]) -> None:
    scenario = a_uav(_LASER, _TASK, **_RANDOM)
    scenario["agents"].append(scenario["agents"][0] | {"agent_name": "b"})
    with lucky_transport.make(endpoint=endpoint(scenario), **SETTINGS) as env:
        for seed in (3, None, 3, None, 4):
            env.reset(seed=seed)
        env.reset(seed=[4, 3])
    drawn = [starts(engine)[at : at + 2] for at in range(0, 12, 2)]
    assert drawn[0:2] == drawn[2:4]
    assert drawn[0] != drawn[1]
    assert drawn[0][1] == drawn[4][0]  # seed 4, whichever agent has it
    assert drawn[5] == [drawn[4][0], drawn[0][0]]


@pytest.mark.parametrize(("randomization", "has_use"), [({}, False), (_RANDOM, True)])
def test_a_world_without_randomized_starts_has_no_use_for_seeds(
    endpoint: Callable[..., str], randomization: dict[str, Any], has_use: bool
) -> None:
    seeds = method("BatchService/SetSeeds")
    with api.open_transport(endpoint(a_uav(_LASER, **randomization)), load_settings(SETTINGS)) as client:
        assert client.implements(seeds) is has_use
        if has_use:
            assert client.call(seeds, SetSeedsRequest([1])).success
            assert not client.call(seeds, SetSeedsRequest([1, 2])).success
        else:
            with pytest.raises(Unimplemented, match="SetSeeds"):
                client.call(seeds, SetSeedsRequest([1]))


def test_an_agent_that_exists_is_not_spawned_and_has_its_sensors(bench: Bench) -> None:
    engine = bench.original("a")
    with bench.enter(engine.names, a_uav({"sensor_type": "LocationSensor"}, existing=True)) as world:
        state = world.reset()
        assert world.step([0, 0, 0, 0])[0]["LocationSensor"].tolist() == (state["a"]["LocationSensor"] + 1).tolist()
        assert state["a"]["LocationSensor"].all()
    assert engine.of_type("SpawnAgent") == []
    assert engine.aborted == ""


# coming again


def test_one_client_after_the_other_sees_what_a_running_engine_shows(bench: Bench, engine: OriginalEngine) -> None:
    for lasers in (1, 1, 2, 5, 3):
        with bench.enter(
            engine.names, a_uav({"sensor_type": "LocationSensor"}, a_sensor("RangeFinderSensor", LaserCount=lasers))
        ) as world:
            assert world.reset()["a"]["LocationSensor"].tolist() == [1, 1, 1]
            world.agents["a"].act([1, 2, 3, 4])
            state = world.tick()["a"]
            assert (state["LocationSensor"].tolist(), state["RangeFinderSensor"].tolist()) == ([2, 2, 2], [2] * lasers)
            mapped = engine.map("a", 16)[:]
            assert np.frombuffer(mapped, np.float32).tolist() == [1, 2, 3, 4]  # what the engine maps is what we write

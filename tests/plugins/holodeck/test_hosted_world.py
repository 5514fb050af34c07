"""Our engines as the agents of a Holodeck world, driven as the original's client drives one."""

import logging
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("posix_ipc", reason="pip install 'lucky-transport[holodeck]'")

from lucky_transport import api
from lucky_transport.engine import RESET
from lucky_transport.errors import SpecError
from lucky_transport.process import unique_name
from lucky_transport.testing.stepping_contract import DialEngine
from lucky_transport.testing.suite import open_reference
from lucky_transport_holodeck.commands import HolodeckCommand
from tests.plugins.holodeck.conftest import Bench, PlacedEngine, an_agent
from tests.support.walks import Recorder, check_walk, walk_of, watched_threads

_OBSERVATION, _TASK = "RangeFinderSensor", "DistanceTask"
_PAGE = Path(__file__).parents[3] / "plugins" / "lucky_transport_holodeck" / "ENGINE_END.md"


def test_a_tick_goes_the_way_that_the_page_shows(bench: Bench) -> None:
    walk = walk_of(_PAGE, "One tick")
    check_walk(_PAGE, walk)
    recorder = Recorder()
    with watched_threads(recorder):
        world = bench.drive()
        assert recorder.missing(walk, world.tick) is None


@pytest.mark.parametrize("settling", [0, 4])
def test_a_reset_shows_the_reset_observation_after_the_ticks_that_the_client_wants(bench: Bench, settling: int) -> None:
    engine = PlacedEngine()
    bench.serve(engine)
    state = bench.attach(an_agent("a"), pre_start_steps=settling).reset()
    assert state["a"][_OBSERVATION].tolist() == [settling, 0, 0, 0, 0]
    assert engine.resets.tolist() == [1]


def test_an_action_is_carried_out_until_the_next_one(bench: Bench) -> None:
    world = bench.drive()
    world.agents["a"].act([1, 2, 3, 4])
    assert world.tick()["a"][_OBSERVATION].tolist() == [1, 1, 2, 3, 4]
    assert world.tick(3)["a"][_OBSERVATION].tolist() == [4, 1, 2, 3, 4]
    world.agents["a"].act([float("nan"), float("inf")])  # numbers that are none never reach the engine
    assert world.tick()["a"][_OBSERVATION].tolist() == [5, 0, 0, 0, 0]
    state, reward, terminal = world.step([1, 0, 0, 0], ticks=5)
    assert (state[_OBSERVATION][0], reward, terminal) == (10, 10.0, False)


@pytest.mark.parametrize(("hold", "then"), [(True, (1, 0.0, True)), (False, (0, 0.0, False))])
def test_an_env_that_ended_stands_still_or_starts_again_as_the_engine_can(bench: Bench, hold: bool, then: Any) -> None:
    world = bench.drive(engine=PlacedEngine(1, hold=hold))
    assert world.step([10, 0, 0, 0])[1:] == (1.0, True)
    state, reward, terminal = world.step([0, 0, 0, 0])
    assert (state[_OBSERVATION][0], reward, terminal) == then
    assert world.reset()["a"][_TASK].tolist() == [0, 0]


def test_envs_are_agents_of_one_world_each_with_its_own_action(bench: Bench) -> None:
    world = bench.drive(engine=PlacedEngine(3))
    for number, one in enumerate(world.agents.values()):
        one.act([number, 0, 0, 0])
    state = world.tick(2)
    assert [state[name][_OBSERVATION][:2].tolist() for name in "abc"] == [[2, 0], [2, 1], [2, 2]]


def test_an_env_without_an_agent_stands_still(bench: Bench) -> None:
    engine = PlacedEngine(2)
    bench.drive(an_agent("a"), engine=engine).tick(3)
    assert engine.resets.tolist() == [1, 0]


def test_state_is_copied_unless_live_views_are_wanted(bench: Bench) -> None:
    world = bench.drive()
    copied, live = (world.state(copy=copy)["a"][_OBSERVATION] for copy in (True, False))
    world.tick()
    assert (copied[0], live[0]) == (0, 1)


def test_a_control_scheme_of_choices_chooses(bench: Bench) -> None:
    """The SphereRobot's discrete moves are the choices 0 to 3; the dial has three, which turn it back, not, and on."""
    lasers = {"sensor_type": "RangeFinderSensor", "configuration": {"LaserCount": 4}}
    world = bench.drive(an_agent("a", [lasers], agent_type="SphereAgent", control_scheme=0), engine=DialEngine(1))
    world.agents["a"].act(2)
    assert world.tick()["a"][_OBSERVATION].tolist() == [0, 1, 1, 255]
    world.agents["a"].act(0)
    assert world.tick()["a"][_OBSERVATION].tolist() == [0, 0, 2, 255]
    with pytest.raises(SpecError, match=r"agent 'a': move 1\.6, expected 0 to 3"):
        world.agents["a"].act(1.6)
    world.agents["a"].set_control_scheme(1)
    world.agents["a"].act([1.6, 0])
    assert world.tick()["a"][_OBSERVATION].tolist() == [0, 1, 3, 255]


def test_composite_actions_and_observations_are_vectors_and_names(bench: Bench) -> None:
    bench.serve("toy:composite")
    with open_reference("toy:composite", 1) as reference:
        frame = reference.step(np.zeros(reference.spec.action_shape, np.uint8), np.full(1, RESET, np.uint8))
        part = next(p for p in reference.spec.observation_parts if p.array.dtype == "float32")
        expected = frame.observations[0, part.offset : part.offset + part.array.size_bytes].tobytes()
    name = ".".join(map(str, part.path))
    sensor = {"sensor_type": "RangeFinderSensor", "configuration": {"LaserCount": part.array.size, "Key": name}}
    world = bench.attach(an_agent("a", [sensor], agent_type="AndroidAgent"))
    assert world.reset()["a"][_OBSERVATION].tobytes() == expected
    world.tick()


# what goes wrong


def test_commands_that_make_no_sense_are_told_and_the_others_carried_out(
    bench: Bench, caplog: pytest.LogCaptureFixture
) -> None:
    world = bench.drive()
    place = (0.0,) * 6
    world.send(
        HolodeckCommand("SpawnAgent", ("Dragon", "d"), (*place, 0.0)),
        HolodeckCommand("SpawnAgent", ("UAV", "../../d"), (*place, 0.0)),
        HolodeckCommand("SpawnAgent", ("UAV",), ()),
        HolodeckCommand("AddSensor", ("nobody", "s", "IMUSensor", "", ""), place),
        HolodeckCommand("AddSensor", ("a", "s", "IMUSensor", "{", ""), place),
        HolodeckCommand("AddSensor", ("a", "s", "IMUSensor", "[" * 2000, ""), place),
        HolodeckCommand("AddSensor", ("a", "s", "Nose", "", ""), place),
        HolodeckCommand("Explode"),
        HolodeckCommand("CustomCommand", ("OpenDoor",), (1.0,)),
        HolodeckCommand("CustomCommand", ("SetWeather", "rain")),
        HolodeckCommand("RemoveSensor", ("a", _TASK)),
    )
    before = world.tick()["a"][_TASK][0]
    assert world.tick()["a"][_TASK][0] == before
    for text in ("'Dragon'", "'../../d'", "has 1 strings", "'nobody'", "'Nose'", "'Explode'; known", "'OpenDoor'"):
        assert text in caplog.text
    assert "SetWeather" not in caplog.text


def test_a_reset_discards_commands_that_wait(bench: Bench, caplog: pytest.LogCaptureFixture) -> None:
    world = bench.drive()
    world.send(HolodeckCommand("Before"))
    world.reset()
    world.send(HolodeckCommand("After"))
    world.tick()
    assert "'After'" in caplog.text
    assert "'Before'" not in caplog.text


def test_a_client_that_cuts_its_blocks_does_not_kill_the_engine(bench: Bench) -> None:
    world = bench.drive()
    for key in ("a", "a_teleport_flag", f"a_{_OBSERVATION}_sensor_data", "command_buffer"):
        path = bench.names.block(key)
        path.write_bytes(b"")  # what is mapped beyond must not be touched any more, by us neither
    world.begin_tick()
    world.finish_tick()
    world.agents.clear()


def test_seeds_are_set_by_a_command_of_the_world(bench: Bench) -> None:
    world = bench.drive(engine=api.make_engine("toy", 1, obs_size=5, act_size=4))
    starts = []
    for seed in (7, 7, 8):
        world.world_command("SetSeeds", [seed])
        world.tick()
        starts.append(world.reset()["a"][_OBSERVATION].tobytes())
    assert starts[0] == starts[1] != starts[2]


def test_a_client_is_told_who_else_drives(bench: Bench, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.ERROR)
    other = f"inproc://{unique_name()}"
    endpoints = [f"holodeck://{bench.names.uuid}", other]
    bench.stack.enter_context(api.serve("toy", endpoints, options={"act_size": 4}))
    with api.open_transport(other) as driver:
        driver.step(driver.actions)
        world = bench.attach(an_agent("a"))
        world.reset()
        assert "driven by inproc client" in caplog.text
        assert world.step([0, 0, 0, 0])[2] is True
    world.reset()
    assert world.step([0, 0, 0, 0])[2] is False


def _break_down(*_: object) -> None:
    raise ArithmeticError("the places are lost")


@pytest.mark.parametrize(("fails", "words"), [("step", "failed in step: TypeError"), ("show", "the places are lost")])
def test_an_engine_that_fails_ends_the_episode_and_the_next_reset_tries_again(
    bench: Bench, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch, fails: str, words: str
) -> None:
    engine = PlacedEngine()
    world = bench.drive(engine=engine)
    with monkeypatch.context() as broken:
        if fails == "show":
            broken.setattr("lucky_transport_holodeck.poses.Poses.refresh", _break_down)
        else:
            broken.setattr(engine, "_ticks", None)
        for _ in range(3):
            world.tick()
    assert caplog.text.count(words) == 1
    assert world.step([0, 0, 0, 0])[1:] == (0.0, True)
    world.reset()
    assert world.step([0, 0, 0, 0])[1:] == (1.0, False)


def test_a_command_whose_handling_breaks_is_dropped_with_the_error(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = bench.drive()
    with monkeypatch.context() as broken:
        broken.setattr("lucky_transport_holodeck.population.sensor_shape", _break_down)
        with pytest.raises(SpecError, match="the places are lost"):
            world.reset()
    world.reset()
    assert world.step([0, 0, 0, 0])[1:] == (1.0, False)

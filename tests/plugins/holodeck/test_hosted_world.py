"""Our engines as the agents of a Holodeck world, driven as the original's client drives one."""

from __future__ import annotations

import logging
from typing import Any

import numpy as np
import pytest

from lucky_transport_holodeck.commands import HolodeckCommand

pytest.importorskip("posix_ipc", reason="pip install 'lucky-transport[holodeck]'")

from lucky_transport.engine import RESET
from lucky_transport.errors import SpecError
from lucky_transport.testing.dial import DialEngine
from lucky_transport.testing.suite import open_reference

_OBSERVATION, _TASK = "RangeFinderSensor", "DistanceTask"


def test_a_reset_shows_the_reset_observation_after_the_originals_seven_ticks(
    bench: Any, placed: Any, agent: Any
) -> None:
    engine = placed(1)
    bench.serve(engine)
    world = bench.attach(agent("a"), pre_start_steps=0)
    state = world.reset()
    assert state["a"][_OBSERVATION].tolist() == [0, 0, 0, 0, 0]
    assert engine.resets.tolist() == [1]


def test_the_world_settles_for_as_many_ticks_as_the_client_wants(bench: Any, placed: Any, agent: Any) -> None:
    bench.serve(placed(1))
    world = bench.attach(agent("a"), pre_start_steps=4)
    assert world.reset()["a"][_OBSERVATION][0] == 4


def test_an_action_is_carried_out_until_the_next_one(bench: Any, placed: Any, agent: Any) -> None:
    bench.serve(placed(1))
    world = bench.attach(agent("a"))
    world.reset()
    world.agents["a"].act([1, 2, 3, 4])
    assert world.tick()["a"][_OBSERVATION].tolist() == [1, 1, 2, 3, 4]
    assert world.tick(3)["a"][_OBSERVATION].tolist() == [4, 1, 2, 3, 4]
    world.agents["a"].act([5])
    assert world.tick()["a"][_OBSERVATION].tolist() == [5, 5, 0, 0, 0]


def test_a_step_of_several_ticks_returns_the_last_state(bench: Any, placed: Any, agent: Any) -> None:
    bench.serve(placed(1))
    world = bench.attach(agent("a"))
    world.reset()
    state, reward, terminal = world.step([1, 0, 0, 0], ticks=5)
    assert (state[_OBSERVATION][0], reward, terminal) == (5, 5.0, False)


def test_an_env_that_ended_stands_still_until_the_reset(bench: Any, placed: Any, agent: Any) -> None:
    bench.serve(placed(1))
    world = bench.attach(agent("a"))
    world.reset()
    _, reward, terminal = world.step([10, 0, 0, 0])
    assert (reward, terminal) == (1.0, True)
    state, reward, terminal = world.step([0, 0, 0, 0])
    assert (state[_OBSERVATION][0], reward, terminal) == (1, 0.0, True)
    assert world.reset()["a"][_TASK].tolist() == [0, 0]


def test_an_engine_that_cannot_hold_starts_the_ended_env_again(bench: Any, placed: Any, agent: Any) -> None:
    bench.serve(placed(1, hold=False))
    world = bench.attach(agent("a"))
    world.reset()
    world.step([10, 0, 0, 0])
    state, reward, terminal = world.step([0, 0, 0, 0])
    assert (state[_OBSERVATION][0], reward, terminal) == (0, 0.0, False)


def test_envs_are_agents_of_one_world_each_with_its_own_action(bench: Any, placed: Any, agent: Any) -> None:
    bench.serve(placed(3))
    world = bench.attach(agent("a"), agent("b"), agent("c"))
    world.reset()
    for number, one in enumerate(world.agents.values()):
        one.act([number, 0, 0, 0])
    state = world.tick(2)
    assert [state[name][_OBSERVATION][:2].tolist() for name in "abc"] == [[2, 0], [2, 1], [2, 2]]


def test_an_env_without_an_agent_stands_still_and_an_agent_without_an_env_is_refused(
    bench: Any, placed: Any, agent: Any, caplog: pytest.LogCaptureFixture
) -> None:
    engine = placed(2)
    bench.serve(engine)
    world = bench.attach(agent("a"))
    world.reset()
    world.tick(3)
    assert engine.resets.tolist() == [1, 0]
    world.close()
    crowd = bench.attach(agent("a"), agent("b"), agent("c"))
    with pytest.raises(SpecError, match="agent 'c' has no env: the engine has 2"):
        crowd.reset()
    assert "agent 'c' has no env: the engine has 2" in caplog.text


def test_state_is_copied_unless_live_views_are_wanted(bench: Any, placed: Any, agent: Any) -> None:
    bench.serve(placed(1))
    world = bench.attach(agent("a"))
    copied = world.reset()["a"][_OBSERVATION]
    live = world.state(copy=False)["a"][_OBSERVATION]
    world.tick()
    assert (copied[0], live[0]) == (0, 1)


# actions of other kinds


def test_a_control_scheme_of_choices_chooses(bench: Any, agent: Any) -> None:
    """The SphereRobot's discrete moves are the choices 0 to 3; the dial has three, which turn it back, not, and on."""
    bench.serve(DialEngine(1))
    sphere = agent("a", [{"sensor_type": "RangeFinderSensor", "configuration": {"LaserCount": 4}}],
                   agent_type="SphereAgent", control_scheme=0)  # fmt: skip
    world = bench.attach(sphere)
    world.reset()
    world.agents["a"].act(2)
    assert world.tick()["a"][_OBSERVATION].tolist() == [0, 1, 1, 255]
    world.agents["a"].act(0)
    assert world.tick()["a"][_OBSERVATION].tolist() == [0, 0, 2, 255]
    with pytest.raises(SpecError, match=r"agent 'a': move 1\.6, expected 0 to 3"):
        world.agents["a"].act(1.6)
    world.agents["a"].set_control_scheme(1)
    world.agents["a"].act([1.6, 0])
    assert world.tick()["a"][_OBSERVATION].tolist() == [0, 1, 3, 255]


def test_numbers_that_are_none_never_reach_the_engine(bench: Any, placed: Any, agent: Any) -> None:
    bench.serve(placed(1))
    world = bench.attach(agent("a"))
    world.reset()
    world.agents["a"].act([float("nan"), float("inf"), 2, 3])
    assert world.tick()["a"][_OBSERVATION].tolist() == [1, 0, 0, 2, 3]


def test_composite_actions_and_observations_are_vectors_and_names(bench: Any, agent: Any) -> None:
    bench.serve("toy:composite")
    with open_reference("toy:composite", 1) as reference:
        parts = [".".join(map(str, part.path)) for part in reference.spec.observation_parts]
        frame = reference.step(np.zeros(reference.spec.action_shape, np.uint8), np.full(1, RESET, np.uint8))
        expected = frame.observations.copy()
        part = next(p for p in reference.spec.observation_parts if p.array.dtype == "float32")
    name = ".".join(map(str, part.path))
    sensor = {"sensor_type": "RangeFinderSensor", "configuration": {"LaserCount": part.array.size, "Key": name}}
    world = bench.attach(agent("a", [sensor], agent_type="AndroidAgent"))
    shown = world.reset()["a"][_OBSERVATION]
    assert parts
    assert shown.tobytes() == expected[0, part.offset : part.offset + part.array.size_bytes].tobytes()
    world.tick()


# what goes wrong


def test_commands_that_make_no_sense_are_told_and_the_others_carried_out(
    bench: Any, placed: Any, agent: Any, caplog: pytest.LogCaptureFixture
) -> None:
    bench.serve(placed(1))
    world = bench.attach(agent("a"))
    world.reset()
    world.send(
        HolodeckCommand("SpawnAgent", ("Dragon", "d"), (0.0,) * 7),
        HolodeckCommand("SpawnAgent", ("UAV", "../../d"), (0.0,) * 7),
        HolodeckCommand("SpawnAgent", ("UAV",), ()),
        HolodeckCommand("AddSensor", ("nobody", "s", "IMUSensor", "", ""), (0.0,) * 6),
        HolodeckCommand("AddSensor", ("a", "s", "IMUSensor", "{", ""), (0.0,) * 6),
        HolodeckCommand("AddSensor", ("a", "s", "IMUSensor", "[" * 2000, ""), (0.0,) * 6),
        HolodeckCommand("AddSensor", ("a", "s", "Nose", "", ""), (0.0,) * 6),
        HolodeckCommand("Explode"),
        HolodeckCommand("CustomCommand", ("OpenDoor",), (1.0,)),
        HolodeckCommand("CustomCommand", ("SetWeather", "rain")),
        HolodeckCommand("RemoveSensor", ("a", _TASK)),
    )
    before = world.tick()["a"][_TASK][0]
    assert world.tick()["a"][_TASK][0] == before
    for text in ("'Dragon'", "'../../d'", "has 1 strings", "no agent 'nobody'", "'Nose'", "'Explode'", "'OpenDoor'"):
        assert text in caplog.text
    assert "SetWeather" not in caplog.text


def test_a_reset_discards_commands_that_wait(
    bench: Any, placed: Any, agent: Any, caplog: pytest.LogCaptureFixture
) -> None:
    bench.serve(placed(1))
    world = bench.attach(agent("a"))
    world.reset()
    world.send(HolodeckCommand("Before"))
    world.reset()
    world.send(HolodeckCommand("After"))
    world.tick()
    assert "'After'" in caplog.text
    assert "'Before'" not in caplog.text


def test_a_failing_engine_ends_the_episode_and_the_next_reset_tries_again(
    bench: Any, placed: Any, agent: Any, caplog: pytest.LogCaptureFixture
) -> None:
    engine = placed(1)
    bench.serve(engine)
    world = bench.attach(agent("a"))
    world.reset()
    engine.fails = True
    _, reward, terminal = world.step([0, 0, 0, 0])
    assert (reward, terminal) == (0.0, True)
    assert "asked to fail" in caplog.text
    engine.fails = False
    assert world.step([0, 0, 0, 0])[1:] == (0.0, True)
    world.reset()
    assert world.step([0, 0, 0, 0])[1:] == (1.0, False)


def test_a_client_that_cuts_its_blocks_does_not_kill_the_engine(bench: Any, placed: Any, agent: Any) -> None:
    bench.serve(placed(1))
    world = bench.attach(agent("a"))
    world.reset()
    for key in ("a", "a_teleport_flag", f"a_{_OBSERVATION}_sensor_data", "command_buffer"):
        path = bench.names.block(key)
        path.write_bytes(b"")  # what is mapped beyond must not be touched any more, by us neither
    world.begin_tick()
    world.finish_tick()
    world.agents.clear()


def test_seeds_are_set_by_a_command_of_the_world(bench: Any, agent: Any) -> None:
    bench.serve("toy", obs_size=5, act_size=4)
    world = bench.attach(agent("a"))
    starts = []
    for seed in (7, 7, 8):
        world.reset()
        world.world_command("SetSeeds", [seed])
        world.tick()
        starts.append(world.reset()["a"][_OBSERVATION].tobytes())
    assert starts[0] == starts[1] != starts[2]


def test_a_client_is_told_who_else_drives(bench: Any, agent: Any, caplog: pytest.LogCaptureFixture) -> None:
    from lucky_transport import api
    from lucky_transport.process import unique_name

    caplog.set_level(logging.ERROR)
    other = f"inproc://{unique_name()}"
    endpoints = [f"holodeck://{bench.names.uuid}", other]
    bench.stack.enter_context(api.serve("toy", endpoints, options={"act_size": 4}))
    with api.open_transport(other) as driver:
        driver.step(driver.actions)
        world = bench.attach(agent("a"))
        world.reset()
        assert "driven by inproc client" in caplog.text
        assert world.step([0, 0, 0, 0])[2] is True
    world.reset()
    assert world.step([0, 0, 0, 0])[2] is False


def test_an_engine_that_fails_while_it_shows_ends_the_episode_and_the_next_reset_tries_again(
    bench: Any, placed: Any, agent: Any, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench.serve(placed(1))
    world = bench.attach(agent("a"))
    world.reset()

    def break_down(_: object) -> None:
        raise ArithmeticError("the places are lost")

    with monkeypatch.context() as broken:
        broken.setattr("lucky_transport_holodeck.poses.Poses.refresh", break_down)
        for _ in range(3):
            world.tick()
    assert caplog.text.count("the places are lost") == 1
    assert world.step([0, 0, 0, 0])[1:] == (0.0, True)
    world.reset()
    assert world.step([0, 0, 0, 0])[1:] == (1.0, False)


def test_a_command_whose_handling_breaks_is_dropped_with_the_error(
    bench: Any, placed: Any, agent: Any, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    def break_down(*_: object) -> None:
        raise LookupError("no such shape")

    bench.serve(placed(1))
    world = bench.attach(agent("a"))
    with monkeypatch.context() as broken:
        broken.setattr("lucky_transport_holodeck.population.sensor_shape", break_down)
        with pytest.raises(SpecError, match="no such shape"):
            world.reset()
    world.reset()
    assert world.step([0, 0, 0, 0])[1:] == (1.0, False)

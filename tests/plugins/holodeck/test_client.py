"""Any Holodeck engine as a batch: an engine of ours that shows only the original's side stands for the real one."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("posix_ipc", reason="pip install 'lucky-transport[holodeck]'")

import lucky_transport
from lucky_transport import api
from lucky_transport.config import load_settings
from lucky_transport.deadline import Deadline
from lucky_transport.engine import HOLD, RESET
from lucky_transport.env.vector_env import VectorEnv
from lucky_transport.errors import (
    ClosedError,
    ConfigError,
    LocalProtocolError,
    NotReachable,
    PeerDied,
    PeerTimeout,
    SpecError,
    Unimplemented,
)
from lucky_transport.messages import SetSeedsRequest
from lucky_transport.messages.methods import method
from lucky_transport.testing.suite import every, open_reference, zeros
from lucky_transport.testing.trajectories import random_actions
from lucky_transport.transport import Transport
from tests.support.waiting import PATIENCE_S, until

_LASERS = {"sensor_type": "RangeFinderSensor", "configuration": {"LaserCount": 6}}
_TASK = {"sensor_type": "DistanceTask"}
_SET_SEEDS = method("BatchService/SetSeeds")


@pytest.fixture
def connect(bench: Any, tmp_path: Path) -> Any:
    """A function that connects to the bench's engine with a scenario of these agents."""

    def connect(*agents: dict[str, Any], **options: Any) -> Transport:
        path = tmp_path / "scenario.json"
        path.write_text(json.dumps({"world": "w", "agents": list(agents)}))
        query = "&".join(f"{key}={value}" for key, value in ({"pre_start_steps": 0} | options).items())
        endpoint = f"holodeck://{bench.names.uuid}?scenario={path}&{query}"
        settings = load_settings({"connect_timeout_s": 5.0})
        return bench.stack.enter_context(api.open_transport(endpoint, settings))

    return connect


def test_steps_are_bit_for_bit_those_without_a_wire(bench: Any, connect: Any, agent: Any) -> None:
    options = {"obs_size": 6, "act_size": 4, "seed": 5, "episode_steps": 10_000}
    bench.serve("toy", 2, alone=True, **options)
    client = connect(agent("a", [_LASERS, _TASK]), agent("b", [_LASERS, _TASK]))
    with open_reference("toy", 2, **options) as reference:
        generator = np.random.default_rng(0)
        frame = client.step(zeros(client), every(client, RESET))
        expected = reference.step(zeros(reference), every(reference, RESET))
        assert frame.observations.tobytes() == expected.observations.tobytes()
        assert not frame.rewards.any()
        for _ in range(200):
            actions = random_actions(reference.spec, generator)
            frame, expected = client.step(actions), reference.step(actions)
            assert frame.observations.tobytes() == expected.observations.tobytes()
            assert frame.rewards.tobytes() == expected.rewards.tobytes()
            assert frame.terminated.tolist() == expected.terminated.tolist()
            if expected.terminated.any():
                break


def test_a_scenario_becomes_a_spec(bench: Any, connect: Any, placed: Any, agent: Any) -> None:
    bench.serve(placed(2), alone=True)
    sensors = [_LASERS, {"sensor_type": "OrientationSensor", "sensor_name": "up"}, _TASK]
    spec = connect(agent("a", sensors), agent("b", sensors), ticks_per_step=3).spec
    space: Any = spec.observation_space()
    assert spec.num_envs == 2
    assert {name: box.shape for name, box in space.items()} == {"RangeFinderSensor": (6,), "up": (3, 3)}
    assert spec.action.shape == (4,)
    assert (spec.reward_terms, spec.timeout_terms) == (("DistanceTask",), ("world_reset",))
    assert spec.step_s == pytest.approx(0.1)


def test_an_action_space_is_that_of_the_control_scheme(bench: Any, connect: Any, placed: Any, agent: Any) -> None:
    bench.serve(placed(1), alone=True)
    spec = connect(agent("a", [_LASERS], control_scheme=0)).spec
    assert spec.action.high == [5.087, 6.508, 0.8, 59.844]
    assert spec.reward_terms == ("reward",)


def test_a_vector_env_steps_agents_and_resets_them_together(bench: Any, connect: Any, placed: Any, agent: Any) -> None:
    engine = placed(2)
    bench.serve(engine, alone=True)
    client = connect(agent("a"), agent("b"))
    with VectorEnv(client) as env:
        env.reset()
        actions = np.zeros((2, 4), np.float32)
        _, rewards, _, _, info = env.step(actions)
        assert rewards.tolist() == [1, 1]
        actions[1, 0] = 10
        _, _, terminated, truncated, info = env.step(actions)
        assert (terminated.tolist(), truncated.tolist()) == ([False, True], [True, False])
        assert info["termination_terms"]["world_reset"].tolist() == [1, 0]
        observations, rewards, terminated, _, _ = env.step(actions)
        assert (observations[:, 0].tolist(), rewards.tolist(), terminated.tolist()) == ([0, 0], [0, 0], [False, False])
        assert engine.resets.tolist() == [2, 2]


def test_a_step_lasts_as_many_ticks_as_wanted(bench: Any, connect: Any, placed: Any, agent: Any) -> None:
    bench.serve(placed(1), alone=True)
    client = connect(agent("a"), ticks_per_step=5)
    client.step(zeros(client), every(client, RESET))
    assert [client.step(zeros(client)).observations[0, 0] for _ in range(3)] == [5, 10, 15]


def test_what_a_shared_world_cannot_do_is_refused_before_anything_is_sent(
    bench: Any, connect: Any, placed: Any, agent: Any
) -> None:
    bench.serve(placed(2), alone=True)
    client = connect(agent("a"), agent("b"))
    with pytest.raises(LocalProtocolError, match="before the first reset"):
        client.step(zeros(client))
    client.step(zeros(client), every(client, RESET))
    with pytest.raises(LocalProtocolError, match=r"envs \[1\] of 2 cannot be reset by themselves"):
        client.step(zeros(client), np.array([0, RESET], np.uint8))
    with pytest.raises(LocalProtocolError, match="cannot hold"):
        client.step(zeros(client), every(client, HOLD))
    with pytest.raises(Unimplemented, match="SetSeeds"):
        client.call(_SET_SEEDS, SetSeedsRequest([1, 2]))
    assert client.step(zeros(client)).observations[:, 0].tolist() == [1, 1]


def test_agents_that_differ_are_no_batch(bench: Any, connect: Any, placed: Any, agent: Any) -> None:
    bench.serve(placed(2), alone=True)
    with pytest.raises(SpecError, match="'a' and 'b' differ"):
        connect(agent("a"), agent("b", [_TASK]))
    with pytest.raises(SpecError, match="no sensor to observe with"):
        connect(agent("a", [_TASK]))
    with pytest.raises(SpecError, match="no agents"):
        connect()


def test_an_engine_needs_a_scenario_and_one_of_ours_is_reached_over_shm(bench: Any, placed: Any) -> None:
    bench.serve(placed(1))
    for connect in (lucky_transport.connect, lambda endpoint: lucky_transport.make(endpoint=endpoint)):
        with pytest.raises(ConfigError, match=r"needs a scenario; .* an engine of ours at shm://"):
            connect(f"holodeck://{bench.names.uuid}")
    with pytest.raises(ConfigError, match=r"'holodeck' cannot start an engine by itself; .*shm"):
        lucky_transport.make("toy", transport="holodeck")


def test_without_an_engine_nothing_is_reachable(bench: Any, tmp_path: Path) -> None:
    path = tmp_path / "scenario.json"
    path.write_text(json.dumps({"agents": [{"agent_type": "UavAgent", "sensors": [_LASERS]}]}))
    with pytest.raises(NotReachable, match="start it, check the uuid"):
        api.open_transport(f"holodeck://{bench.names.uuid}?scenario={path}", load_settings({"connect_timeout_s": 0.05}))


def test_the_first_reset_refuses_what_the_engine_does_not_have_and_the_client_stays_usable(
    bench: Any, placed: Any, connect: Any, agent: Any
) -> None:
    bench.serve(placed(1))
    client = connect(agent("a"), agent("b"))
    for _ in range(2):
        with pytest.raises(SpecError, match="agent 'b' has no env: the engine has 1"):
            client.step(zeros(client), every(client, RESET))
    with pytest.raises(LocalProtocolError, match="before the first reset"):
        client.step(zeros(client))


def test_an_engine_that_does_not_answer_at_connect_names_connecting_as_the_remedy(
    bench: Any, agent: Any, tmp_path: Path
) -> None:
    from lucky_transport_holodeck.blocks import BlockFiles
    from lucky_transport_holodeck.handshake import EngineHandshake

    silent = EngineHandshake(bench.names, "block")
    bench.stack.callback(silent.close)
    bench.stack.callback(BlockFiles(bench.names).unlink)
    path = tmp_path / "scenario.json"
    path.write_text(json.dumps({"agents": [agent("a")]}))
    with pytest.raises(PeerTimeout, match="connect again") as refused:
        api.open_transport(f"holodeck://{bench.names.uuid}?scenario={path}", load_settings({"connect_timeout_s": 0.05}))
    assert "recv" not in str(refused.value)


def test_the_pages_scenario_and_program_run_as_they_stand(
    bench: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import lucky_transport_holodeck

    page = (Path(lucky_transport_holodeck.__file__).with_name("README.md")).read_text(encoding="utf-8")
    scenario, program = (page.partition(f"```{kind}\n")[2].partition("```")[0] for kind in ("json", "python"))
    bench.serve("toy", act_size=4)
    monkeypatch.chdir(tmp_path)
    Path("S.json").write_text(scenario)
    assert "holodeck://demo" in program
    names: dict[str, Any] = {}
    exec(program.replace("holodeck://demo", f"holodeck://{bench.names.uuid}"), names)
    assert names["observations"].shape == (1, 8)


@pytest.mark.parametrize(
    "query", ["scenari=x", "ticks_per_step=0", "ticks_per_step=x", "scenario=/nowhere/x.json", "pre_start_steps=-1"]
)
def test_wrong_options_are_named(bench: Any, placed: Any, query: str) -> None:
    bench.serve(placed(1), alone=True)
    with pytest.raises(ConfigError, match=query.partition("=")[0]):
        api.open_transport(f"holodeck://{bench.names.uuid}?{query}")


@pytest.mark.parametrize(
    ("agents", "why"),
    [
        ([{"agent_name": "a"}], "agent_type"),
        ([{"agent_type": "Dragon", "sensors": []}], "Dragon"),
        ([{"agent_type": "UavAgent", "sensors": [{"sensor_type": "Nose"}]}], "Nose"),
        ([{"agent_type": "UavAgent", "sensors": [{"sensor_type": "PressureSensor"}]}], "PressureSensor"),
        (
            [
                {
                    "agent_type": "UavAgent",
                    "sensors": [{"sensor_type": "RGBCamera", "configuration": {"CaptureWidth": "w"}}],
                }
            ],
            "RGBCamera",
        ),
        ([{"agent_type": "UavAgent", "sensors": [], "location": [1]}], "unpack"),
    ],
)
def test_what_is_wrong_in_a_scenario_is_named(connect: Any, bench: Any, placed: Any, agents: Any, why: str) -> None:
    bench.serve(placed(1), alone=True)
    with pytest.raises((ConfigError, SpecError), match=why):
        connect(*agents)


def test_a_place_where_no_package_can_be_written_is_named(tmp_path: Path) -> None:
    from click.testing import CliRunner

    from lucky_transport_holodeck.export import export_holodeck

    (tmp_path / "file").touch()
    place = tmp_path / "file" / "worlds"
    ran = CliRunner().invoke(export_holodeck, ["toy", str(place)])
    assert (ran.exit_code, ran.output) == (1, f"Error: the package cannot be written into {place}: Not a directory\n")


def test_an_engine_is_started_and_ended_with_its_client(bench: Any, tmp_path: Path) -> None:
    from click.testing import CliRunner

    from lucky_transport_holodeck.export import export_holodeck

    ran = CliRunner().invoke(export_holodeck, ["toy", str(tmp_path), "--num-envs", "2"])
    assert ran.output == "toy-Batch\n", ran.output
    folder = tmp_path / "lucky_toy"
    endpoint = f"holodeck://{bench.names.uuid}?scenario={folder}/toy-Batch.json&binary={folder}/engine.sh"
    with lucky_transport.make(endpoint=endpoint + "&pre_start_steps=0") as env:
        assert env.num_envs == 2
        observations, _ = env.reset()
        assert observations.shape == (2, 8)
        env.step(np.zeros((2, 2), np.float32))
    assert bench.leftovers() == []


_SHORT_LIVED = """\
#!{python}
import posix_ipc, sys
uuid = next(each.partition("=")[2] for each in sys.argv if each.startswith("--HolodeckUUID="))
posix_ipc.Semaphore("/HOLODECK_SEMAPHORE_SERVER" + uuid, posix_ipc.O_CREX, initial_value=1)
posix_ipc.Semaphore("/HOLODECK_SEMAPHORE_CLIENT" + uuid, posix_ipc.O_CREX, initial_value=0)
posix_ipc.Semaphore("/HOLODECK_LOADING_SEM" + uuid).release()
"""


def test_an_engine_that_ends_as_soon_as_it_is_there_leaves_nothing_behind(bench: Any, tmp_path: Path) -> None:
    binary = tmp_path / "engine"
    binary.write_text(_SHORT_LIVED.format(python=sys.executable))
    binary.chmod(0o755)
    scenario = tmp_path / "scenario.json"
    scenario.write_text(json.dumps({"agents": [{"agent_type": "UavAgent", "sensors": [_LASERS]}]}))
    with pytest.raises(PeerDied, match="exit status 0"):
        api.open_transport(f"holodeck://{bench.names.uuid}?scenario={scenario}&binary={binary}")
    assert bench.leftovers() == []


_SILENT = """
import posix_ipc, sys, time
server = posix_ipc.Semaphore("/HOLODECK_SEMAPHORE_SERVER" + sys.argv[1], posix_ipc.O_CREX, initial_value=1)
client = posix_ipc.Semaphore("/HOLODECK_SEMAPHORE_CLIENT" + sys.argv[1], posix_ipc.O_CREX, initial_value=0)
print("there", flush=True)
time.sleep(60)
"""


def test_an_engine_that_is_killed_while_a_client_attaches_leaves_nothing_behind(bench: Any, agent: Any) -> None:
    command = [sys.executable, "-c", _SILENT, bench.names.uuid]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as engine:
        assert engine.stdout is not None
        assert engine.stdout.readline() == b"there\n"

        def kill_when_attached() -> None:
            until(bench.names.block("RESET").exists)
            engine.kill()

        killer = threading.Thread(target=kill_when_attached)
        killer.start()
        with pytest.raises(PeerDied, match="ended"):
            bench.attach(agent("a"))
        killer.join()
    assert bench.leftovers() == []


def test_an_engine_that_ends_before_it_is_there_is_told_with_its_exit_report(bench: Any, tmp_path: Path) -> None:
    binary = tmp_path / "engine"
    binary.write_text("#!/bin/sh\necho no display >&2\nexit 3\n")
    binary.chmod(0o755)
    scenario = tmp_path / "scenario.json"
    scenario.write_text(json.dumps({"agents": [{"agent_type": "UavAgent", "sensors": [_LASERS]}]}))
    for path, why in ((binary, "exit status 3\n  no display"), (tmp_path / "nothing", "cannot be started")):
        with pytest.raises(NotReachable, match=why):
            api.open_transport(f"holodeck://{bench.names.uuid}?scenario={scenario}&binary={path}")


# misuse and the end


def test_invalid_use_is_refused_and_does_no_harm(bench: Any, connect: Any, placed: Any, agent: Any) -> None:
    bench.serve(placed(1))
    client = connect(agent("a"))
    client.step(zeros(client), every(client, RESET))
    invalid: dict[str, Any] = {
        "recv without send": (LocalProtocolError, client.recv),
        "one value too many": (ValueError, lambda: client.step(np.zeros((1, 5), np.float32))),
        "NaN": (ValueError, lambda: client.step(np.full((1, 4), np.nan, np.float32))),
        "control of another type": (ValueError, lambda: client.step(zeros(client), np.zeros(1, np.int64))),
    }
    for count, (name, (error, call)) in enumerate(invalid.items(), 1):
        with pytest.raises(error):
            call()
        assert client.step(zeros(client)).observations[0, 0] == count, name
    client.send(zeros(client))
    with pytest.raises(LocalProtocolError):
        client.send(zeros(client))
    assert client.recv().observations[0, 0] == len(invalid) + 1


def test_a_killed_engine_is_an_error_for_its_client_again_and_again(bench: Any, connect: Any, agent: Any) -> None:
    engine = bench.spawn(act_size=4)
    with connect(agent("a")) as client:
        client.step(zeros(client), every(client, RESET))
        engine.kill()
        for _ in range(2):
            with pytest.raises(PeerDied):
                client.step(zeros(client))
    engine.stop()
    assert bench.leftovers() == []


def _use(client: Transport, name: str) -> None:
    if name == "send":
        client.send(zeros(client))
    elif name == "recv":
        client.recv()
    else:
        client.call(_SET_SEEDS, SetSeedsRequest([1]))


def test_a_closed_client_is_refused_and_the_engine_serves_the_next_one(
    bench: Any, connect: Any, placed: Any, agent: Any
) -> None:
    bench.serve(placed(1))
    for _ in range(2):
        client = connect(agent("a"))
        frame = client.step(zeros(client), every(client, RESET))
        client.close()
        client.close()
        assert not frame.observations.any()
        for name in ("send", "recv", "call"):
            with pytest.raises(ClosedError):
                _use(client, name)


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_a_forked_child_is_refused_and_its_parent_goes_on(bench: Any, connect: Any, placed: Any, agent: Any) -> None:
    bench.serve(placed(1))
    client = connect(agent("a"))
    client.step(zeros(client), every(client, RESET))
    pid = os.fork()
    if pid == 0:
        try:
            client.send(zeros(client))
        except ClosedError:
            client.close()
            os._exit(0)
        finally:
            os._exit(1)
    assert os.waitpid(pid, 0)[1] == 0
    assert client.step(zeros(client)).observations[0, 0] == 1


def test_two_agents_of_one_name_are_refused_as_the_scenario_is_read(bench: Any, connect: Any, agent: Any) -> None:
    with pytest.raises(SpecError, match="2 agents are called 'a'; rename one"):
        connect(agent("a"), agent("b"), agent("a"))


def test_a_reset_that_cannot_be_sent_leaves_the_client_usable(
    bench: Any, placed: Any, connect: Any, agent: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench.serve(placed(1))
    client = connect(agent("a"))
    client.step(zeros(client), every(client, RESET))
    with monkeypatch.context() as small:
        small.setattr("lucky_transport_holodeck.commands.BUFFER_BYTES", 10)
        for _ in range(2):
            with pytest.raises(SpecError, match="for a block of 10; send fewer commands"):
                client.step(zeros(client), every(client, RESET))
            with pytest.raises(LocalProtocolError, match="before the first reset"):
                client.step(zeros(client))
    client.step(zeros(client), every(client, RESET))
    assert client.step(zeros(client)).observations[:, 0].tolist() == [1]


def test_a_reset_that_is_interrupted_leaves_the_client_usable(
    bench: Any, placed: Any, connect: Any, agent: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def break_down(*_: object) -> None:
        raise KeyboardInterrupt

    bench.serve(placed(1))
    client = connect(agent("a"))
    with monkeypatch.context() as broken:
        broken.setattr("lucky_transport_holodeck.scenario.AgentPlan.start", break_down)
        with pytest.raises(KeyboardInterrupt):
            client.step(zeros(client), every(client, RESET))
    client.step(zeros(client), every(client, RESET))
    assert client.step(zeros(client)).observations[:, 0].tolist() == [1]


def test_a_tick_that_was_given_up_is_waited_for_before_the_next_one(bench: Any, placed: Any, agent: Any) -> None:
    engine = placed(1)
    step, stands, go = engine.step, threading.Event(), threading.Event()

    def stand(control: Any) -> None:
        stands.set()
        assert go.wait(PATIENCE_S)
        step(control)

    engine.step = stand
    go.set()
    bench.serve(engine)
    world = bench.attach(agent("a"))
    world.reset()
    stands.clear()
    go.clear()
    world.begin_tick()
    assert stands.wait(PATIENCE_S)
    with pytest.raises(PeerTimeout):
        world.finish_tick(Deadline(0.01))
    go.set()
    until(lambda: world._handshake._client.value)  # it has ended meanwhile
    go.clear()
    world.begin_tick()
    with pytest.raises(PeerTimeout):
        world.finish_tick(Deadline(0.01))
    go.set()
    assert [world.tick()["a"]["RangeFinderSensor"][0] for _ in range(3)] == [3, 4, 5]

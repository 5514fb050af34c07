"""A client whose engine starts, ends, dies or hangs, or that is used wrongly: an error, and nothing left behind."""

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
from lucky_transport.deadline import Deadline
from lucky_transport.engine import RESET
from lucky_transport.errors import (
    ClosedError,
    LocalProtocolError,
    NotReachable,
    PeerDied,
    PeerTimeout,
    SpecError,
)
from lucky_transport.messages import SetSeedsRequest
from lucky_transport.messages.methods import method
from lucky_transport.testing.suite import every, zeros
from lucky_transport.transport import Transport
from tests.support.fixtures.plugins_holodeck import LASERS
from tests.support.waiting import PATIENCE_S, until

_SET_SEEDS = method("BatchService/SetSeeds")


@pytest.mark.exhaustive
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
    scenario.write_text(json.dumps({"agents": [{"agent_type": "UavAgent", "sensors": [LASERS]}]}))
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
    scenario.write_text(json.dumps({"agents": [{"agent_type": "UavAgent", "sensors": [LASERS]}]}))
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


@pytest.mark.exhaustive
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

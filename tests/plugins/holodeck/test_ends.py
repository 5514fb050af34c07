"""Clients and engines come, end, die or hang, in order or not: the other gets an error, or goes on with the next."""

import os
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

pytest.importorskip("posix_ipc", reason="pip install 'lucky-transport[holodeck]'")

import lucky_transport
from lucky_transport.deadline import Deadline
from lucky_transport.errors import Busy, NotReachable, PeerDied, PeerTimeout
from lucky_transport.testing.suite import zeros
from lucky_transport_holodeck import semaphores
from lucky_transport_holodeck.blocks import BlockFiles
from lucky_transport_holodeck.export import export_holodeck
from lucky_transport_holodeck.handshake import EngineHandshake
from lucky_transport_holodeck.names import Names
from lucky_transport_holodeck.server import ForeignClient
from tests.plugins.holodeck.conftest import Bench, PlacedEngine, an_agent
from tests.support.sleeps import wakers
from tests.support.waiting import PATIENCE_S, beside, until

pytestmark = pytest.mark.usefixtures("forked_engines")

_STILL = [0, 0, 0, 0]


def check_fresh_client(bench: Bench) -> None:
    """Attach a client, which finds the engine ready for it, and leave."""
    with bench.attach(an_agent("a")) as world:
        world.reset()
        assert [world.step(_STILL)[1] for _ in range(3)] == [1.0, 2.0, 3.0]


# clients that end


def test_a_client_that_was_dropped_without_a_goodbye_hinders_nobody(bench: Bench) -> None:
    """In the original the next one waits without end: the last one has taken the turn with it."""
    bench.drive()  # it stays open until the end of the test
    for _ in range(3):
        check_fresh_client(bench)


def test_a_client_that_leaves_as_the_original_does_finds_the_engine_again(bench: Bench) -> None:
    """The original removes the semaphores and all its blocks."""
    bench.serve(PlacedEngine())
    for _ in range(2):
        bench.attach(an_agent("a")).reset()
        file = bench.names.file_of(bench.names.server)
        number = os.stat(file).st_ino
        for name in (bench.names.server, bench.names.client):
            semaphores.unlink(name)
        for path in bench.leftovers():
            if "sem." not in path:
                os.unlink(f"/dev/shm/{path}")

        def is_new(number: int = number, file: Path = file) -> bool:
            return file.exists() and os.stat(file).st_ino != number

        until(is_new)
    check_fresh_client(bench)


#: A client of the original's kind, in a process of its own: it resets, says so, and then waits to be killed.
_CLIENT = """
import sys, time
from lucky_transport.config import load_settings
from lucky_transport_holodeck.names import Names
from lucky_transport_holodeck.scenario import read_scenario
from lucky_transport_holodeck.world_client import WorldClient
task = {"sensor_type": "DistanceTask"}
agent = {"agent_name": "a", "agent_type": "UavAgent", "sensors": [task]}
world = WorldClient.attach(Names(sys.argv[1]), read_scenario({"agents": [agent]}), load_settings({}))
world.reset()
if sys.argv[2] == "ticking":
    world.begin_tick()
print("there", flush=True)
time.sleep(60)
"""


@pytest.mark.exhaustive
@pytest.mark.parametrize("doing", ["waiting", "ticking"])
def test_a_killed_client_leaves_the_engine_to_the_next_one(bench: Bench, doing: str) -> None:
    bench.serve(PlacedEngine())
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, "-c", _CLIENT, bench.names.uuid, doing]
    with subprocess.Popen(command, stdout=subprocess.PIPE, env=environment) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"there\n"
        [watch] = [each for each in threading.enumerate() if each.name == f"holodeck watch {bench.names.uuid}"]
        until(lambda: "pidfd" in wakers(watch))
        process.send_signal(signal.SIGKILL)
        process.wait(PATIENCE_S)
    check_fresh_client(bench)


@pytest.mark.parametrize("broken", ["tick", "poll"])
def test_a_client_for_which_the_server_breaks_is_answered_and_so_is_the_next_one(
    bench: Bench, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch, broken: str
) -> None:
    def break_down(_: object) -> None:
        raise ArithmeticError("the server broke")

    bench.serve(PlacedEngine())
    with bench.attach(an_agent("a")) as world, monkeypatch.context() as breaking:
        breaking.setattr(ForeignClient, broken, break_down)
        for _ in range(2):
            world.begin_tick()
            world.finish_tick()
        os.utime(bench.names.file_of(bench.names.server))  # so that it looks
        until(lambda: broken == "tick" or caplog.text)
    assert caplog.text.count("ArithmeticError: the server broke") == 1
    check_fresh_client(bench)


# engines that end


def test_many_engines_run_side_by_side(bench: Bench) -> None:
    first = bench.names
    worlds = []
    for number in range(4):
        bench.names = Names(f"{first.uuid}-{number}")
        worlds.append(bench.drive())
    bench.names = first
    for number, world in enumerate(worlds):
        world.tick(number + 1)
    assert [int(world.state()["a"]["DistanceTask"][0]) for world in worlds] == [1, 2, 3, 4]


def test_an_engine_in_another_process_keeps_its_uuid(bench: Bench) -> None:
    engine = bench.spawn(alone=True)
    with pytest.raises(Busy, match=f"in use by process {engine.pid}"):
        bench.serve("toy", alone=True)
    assert engine.stop() == 0


@pytest.mark.parametrize("end", ["killed while it hangs", "killed between ticks", "stopped"])
def test_an_engine_that_ends_is_an_error_and_a_new_one_starts_in_its_place(bench: Bench, end: str) -> None:
    engine = bench.spawn(act_size=4, hang_at=3)  # a reset, a tick, and then none any more
    with bench.attach(an_agent("a")) as world:
        world.reset()
        world.tick()
        if end == "stopped":
            assert engine.stop() == 0
        else:
            if end == "killed while it hangs":
                world.begin_tick()
                with pytest.raises(PeerTimeout, match=r"0\.1 s"):
                    world.finish_tick(Deadline(0.1))
            engine.kill()
        for _ in range(2):
            with pytest.raises(PeerDied, match="ended"):
                world.tick()
    engine.stop()
    assert bench.leftovers() == []  # the client that saw it die has cleaned up
    again = bench.spawn(act_size=4)
    with bench.attach(an_agent("a")) as world:
        assert world.reset()["a"]["RangeFinderSensor"].any()
    assert again.stop() == 0


def test_a_killed_engine_is_an_error_for_a_batch_and_one_that_no_client_saw_die_is_replaced(bench: Bench) -> None:
    for _ in range(2):
        bench.spawn().kill()
    engine = bench.spawn(act_size=4)
    with bench.connect(an_agent("a")) as client:
        client.step(zeros(client), np.ones(1, np.uint8))
        engine.kill()
        for _ in range(2):
            with pytest.raises(PeerDied):
                client.step(zeros(client))


def test_a_tick_that_was_given_up_is_waited_for_before_the_next_one(bench: Bench) -> None:
    engine = PlacedEngine()
    step, stands, go = engine.step, threading.Event(), threading.Event()

    def stand(control: Any) -> None:
        stands.set()
        assert go.wait(PATIENCE_S)
        step(control)

    engine.step = stand
    go.set()
    world: Any = bench.drive(engine=engine)
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


# engines that a client starts


@pytest.mark.exhaustive
def test_an_engine_is_started_and_ended_with_its_client(bench: Bench, tmp_path: Path) -> None:
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
#: What a client starts -> the words of its error.
_STARTS = {
    _SHORT_LIVED.format(python=sys.executable): (PeerDied, "exit status 0"),
    "#!/bin/sh\necho no display >&2\nexit 3\n": (NotReachable, "exit status 3\n  no display"),
    "": (NotReachable, "cannot be started"),
}


@pytest.mark.parametrize("program", _STARTS, ids=["short-lived", "fails", "is none"])
def test_an_engine_that_ends_as_it_is_started_is_told_and_leaves_nothing_behind(
    bench: Bench, tmp_path: Path, program: str
) -> None:
    binary = tmp_path / "engine"
    if program:
        binary.write_text(program)
        binary.chmod(0o755)
    error, words = _STARTS[program]
    with pytest.raises(error, match=words):
        bench.connect(an_agent("a"), binary=binary)


def test_an_engine_that_never_loads_is_given_up_and_ended(
    bench: Bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LUCKY_START_TIMEOUT_S", "0.2")
    binary, children = tmp_path / "engine", Path(f"/proc/self/task/{os.getpid()}/children")
    binary.write_text("#!/bin/sh\nexec sleep 600\n")
    binary.chmod(0o755)
    before = children.read_text()
    with pytest.raises(NotReachable, match=r"was not ready within 0\.2 s; raise start_timeout_s, or run it by hand"):
        bench.connect(an_agent("a"), binary=binary)
    assert children.read_text() == before


_SILENT = """
import posix_ipc, sys, time
server = posix_ipc.Semaphore("/HOLODECK_SEMAPHORE_SERVER" + sys.argv[1], posix_ipc.O_CREX, initial_value=1)
client = posix_ipc.Semaphore("/HOLODECK_SEMAPHORE_CLIENT" + sys.argv[1], posix_ipc.O_CREX, initial_value=0)
print("there", flush=True)
time.sleep(60)
"""


def test_an_engine_that_is_killed_while_a_client_attaches_leaves_nothing_behind(bench: Bench) -> None:
    with subprocess.Popen([sys.executable, "-c", _SILENT, bench.names.uuid], stdout=subprocess.PIPE) as engine:
        assert engine.stdout is not None
        assert engine.stdout.readline() == b"there\n"

        def kill_when_attached() -> None:
            until(bench.names.block("RESET").exists)
            engine.kill()

        with beside(kill_when_attached), pytest.raises(PeerDied, match="ended"):
            bench.attach(an_agent("a"))


def test_an_engine_that_does_not_answer_at_connect_names_connecting_as_the_remedy(bench: Bench) -> None:
    silent = EngineHandshake(bench.names, "block")
    bench.stack.callback(silent.close)
    bench.stack.callback(BlockFiles(bench.names).unlink)
    with pytest.raises(PeerTimeout, match="connect again") as refused:
        bench.connect(an_agent("a"), timeout_s=0.05)
    assert "recv" not in str(refused.value)


def test_without_an_engine_nothing_is_reachable(bench: Bench) -> None:
    with pytest.raises(NotReachable, match="start it, check the uuid"):
        bench.connect(an_agent("a"), timeout_s=0.05)

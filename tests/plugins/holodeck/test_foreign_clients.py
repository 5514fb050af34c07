"""Clients come and go, in order or not, and each finds the engine ready for it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from typing import Any

import pytest

from tests.support.sleeps import wakers
from tests.support.waiting import until

pytest.importorskip("posix_ipc", reason="pip install 'lucky-transport[holodeck]'")

from lucky_transport.deadline import Deadline
from lucky_transport.errors import Busy, PeerDied, PeerTimeout
from lucky_transport.testing.suite import PATIENCE_S
from lucky_transport_holodeck import semaphores
from lucky_transport_holodeck.foreign_client import ForeignClient

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


def test_one_client_after_the_other_attaches_to_a_running_engine(bench: Any, placed: Any, agent: Any) -> None:
    bench.serve(placed(1))
    for _ in range(3):
        world = bench.attach(agent("a"))
        world.reset()
        assert world.step([0, 0, 0, 0])[1] == 1.0
        world.close()


def test_a_client_that_was_dropped_without_a_goodbye_hinders_nobody(bench: Any, placed: Any, agent: Any) -> None:
    """In the original the next one waits without end: the last one has taken the turn with it."""
    bench.serve(placed(1))
    dropped = bench.attach(agent("a"))
    dropped.reset()
    world = bench.attach(agent("a"))
    world.reset()
    assert [world.step([0, 0, 0, 0])[1] for _ in range(3)] == [1.0, 2.0, 3.0]


def test_a_client_that_leaves_as_the_original_does_finds_the_engine_again(bench: Any, placed: Any, agent: Any) -> None:
    """The original removes the semaphores and all its blocks."""
    bench.serve(placed(1))
    for _ in range(2):
        leaving = bench.attach(agent("a"))
        leaving.reset()
        number = os.stat(leaving_file := bench.names.file_of(bench.names.server)).st_ino
        for name in (bench.names.server, bench.names.client):
            semaphores.unlink(name)
        for path in bench.leftovers():
            if "sem." not in path:
                os.unlink(f"/dev/shm/{path}")

        def is_new(number: int = number, file: Any = leaving_file) -> bool:
            return file.exists() and os.stat(file).st_ino != number

        until(is_new)
    world = bench.attach(agent("a"))
    world.reset()
    assert world.step([0, 0, 0, 0])[1] == 1.0


@pytest.mark.exhaustive
@pytest.mark.parametrize("doing", ["waiting", "ticking"])
def test_a_killed_client_leaves_the_engine_to_the_next_one(bench: Any, placed: Any, agent: Any, doing: str) -> None:
    bench.serve(placed(1))
    process = subprocess.Popen(
        [sys.executable, "-c", _CLIENT, bench.names.uuid, doing],
        stdout=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    with process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"there\n"
        [watch] = [each for each in threading.enumerate() if each.name == f"holodeck watch {bench.names.uuid}"]
        until(lambda: "pidfd" in wakers(watch))
        process.send_signal(signal.SIGKILL)
        process.wait(PATIENCE_S)
    world = bench.attach(agent("a"))
    world.reset()
    assert [world.step([0, 0, 0, 0])[1] for _ in range(3)] == [1.0, 2.0, 3.0]


@pytest.mark.exhaustive
def test_an_engine_in_another_process_keeps_its_uuid(bench: Any) -> None:
    engine = bench.spawn(alone=True)
    with pytest.raises(Busy, match=f"in use by process {engine.pid}"):
        bench.serve("toy", alone=True)
    assert engine.stop() == 0


@pytest.mark.exhaustive
def test_an_engine_that_hangs_or_dies_ends_the_wait(bench: Any, agent: Any) -> None:
    engine = bench.spawn(alone=True, act_size=4, hang_at=4)  # a reset, two ticks, and then none any more
    with bench.attach(agent("a")) as world:
        world.reset()
        world.tick(2)
        world.begin_tick()
        with pytest.raises(PeerTimeout, match=r"0\.1 s"):
            world.finish_tick(Deadline(0.1))
        engine.kill()
        with pytest.raises(PeerDied, match=f"pid {engine.pid}"):
            world.finish_tick()
    engine.stop()
    assert bench.leftovers() == []  # the client that saw it die has cleaned up


def test_many_engines_run_side_by_side(bench: Any, placed: Any, agent: Any) -> None:
    from lucky_transport_holodeck.names import Names

    first = bench.names
    for number in range(4):
        bench.names = Names(f"{first.uuid}-{number}")
        bench.serve(placed(1))
    worlds = []
    for number in range(4):
        bench.names = Names(f"{first.uuid}-{number}")
        worlds.append(bench.attach(agent("a")))
    bench.names = first
    for world in worlds:
        world.reset()
    for number, world in enumerate(worlds):
        world.tick(number + 1)
    assert [int(world.state()["a"]["DistanceTask"][0]) for world in worlds] == [1, 2, 3, 4]


@pytest.mark.parametrize("broken", ["tick", "poll"])
def test_a_client_for_which_the_server_breaks_is_answered_and_so_is_the_next_one(
    bench: Any, placed: Any, agent: Any, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch, broken: str
) -> None:
    def break_down(_: object) -> None:
        raise ArithmeticError("the server broke")

    bench.serve(placed(1))
    with bench.attach(agent("a")) as world, monkeypatch.context() as breaking:
        breaking.setattr(ForeignClient, broken, break_down)
        world.begin_tick()
        world.finish_tick()
        world.begin_tick()
        world.finish_tick()
        os.utime(bench.names.file_of(bench.names.server))  # so that it looks
        until(lambda: broken == "tick" or caplog.text)
    assert caplog.text.count("ArithmeticError: the server broke") == 1
    with bench.attach(agent("a")) as world:
        world.reset()
        assert world.step([0, 0, 0, 0])[1:] == (1.0, False)

"""The sides of the suite of systems, each run for real for a moment; what they left behind is looked for."""

from __future__ import annotations

import importlib.util
import itertools
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Generator, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from lucky_transport.engines.cartpole import CartPoleCommand, CartPoleWorld
from lucky_transport.errors import PeerDied, RemoteProtocolError
from lucky_transport_migration.bench.rows import typical_us
from lucky_transport_migration.bench.suites.systems import SystemSetup, plan_of_systems
from lucky_transport_migration.bench.workloads.systems import bench, library, pause, sessions
from lucky_transport_migration.bench.workloads.systems.cores import two_cores
from lucky_transport_migration.bench.workloads.systems.pause import measure_pause
from lucky_transport_migration.bench.workloads.systems.pipe import TICKS, balance, play_queue
from lucky_transport_migration.bench.workloads.systems.session_variants import SessionVariant
from tests.support.waiting import until_none_left

PLAN = plan_of_systems(("grpc", "shm"), None, rounds=1, quick=True)

needs_compiler = pytest.mark.skipif(library.compiler() is None, reason="no C compiler; apt install gcc libc6-dev")


def _needs(package: str, extra: str) -> Any:
    missing = importlib.util.find_spec(package) is None
    return pytest.mark.skipif(missing, reason=f"{package} is not installed: pip install 'lucky-transport[{extra}]'")


SIDES = [
    pytest.param(SystemSetup("libenv", "shm", "adaptive"), marks=needs_compiler),
    pytest.param(SystemSetup("libenv", "direct", None), marks=needs_compiler),
    pytest.param(SystemSetup("holodeck", "holodeck", None), marks=_needs("posix_ipc", "holodeck")),
    pytest.param(SystemSetup("holodeck", "semaphores", None), marks=_needs("posix_ipc", "holodeck")),
    SystemSetup("sessions", "shm", "adaptive"),
    pytest.param(SystemSetup("sessions", "openra", None), marks=_needs("grpc", "openra")),
    SystemSetup("sessions", "inproc", None),
    SystemSetup("pipe", "pipe", None),
    SystemSetup("pipe", "unix-socket", None),
]


def _shared_files() -> Iterator[Path]:
    return Path("/dev/shm").glob(f"*lucky_{os.getpid()}_*")


@pytest.fixture(autouse=True)
def _nothing_is_left() -> Generator[None]:
    before, shared = set(threading.enumerate()), set(_shared_files())
    yield
    until_none_left(lambda: set(threading.enumerate()) - before)
    assert set(_shared_files()) <= shared


@pytest.mark.parametrize("setup", SIDES, ids=str)
def test_a_side_measures_every_cell_of_its_setup(setup: SystemSetup) -> None:
    found = bench.measure_setup(setup, PLAN)
    assert list(found) == setup.cells()
    assert all(typical_us(one) > 0 for one in found.values())


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="one core only")
def test_two_processes_have_a_core_each_and_get_all_of_them_back() -> None:
    usable = os.sched_getaffinity(0)
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as other:
        with two_cores(other.pid):
            ours, theirs = os.sched_getaffinity(0), os.sched_getaffinity(other.pid)
            assert len(ours) == len(theirs) == 1
            assert ours != theirs
        assert os.sched_getaffinity(0) == os.sched_getaffinity(other.pid) == usable


# what is checked while it is timed


@needs_compiler
def test_a_library_that_lost_a_step_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    step = library.DirectLibrary.step

    def forgetful(self: library.DirectLibrary, actions: Any) -> None:
        if self.observations[0, 0] != 5:
            step(self, actions)

    monkeypatch.setattr(library.DirectLibrary, "step", forgetful)
    with pytest.raises(RemoteProtocolError, match=r"5 acts for \d+ steps"):
        bench.measure_setup(SystemSetup("libenv", "direct", None), PLAN)


@needs_compiler
def test_the_library_gets_the_actions_and_shows_what_they_did() -> None:
    with library.compiled() as path, library.DirectLibrary(path, 3) as points:
        points.step(np.full((3, 4), 2.0, np.float32))
        assert points.observations[:, :6].tolist() == [[1.0, 2.0, 2.0, 2.0, 2.0, 0.0]] * 3


@pytest.mark.skipif(importlib.util.find_spec("posix_ipc") is None, reason="posix_ipc is not installed")
def test_a_bare_pair_whose_other_process_died_ends_in_time(monkeypatch: pytest.MonkeyPatch) -> None:
    from lucky_transport_migration.bench.workloads.systems import semaphores

    with semaphores.SemaphorePair() as pair:
        monkeypatch.setattr(semaphores, "PATIENCE_S", 0.2)
        os.kill(pair.pid, signal.SIGKILL)
        with pytest.raises(PeerDied, match=r"no turn came back within 0\.2 s"):
            _step_often(pair)


def _step_often(pair: Any) -> None:
    """Take turns; one that was given before the other process died may still come back."""
    for _ in range(100):
        pair.step(None)


@dataclass
class Scripted:
    """Sessions that do as told: `advance` goes to the next of `ticks`."""

    ticks: Iterator[int] = field(default_factory=lambda: iter(range(1_000_000)))
    newest: Iterator[int] = field(default_factory=lambda: iter((0,)))
    worlds: Any = None

    def create(self, *given: Any) -> str:
        return "a"

    def advance(self, session: str, ticks: int = 1, *given: Any) -> Any:
        return _Seen(next(self.ticks), ticks)

    def state(self, session: str) -> Any:
        return _Seen(next(self.newest))

    def run(self, *given: Any) -> None: ...

    def destroy(self, session: str) -> None: ...


@dataclass
class _Seen:
    ticks: int
    ticks_done: int = 0


def _way(script: Scripted, looks: Iterator[int]) -> SessionVariant:
    return SessionVariant(script, lambda session: lambda after: _Seen(next(looks)))  # type: ignore[arg-type, return-value]


def test_an_advance_of_another_tick_ends_the_measurement() -> None:
    script = Scripted(ticks=iter([0, 1, 2, 4, 5, 6]))
    with pytest.raises(RemoteProtocolError, match="an exchange was lost or doubled"):
        sessions._measure_advance(_way(script, iter(())), 1, PLAN.effort)  # pyright: ignore[reportPrivateUsage]


def test_sessions_that_run_freely_are_given_time_to_move_on_a_busy_machine() -> None:
    way = _way(Scripted(newest=iter((7, 7, 7, 9))), itertools.repeat(7))
    assert sessions._measure_free(way, 1, PLAN.effort).n == 2  # pyright: ignore[reportPrivateUsage]


def test_sessions_that_run_freely_and_never_move_end_the_measurement(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sessions, "PATIENCE_S", 0.0)
    way = _way(Scripted(newest=itertools.repeat(7)), itertools.repeat(7))
    with pytest.raises(RemoteProtocolError, match="stood still for 0 s"):
        sessions._measure_free(way, 1, PLAN.effort)  # pyright: ignore[reportPrivateUsage]


def test_a_reader_who_is_shown_what_waited_for_him_is_behind() -> None:
    late = measure_pause(_way(Scripted(newest=iter((210,))), iter((0, 10, 12))), 0.0)
    assert (late.behind_ticks, late.missed_ticks) == (198, 200)
    fresh = measure_pause(_way(Scripted(newest=iter((210,))), iter((0, 10, 211))), 0.0)
    assert fresh.behind_ticks == 0


def test_a_session_that_gets_no_time_during_the_pause_is_given_some() -> None:
    late = measure_pause(_way(Scripted(newest=iter((10, 10, 12))), iter((0, 10, 12))), 0.0)
    assert (late.behind_ticks, late.missed_ticks) == (0, 2)


def test_a_session_that_stood_still_shows_nothing_of_freshness(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pause, "PATIENCE_S", 0.0)
    with pytest.raises(RemoteProtocolError, match="stood still at tick 10 for 0 s"):
        measure_pause(_way(Scripted(newest=iter((10,))), iter((0, 10, 10))), 0.0)


@dataclass
class _Event:
    session: int
    state: Any = None


class _Experiment:
    """An experiment with given events and scores, which notes the commands."""

    def __init__(self, events: list[_Event], scores: list[float]) -> None:
        self._events, self._scores = iter(events), scores
        self.commands: list[int] = []

    def next_now(self) -> _Event | None:
        return next(self._events, None)

    def next(self) -> None: ...

    def command(self, session: int, command: Any) -> None:
        self.commands.append(session)

    def final_scores(self) -> list[float]:
        return self._scores


UPRIGHT = dict.fromkeys(("PoleAngle", "PoleAngularVelocity", "CartPosition", "CartVelocity"), 0.0)


def test_every_state_of_a_queue_is_answered_and_its_sessions_counted() -> None:
    experiment = _Experiment([_Event(0), _Event(0, UPRIGHT), _Event(1, UPRIGHT)], [TICKS, TICKS])
    found = play_queue(experiment)
    assert experiment.commands == [0, 1]
    assert found.n == 2
    assert 0 <= found.largest_gap_ns <= found.took_ns


def test_a_session_of_a_queue_that_lost_a_tick_is_found_out() -> None:
    with pytest.raises(RemoteProtocolError, match="ended with scores"):
        play_queue(_Experiment([], [TICKS, TICKS - 1]))


def test_the_pole_stays_up() -> None:
    world = CartPoleWorld(7, max_ticks=1 << 30)
    for _ in range(20_000):
        seen = world.observe()
        state = {
            "PoleAngle": seen.pole_angle,
            "PoleAngularVelocity": seen.pole_angular_velocity,
            "CartPosition": seen.cart_position,
            "CartVelocity": seen.cart_velocity,
        }
        world.act([CartPoleCommand(balance(state)["MoveRight"])])
        world.tick()
    assert not world.is_over

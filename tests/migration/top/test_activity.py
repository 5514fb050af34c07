"""What engines and processes do at the moment, read from outside: nothing of them changes."""

import os
import signal
import socket
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from lucky_transport import api
from lucky_transport.diagnosis import machine
from lucky_transport.diagnosis.check import Roots
from lucky_transport.diagnosis.servers import connections_to
from lucky_transport.messages.methods import method
from lucky_transport.process import EngineProcess, unique_name
from lucky_transport.shm.segment import header, segment, segment_files
from lucky_transport.spec.batch_spec import ArraySpec, BatchSpec
from lucky_transport_migration.top.activity import ActivityMonitor, read_process
from lucky_transport_migration.top.steps import StepReading, steps_seen
from tests.support.resources import descriptors_of
from tests.support.waiting import suspend, until

SPEC = BatchSpec("toy", 3, ArraySpec(shape=(4,)), ArraySpec(shape=(2,)))
GET_SCHEMA = method("AgentService/GetAgentSchema")


def made(directory: Path, name: str = "demo") -> segment.Segment:
    one = segment.create(name, SPEC, directory=directory)
    one.publish_ready()
    return one


def only(activity: ActivityMonitor) -> Any:
    (engine,) = (one for one in activity.read().engines if one.name == "demo")
    return engine


def test_an_engine_is_seen_with_its_process_and_spec(tmp_path: Path) -> None:
    one = made(tmp_path)
    with ActivityMonitor(tmp_path) as activity:
        seen = only(activity)
    assert (seen.name, seen.state, seen.engine, seen.num_envs) == ("demo", "ready", "toy", 3)
    assert seen.endpoints == ("shm://demo",)
    assert seen.server is not None
    assert seen.server.pid == os.getpid()
    assert (seen.client, seen.driver, seen.problem) == ("", None, "")
    one.unlink()


def test_steps_are_counted_while_they_are_made() -> None:
    with (
        api.serve("toy", f"shm://{unique_name()}", num_envs=2) as serving,
        api.open_transport(serving.endpoints[0]) as driver,
        api.open_transport(serving.endpoints[0]) as commanding,
        ActivityMonitor(period_s=0.001) as activity,
    ):
        name = serving.endpoints[0].address
        actions = np.zeros(driver.spec.action_shape, np.float32)
        commanding.call(GET_SCHEMA, GET_SCHEMA.request("agent_0"))

        def stepped() -> Any:
            stop = threading.Event()
            stepping = threading.Thread(target=lambda: [driver.step(actions) for _ in iter(stop.is_set, True)])
            stepping.start()
            seen = next(one for one in activity.read(0.1).engines if one.name == name)
            stop.set()
            stepping.join()
            return seen if seen.steps is not None and seen.steps.p99_s is not None else None

        seen = until(stepped)
    assert seen is not None
    assert seen.steps is not None
    assert seen.steps.rate > 0
    assert seen.steps.p50_s is not None
    assert seen.client == f"pid {os.getpid()}"
    assert seen.driver is not None
    assert seen.commanding == 1
    assert {ring.name: ring.size for ring in seen.rings} == {"ring_c2s": 1 << 19, "ring_s2c": 1 << 19}


def test_looking_changes_not_a_byte(tmp_path: Path) -> None:
    one = made(tmp_path)
    before = one.path.read_bytes()
    with ActivityMonitor(tmp_path, period_s=0.001) as activity:
        activity.read(0.05)
    assert one.path.read_bytes() == before
    one.unlink()


def test_engines_may_come_and_go_and_their_descriptors_with_them(tmp_path: Path) -> None:
    with ActivityMonitor(tmp_path) as activity:
        descriptors: list[int] = []
        for _ in range(3):
            one = made(tmp_path)
            assert only(activity).state == "ready"
            one.unlink()
            assert [seen for seen in activity.read().engines if seen.name == "demo"] == []
            descriptors.append(len(descriptors_of(str(tmp_path))))
    assert descriptors[1:] == descriptors[:-1]


def test_a_segment_whose_engine_is_gone_is_stale(tmp_path: Path) -> None:
    one = made(tmp_path)
    kept = one.path.read_bytes()
    one.unlink()
    stale = tmp_path / "demo"
    stale.write_bytes(kept)
    stale.chmod(0o600)
    with ActivityMonitor(tmp_path) as activity:
        seen = only(activity)
    assert (seen.state, seen.server, seen.commanding) == ("stale", None, None)


@pytest.mark.parametrize("length", [100, 4096], ids=["shorter than a header", "a header and no more"])
def test_a_segment_that_is_cut_short_while_it_is_watched_harms_nothing(tmp_path: Path, length: int) -> None:
    one = made(tmp_path)
    with ActivityMonitor(tmp_path, period_s=0.001) as activity:
        assert only(activity).state == "ready"
        os.truncate(one.path, length)
        for _ in range(3):
            activity.read()
    one.unlink()


def test_a_damaged_header_is_told(tmp_path: Path) -> None:
    one = made(tmp_path)
    header.put(one.mapping, "obs_offset", 12)
    with ActivityMonitor(tmp_path) as activity:
        seen = only(activity)
    assert seen.state == "damaged"
    assert "obs_offset" in seen.problem
    one.unlink()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files to another user")
def test_segments_of_other_users_are_named_and_left_alone(tmp_path: Path) -> None:
    for path in (tmp_path / "theirs", tmp_path / "theirs.lock"):
        path.touch(0o600)
        os.chown(path, 4711, 4711)
    with ActivityMonitor(tmp_path) as activity:
        reading = activity.read()
    assert reading.of_other_users == {"theirs": 4711}


def test_a_stopped_engine_is_stopped_and_goes_on() -> None:
    name = unique_name()
    engine = EngineProcess("toy", [f"shm://{name}"])
    try:
        with ActivityMonitor() as activity:

            def state() -> str:
                return next(one.state for one in activity.read().engines if one.name == name)

            suspend(engine.pid)
            assert state() == "stopped"
            assert [one.stopped for one in segment_files.find() if one.name == name] == [True]
            row = machine.engines(Roots())
            assert (row.verdict, f"stopped: {name} (pid {engine.pid}, stopped)" in row.seen) == ("warn", True)
            assert "`kill -CONT`" in row.remedy
            os.kill(engine.pid, signal.SIGCONT)
            until(lambda: state() == "ready")
    finally:
        os.kill(engine.pid, signal.SIGCONT)
        engine.stop()


def test_an_engine_whose_heart_does_not_beat_is_hung(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    one = made(tmp_path)
    with ActivityMonitor(tmp_path) as activity:
        monkeypatch.setattr("lucky_transport_migration.top.activity._HUNG_S", 0.0)
        assert only(activity).state == "ready", "one that has not beaten yet may not know how"
        header.put(one.mapping, "heartbeat", 7)
        activity.read()
        until(lambda: only(activity).state == "hung")
        monkeypatch.setattr("lucky_transport_migration.top.activity._HUNG_S", 600.0)
        header.put(one.mapping, "heartbeat", 8)
        assert only(activity).state == "ready"
    one.unlink()


def test_an_engine_without_a_segment_is_seen_by_what_it_says_of_itself(tmp_path: Path) -> None:
    with api.serve("toy", "grpc://127.0.0.1:0", num_envs=2) as serving, ActivityMonitor(tmp_path) as activity:
        endpoint = str(serving.endpoints[0])
        (seen,) = (one for one in activity.read().engines if one.endpoints == (endpoint,))
    assert (seen.name, seen.state, seen.engine, seen.num_envs) == (f"pid {os.getpid()}", "no segment", "toy", 2)
    assert seen.server is not None
    assert not endpoint.endswith(":0")


def test_a_process_that_is_gone_is_none(tmp_path: Path) -> None:
    assert read_process(7, tmp_path) is None


def test_this_process_is_read_with_its_connections(tmp_path: Path) -> None:
    found = read_process(os.getpid())
    assert found is not None
    assert found.pid == os.getpid()
    assert found.rss_bytes > 1 << 20
    path = str(tmp_path / "s.sock")
    with socket.socket(socket.AF_UNIX) as unix:
        unix.bind(path)
        unix.listen()
        before = connections_to()
        assert before is not None
        assert before[path] == 0
        with socket.socket(socket.AF_UNIX) as client:
            client.connect(path)
            accepted, _ = unix.accept()
            with accepted:
                after = connections_to()
                assert after is not None
                assert after[path] == 1


MS = 1_000_000
ALL_ONES = (1 << 64) - 2


@pytest.mark.parametrize(
    ("glances", "rate", "p50_s", "p99_s"),
    [
        ([], 0, None, None),
        ([(0, 5, 5)], 0, None, None),
        ([(10 * n, 100 * n, 100 * n) for n in range(11)], 10_000, 100e-6, 100e-6),
        ([(10 * n, n // 5, n // 5) for n in range(51)], 20, 50e-3, 50e-3),
        # 98 steps in the first 10 ms after a move, two that take 50 ms each: p99 is of steps, not of glances
        ([(0, 0, 0), (10, 1, 1), (20, 99, 99), (70, 100, 100), (120, 101, 101)], 101 / 0.12, 10e-3 / 98, 50e-3),
        ([(0, ALL_ONES, 0), (10, ALL_ONES + 1, 0)], 100, None, None),
        ([(0, 10, 10), (10, 20, 20), (20, 3, 3), (30, 4, 4)], 100, None, None),
        ([(0, 10, 10), (10, 20, 20), (20, 1 << 60, 0), (30, (1 << 60) + 1, 0)], 100, None, None),
        ([(0, 10, 10), (10, 20, 20), (20, 3, 3)], 0, None, None),
    ],
    ids=["none", "one", "fast", "slow", "a slow one in many", "any size", "backwards", "a leap", "last"],
)
def test_step_times_come_of_two_counters(
    glances: list[tuple[int, int, int]], rate: float, p50_s: float | None, p99_s: float | None
) -> None:
    """Glances are (milliseconds, frame counter, action counter)."""
    seen = steps_seen([(at * MS, frames, actions) for at, frames, actions in glances])
    assert (seen.rate, seen.p50_s, seen.p99_s) == (pytest.approx(rate), pytest.approx(p50_s), pytest.approx(p99_s))
    assert seen.seen_s or seen == StepReading()


def test_the_engines_share_counts_the_glances_at_which_it_had_actions_and_no_frame() -> None:
    assert steps_seen([(0, 1, 2), (10, 2, 2), (20, 2, 3), (30, 2, 3)]).engine_share == 0.75

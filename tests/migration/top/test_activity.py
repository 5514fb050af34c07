"""What engines and processes do at the moment, read from outside: nothing of them changes."""

from __future__ import annotations

import os
import signal
import socket
from pathlib import Path

import numpy as np
import pytest

from lucky_transport import api
from lucky_transport.diagnosis import containers
from lucky_transport.diagnosis.check import CheckStatus, Roots
from lucky_transport.diagnosis.servers import connections_to
from lucky_transport.messages.methods import method
from lucky_transport.process import EngineProcess, python_command, unique_name
from lucky_transport.shm.segment import header, segment, segment_files
from lucky_transport.shm.slot_files.image_file import ImageFile
from lucky_transport.spec.batch_spec import ArraySpec, BatchSpec
from lucky_transport_migration.top import processes
from lucky_transport_migration.top.activity import ActivityMonitor, EngineActivity
from lucky_transport_migration.top.step_samples import StepSamples
from tests.support.resources import descriptors_of
from tests.support.waiting import suspend, until

SPEC = BatchSpec("toy", 3, ArraySpec(shape=(4,)), ArraySpec(shape=(2,)))
GET_SCHEMA = method("AgentService/GetAgentSchema")


def made(directory: Path, name: str = "demo") -> segment.Segment:
    one = segment.create(name, SPEC, directory=directory)
    one.publish_ready()
    return one


def only(activity: ActivityMonitor) -> EngineActivity:
    (engine,) = (one for one in activity.read().engines if one.state != "no segment")
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

        def stepped() -> EngineActivity | None:
            driver.step(actions)
            seen = next(one for one in activity.read().engines if one.name == name)
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
        until(lambda: (steps := only(activity).steps) and steps.seen_s > 0.01)
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


def test_images_beside_a_segment_are_counted(tmp_path: Path) -> None:
    one = made(tmp_path)
    images = ImageFile.create(one.path, 1, 3, 4096)
    images.words[0].take(2)
    images.words[0].hand_over(2)
    (tmp_path / "demo.images.2").write_bytes(b"no images")
    with ActivityMonitor(tmp_path) as activity:
        [found] = only(activity).streams
    assert (found.name, found.written, found.slots, found.held) == ("images.1", 1, 3, 1)
    images.unlink()
    one.unlink()


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
            row = containers.engines(Roots())
            assert (row.verdict, f"stopped: {name} (pid {engine.pid}, stopped)" in row.seen) == (CheckStatus.WARN, True)
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


def command(proc: Path, *arguments: str, pid: int = 7) -> int:
    (proc / str(pid)).mkdir(parents=True)
    (proc / str(pid) / "cmdline").write_bytes("\0".join(arguments).encode() + b"\0")
    return pid


SERVE = ("serve", "toy", "--endpoint", "shm://demo", "--num-envs", "4", "--endpoint=grpc://127.0.0.1:0")


@pytest.mark.parametrize(
    "program",
    [
        ("/opt/venv/bin/lucky-transport",),
        ("/usr/bin/python3", "/opt/venv/bin/lucky-transport"),
        ("python3.13", "-m", "lucky_transport", "-v"),
        tuple(python_command("lucky_transport")),
        ("python3", "-X", "dev", "-Werror", *python_command("lucky_transport")[-2:]),
    ],
    ids=["command", "script", "module", "child", "child with flags"],
)
def test_the_endpoints_of_a_serve_are_found(tmp_path: Path, program: tuple[str, ...]) -> None:
    pid = command(tmp_path, *program, *SERVE)
    assert processes.served_endpoints(pid, tmp_path) == ["shm://demo", "grpc://127.0.0.1:0"]
    assert processes.serving_pids(tmp_path) == [pid]


@pytest.mark.parametrize(
    "arguments",
    [
        ("timeout", "5", "lucky-transport", *SERVE),
        ("/usr/bin/python3", "train.py", *SERVE),
        ("lucky-transport", "inspect", "--endpoint", "serve"),
        (),
    ],
    ids=["wrapper", "another program", "another command", "kernel thread"],
)
def test_what_serves_nothing_is_no_engine(tmp_path: Path, arguments: tuple[str, ...]) -> None:
    assert processes.served_endpoints(command(tmp_path, *arguments), tmp_path) == []
    assert processes.serving_pids(tmp_path) == []


def test_a_process_that_is_gone_is_none(tmp_path: Path) -> None:
    assert processes.read_process(7, tmp_path) is None
    assert processes.listening_ports(7, tmp_path) == []


def test_the_sockets_of_a_network_namespace_are_read_once_for_all_its_processes() -> None:
    listening: dict[str, dict[str, int]] = {}
    with socket.create_server(("127.0.0.1", 0)) as tcp:
        for pid in (os.getppid(), os.getpid()):
            ports = processes.listening_ports(pid, listening=listening)
        assert tcp.getsockname()[1] in ports
    assert len(listening) == 1
    here = os.readlink(f"/proc/{os.getpid()}/ns/net")
    assert processes.listening_ports(os.getpid(), listening={here: {}}) == []


def test_this_process_is_read_with_its_ports_and_connections(tmp_path: Path) -> None:
    found = processes.read_process(os.getpid())
    assert found is not None
    assert found.pid == os.getpid()
    assert found.rss_bytes > 1 << 20
    path = str(tmp_path / "s.sock")
    with socket.create_server(("127.0.0.1", 0)) as tcp, socket.socket(socket.AF_UNIX) as unix:
        assert tcp.getsockname()[1] in processes.listening_ports(os.getpid())
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


def samples(*glances: tuple[int, int, int], window_s: float = 10.0) -> StepSamples:
    """Samples of (milliseconds, frame counter, action counter)."""
    made = StepSamples(window_s)
    for at, frames, actions in glances:
        made.add(at * MS, frames, actions)
    return made


def test_without_two_glances_nothing_is_known() -> None:
    for made in (samples(), samples((0, 5, 5))):
        reading = made.read()
        assert (reading.rate, reading.p50_s, reading.p99_s, reading.engine_share) == (0.0, None, None, None)


def test_fast_steps_are_averaged_between_two_glances() -> None:
    reading = samples(*[(10 * n, 100 * n, 100 * n) for n in range(11)]).read()
    assert reading.rate == pytest.approx(10_000)
    assert reading.p50_s == reading.p99_s == pytest.approx(100e-6)


def test_slow_steps_are_timed_from_one_move_of_the_counter_to_the_next() -> None:
    reading = samples(*[(10 * n, n // 5, n // 5) for n in range(51)]).read()
    assert reading.rate == pytest.approx(20)
    assert reading.p50_s == reading.p99_s == pytest.approx(50e-3)


def test_a_percentile_is_of_steps_not_of_glances() -> None:
    """98 steps in the first 10 ms after a move, two that take 50 ms each: the median is a fast one, p99 a slow one."""
    reading = samples((0, 0, 0), (10, 1, 1), (20, 99, 99), (120, 101, 101)).read()
    assert reading.p50_s == pytest.approx(10e-3 / 98)
    assert reading.p99_s == pytest.approx(50e-3)


def test_the_engines_share_counts_the_glances_at_which_it_had_actions_and_no_frame() -> None:
    assert samples((0, 1, 2), (10, 2, 2), (20, 2, 3), (30, 3, 3)).read().engine_share == 0.5


def test_old_glances_are_forgotten() -> None:
    reading = samples(*[(100 * n, n, n) for n in range(100)], window_s=1.0).read()
    assert reading.seen_s == pytest.approx(1.0)


def test_a_counter_of_any_size_is_read() -> None:
    most = (1 << 64) - 2
    assert samples((0, most, 0), (10, most + 1, 0)).read().rate == pytest.approx(100)


@pytest.mark.parametrize("frames", [3, 1 << 60], ids=["backwards", "a leap"])
def test_a_counter_that_goes_where_no_step_leads_begins_anew(frames: int) -> None:
    reading = samples((0, 10, 10), (10, 20, 20), (20, frames, frames), (30, frames + 1, frames + 1)).read()
    assert reading.rate == pytest.approx(100)

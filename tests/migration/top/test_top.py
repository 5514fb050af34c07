"""What engines do at the moment, read from outside, and `lucky-transport top`, which shows it."""

import asyncio
import json
import os
import signal
import socket
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from lucky_transport import api
from lucky_transport.diagnosis import machine
from lucky_transport.diagnosis.check import Roots
from lucky_transport.diagnosis.servers import ServerReport, connections_to
from lucky_transport.messages.methods import method
from lucky_transport.process import EngineProcess, unique_name
from lucky_transport.shm.segment import header, segment, segment_files
from lucky_transport.spec.batch_spec import ArraySpec, BatchSpec
from lucky_transport_migration.top.activity import (
    ActivityMonitor,
    ActivityReading,
    EngineActivity,
    ProcessReading,
    RingReading,
    ServerActivity,
    read_process,
)
from lucky_transport_migration.top.steps import StepReading, steps_seen
from tests.support.command import invoke, output_of
from tests.support.resources import descriptors_of
from tests.support.waiting import beside, suspend, until, until_none_left

SERVER = ProcessReading(7, "python -m lucky_transport serve toy --endpoint shm://demo", 12.5, 70 << 20)
DRIVER = ProcessReading(8, "python train.py", 3.0, 50 << 20)
DEMO = EngineActivity(
    name="demo",
    state="ready",
    engine="toy",
    num_envs=64,
    endpoints=("shm://demo", "grpc://127.0.0.1:50051"),
    server=SERVER,
    driver=DRIVER,
    client="pid 8",
    commanding=2,
    frame_seq=12345,
    steps=StepReading(1234.5, 485e-6, 10.2e-3, 0.25, 5.0),
    rings=(RingReading("ring_c2s", 1 << 19, 1 << 18, 2048.0),),
)
STALE = EngineActivity("old", "stale", num_envs=4, endpoints=("shm://old",))
GRPC = EngineActivity("pid 9", "no segment", endpoints=("grpc://127.0.0.1:4711",))


def reading(*engines: EngineActivity) -> ActivityReading:
    return ActivityReading(engines, {"theirs": 1000})


# --- the screen ---


class Source:
    """Gives one reading after the other, the last one again and again."""

    def __init__(self, *readings: ActivityReading) -> None:
        self.readings = list(readings)
        self.given = 0

    def __call__(self) -> ActivityReading:
        self.given += 1
        time.sleep(0.02)
        return self.readings.pop(0) if len(self.readings) > 1 else self.readings[0]


def on_screen(
    source: Callable[[], ActivityReading], use: Callable[[Any, Any], Any], size: tuple[int, int] = (80, 24)
) -> Any:
    """Run the screen and `use(app, pilot)` once the first reading is shown; return the screen."""
    pytest.importorskip("textual", reason="textual is not installed: pip install 'lucky-transport[top]'")
    from lucky_transport_migration.top.screen import TopScreen

    async def run() -> TopScreen:
        app = TopScreen(source)
        async with app.run_test(size=size) as pilot:
            await shown(pilot, lambda: "engine" in summary(app))
            await use(app, pilot)
        return app

    return asyncio.run(run())


async def shown(pilot: Any, condition: Callable[[], object]) -> None:
    """Let the screen run until `condition` is true."""
    for _ in range(400):
        if condition():
            return
        await pilot.pause(0.02)
    raise AssertionError("the screen did not show it")


def text_of(app: Any, selector: str) -> str:
    return str(app.query_one(selector).render())


def summary(app: Any) -> str:
    return text_of(app, "#summary")


def cells(app: Any, name: str) -> tuple[str, ...]:
    return tuple(map(str, app.query_one("#engines").get_row(name)))


def names(app: Any) -> list[str]:
    return [key.value for key in app.query_one("#engines").rows]


def test_engines_are_rows_and_the_selected_one_is_told_in_full() -> None:
    async def use(app: Any, pilot: Any) -> None:
        assert names(app) == ["demo", "old", "pid 9"]
        assert "2 engines" in summary(app)
        assert "1 stale" in summary(app)
        assert "1 segment of other users" in summary(app)
        assert "toy, 64 envs" in text_of(app, "#known")
        await pilot.press("down")
        await shown(pilot, lambda: "doctor --fix" in text_of(app, "#known"))

    on_screen(Source(reading(DEMO, STALE, GRPC)), use)


def test_a_row_fits_into_80_characters_and_what_is_unknown_is_a_dash() -> None:
    steps = StepReading(99999, 2.345e-6, 0.9999, 1.0, 5.0)
    longest = EngineActivity("n" * 60, "closing", num_envs=4096, client="pid 8", commanding=12, steps=steps)

    async def use(app: Any, pilot: Any) -> None:
        shown = cells(app, longest.name)[:8]
        assert shown == ("n" * 17 + "…", "4,096", "99,999", "2.35 us", "1.00 s", "100%", "1+12", "closing")
        assert sum(map(len, shown)) + 2 * len(shown) <= 80
        assert cells(app, "demo")[3:5] == ("485 us", "10.2 ms")
        assert cells(app, "pid 9")[:8] == ("pid 9", "-", "-", "-", "-", "-", "-", "no shm")

    on_screen(Source(reading(longest, DEMO, GRPC)), use)


def test_the_details_name_processes_and_rings() -> None:
    async def use(app: Any, pilot: Any) -> None:
        known = text_of(app, "#known")
        for text in (
            "toy, 64 envs, 12,345 frames",
            "shm://demo  grpc://127.0.0.1:50051",
            "pid 8, 3.0 s of CPU, 50 MiB: python train.py",
            "2 clients that send commands",
            "25% in the engine, 75% in its client, seen for 5 s",
            "50% of 512 KiB filled, 2.0 KiB/s",
        ):
            assert text in known

    on_screen(Source(reading(DEMO)), use)


@pytest.mark.parametrize("width", [80, 160])
def test_servers_that_live_are_rows_and_those_that_are_gone_a_sentence(width: int) -> None:
    calls = {"/weather.v1.Weather/GetForecast": (1234, 5)}
    others = ("/z.Services/Method", f"/{'z' * 150}.Service/Method")  # as long a name leaves the numbers their room
    living = ServerReport("weather", 4711, "pid 4711", "ok", others, "localhost:50071", calls, 2)
    gone = ServerReport("other", 4712, "gone", "stale")
    servers = (ServerActivity(living, 386.0), ServerActivity(gone, None))

    async def use(app: Any, pilot: Any) -> None:
        assert "1 gRPC server" in summary(app)
        served = app.query_one("#served")
        await shown(pilot, lambda: served.size.height > 2)
        lines = [strip.text for strip in served.render_lines(served.size.region)]
        assert "weather" in lines[1]
        assert {"1,239", "386", "2", "ok", "4711"} <= set(lines[1].split())
        assert "weather.v1.Weather" in lines[1]
        assert lines[1].rstrip().endswith("…")
        left = " ".join(line.strip() for line in lines[2:])
        assert left == "Servers whose process is gone: other; `lucky-transport doctor --fix` removes what they left."

    on_screen(Source(ActivityReading((), servers=servers)), use, (width, 24))


def test_engines_come_and_go_and_the_cursor_stays_on_its_own() -> None:
    source = Source(reading(DEMO, GRPC))

    async def use(app: Any, pilot: Any) -> None:
        await pilot.press("down")
        await shown(pilot, lambda: "grpc://127.0.0.1:4711" in text_of(app, "#known"))
        source.readings = [reading(STALE, DEMO, GRPC)]
        await shown(pilot, lambda: len(names(app)) == 3)
        assert "grpc://127.0.0.1:4711" in text_of(app, "#known")
        source.readings = [reading()]
        await shown(pilot, lambda: "No engine runs here" in text_of(app, "#known"))

    on_screen(source, use)


def test_space_pauses() -> None:
    source = Source(reading(DEMO))

    async def use(app: Any, pilot: Any) -> None:
        await pilot.press("space")
        assert "paused" in summary(app)
        await app.workers.wait_for_complete()
        given = source.given
        await pilot.pause(0.3)
        assert source.given == given

    on_screen(source, use)


@pytest.mark.parametrize(("key", "status"), [("q", 0), ("ctrl+c", 130)])
def test_it_ends_by_a_key_and_leaves_no_thread(key: str, status: int) -> None:
    before = set(threading.enumerate())

    async def use(app: Any, pilot: Any) -> None:
        await pilot.press(key)

    assert on_screen(Source(reading(DEMO)), use).return_code == status
    until_none_left(lambda: set(threading.enumerate()) - before)


# --- the command ---


def test_one_look_at_a_real_engine_is_json() -> None:
    with api.serve("toy", f"shm://{unique_name()}", num_envs=3) as serving:
        done = invoke("top", "--once", "--json", "--interval", "0.3")
    assert done.exit_code == 0, done.output
    plain = json.loads(done.output)
    (engine,) = (one for one in plain["engines"] if one["name"] == serving.endpoints[0].address)
    assert (engine["state"], engine["engine"], engine["num_envs"]) == ("ready", "toy", 3)
    assert (engine["steps"]["rate"], engine["steps"]["p50_s"]) == (0, None)


def test_one_look_is_a_table_for_people() -> None:
    with api.serve("toy", f"shm://{unique_name()}") as serving:
        done = invoke("top", "--once", "--interval", "0.1")
    assert done.exit_code == 0, done.output
    assert str(serving.endpoints[0]) in done.output
    assert "steps/s" in done.output


def test_json_is_of_one_look_only() -> None:
    assert "--json needs --once" in output_of(invoke("top", "--json"), 2)


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
            with beside(lambda: [driver.step(actions) for _ in iter(stop.is_set, True)]):
                seen = next(one for one in activity.read(0.1).engines if one.name == name)
                stop.set()
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

"""`lucky-transport top`: the screen with readings of the tests' own, and one look at a real engine."""

import asyncio
import json
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest

from lucky_transport import api
from lucky_transport.diagnosis.servers import ServerReport
from lucky_transport.process import unique_name
from lucky_transport_migration.top.activity import (
    ActivityReading,
    EngineActivity,
    ProcessReading,
    RingReading,
    ServerActivity,
)
from lucky_transport_migration.top.steps import StepReading
from tests.support.command import invoke
from tests.support.waiting import until_none_left

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
    done = invoke("top", "--json")
    assert done.exit_code == 2
    assert "--json needs --once" in done.output

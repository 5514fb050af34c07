"""Calls are counted: exactly, without a lock, beyond their process's end, by channels that look as before; and said."""

import asyncio
import inspect
import os
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from lucky_transport.call_counts import CallCounter, CallCounters, Calls, ProcessCalls, new_folder, read
from lucky_transport_stubs.run.report import Report
from lucky_transport_stubs.run.unpatched_processes import UnpatchedProcess

grpc = pytest.importorskip("grpc")

import lucky_transport_stubs  # noqa: E402 - needs grpc
from lucky_transport_stubs.run.patches import counted  # noqa: E402
from tests.support.appearance import appearance  # noqa: E402

from ..differential.both import THREADS, WAYS, Driver  # noqa: E402
from ..differential.samples import ECHOED, ECHOES  # noqa: E402

STEP = Calls("localhost:1", "shm://x", "", "/a.B/Step")
RESET = Calls("localhost:1", "", "the map does not name it", "/a.B/Reset")


def counted_in(folder: Path) -> list[dict[str, int]]:
    """What each process called: method -> how often."""
    return [{calls.method: calls.count for calls in process.calls} for process in read(folder)]


def test_a_method_is_counted_where_it_went(tmp_path: Path) -> None:
    counters = CallCounters(tmp_path)
    for _ in range(3):
        counters.counter(STEP).add()
    counters.counter(RESET).add()
    (process,) = read(tmp_path)
    assert process.pid == os.getpid()
    assert process.command == sys.orig_argv
    assert [(calls.target, calls.endpoint, calls.why, calls.method, calls.count) for calls in process.calls] == [
        ("localhost:1", "shm://x", "", "/a.B/Step", 3),
        ("localhost:1", "", "the map does not name it", "/a.B/Reset", 1),
    ]


def test_a_process_that_calls_nothing_leaves_nothing(tmp_path: Path) -> None:
    CallCounters(tmp_path).counter(STEP)
    assert list(tmp_path.iterdir()) == []


def test_no_count_is_lost_between_threads(tmp_path: Path) -> None:
    counter = CallCounters(tmp_path).counter(STEP)
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        threads = [threading.Thread(target=lambda: [counter.add() for _ in range(20_000)]) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(before)
    assert sum(calls.count for calls in read(tmp_path)[0].calls) == 80_000


def test_there_is_room_for_more_methods_than_a_page_holds(tmp_path: Path) -> None:
    counters = CallCounters(tmp_path)
    for number in range(1500):
        for _ in range(number % 3 + 1):
            counters.counter(Calls("localhost:1", "", "", f"/a.B/M{number}")).add()
    assert counted_in(tmp_path) == [{f"/a.B/M{number}": number % 3 + 1 for number in range(1500)}]


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_forked_child_counts_from_zero_for_itself(tmp_path: Path) -> None:
    counter = CallCounters(tmp_path).counter(STEP)
    counter.add()
    child = os.fork()
    if not child:
        counter.add()
        counter.add()
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    counter.add()
    assert counted_in(tmp_path) == [{"/a.B/Step": 2}, {"/a.B/Step": 2}]
    assert {process.pid for process in read(tmp_path)} == {os.getpid(), child}


@pytest.mark.exhaustive
@pytest.mark.parametrize("end", ["os._exit(3)", "os.kill(os.getpid(), signal.SIGKILL)", "sys.exit()"])
def test_counts_survive_however_a_process_ends(tmp_path: Path, end: str, python: Callable[..., list[str]]) -> None:
    code = f"""
import os, signal, sys
from pathlib import Path
from lucky_transport.call_counts import Calls, CallCounters
counter = CallCounters(Path(sys.argv[1])).counter(Calls("t", "", "", "/a.B/Step"))
for _ in range(1234):
    counter.add()
{end}
"""
    subprocess.run(python(code, tmp_path), timeout=30)
    assert counted_in(tmp_path) == [{"/a.B/Step": 1234}]


def test_a_line_that_was_being_written_is_left_out(tmp_path: Path) -> None:
    CallCounters(tmp_path).counter(STEP).add()
    (names,) = tmp_path.glob("*.names")
    with names.open("ab") as file:
        file.write(b'["localhost:1", "", "", "/a.B/Re')
    assert counted_in(tmp_path) == [{"/a.B/Step": 1}]


def test_calls_go_on_uncounted_when_the_folder_is_gone(tmp_path: Path) -> None:
    said: list[str] = []
    CallCounters(tmp_path / "gone", said.append).counter(STEP).add()
    assert not said


def test_calls_go_on_uncounted_when_the_folder_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    said: list[str] = []
    counter = CallCounters(tmp_path / "file", said.append).counter(STEP)
    counter.add()
    counter.add()
    (only,) = said
    assert only.startswith("calls are not counted")


ECHO = "/t.T/Echo"


@pytest.fixture
def counter_of(tmp_path: Path) -> Callable[[str], CallCounter]:
    counters = CallCounters(tmp_path)
    return lambda method: counters.counter(Calls("t", "", "", method))


@pytest.fixture
def counts(tmp_path: Path) -> Callable[[], dict[str, int]]:
    """What has been counted so far."""
    return lambda: {one.method: one.count for process in read(tmp_path) for one in process.calls}


@pytest.fixture
def channel(grpc_port: int, counter_of: Callable[[str], CallCounter]) -> Iterator[Any]:
    with counted(grpc.insecure_channel(f"127.0.0.1:{grpc_port}"), counter_of) as channel:
        yield channel


#: By arity, the methods of `grpc_port`.
NAMES = dict(map(str.split, ECHOES))


async def test_every_way_to_call_is_counted_once_and_answers_as_before(
    driver: Driver, grpc_port: int, counter_of: Callable[[str], CallCounter], counts: Callable[[], dict[str, int]]
) -> None:
    make = grpc.insecure_channel if driver.driver == THREADS else grpc.aio.insecure_channel
    channel = counted(make(f"127.0.0.1:{grpc_port}"), counter_of)
    for way in WAYS[driver.driver]:
        name = NAMES[way.arity]
        seen = repr(await driver.invoke(way, getattr(channel, way.arity)(f"/t.T/{name}"), timeout=10))
        assert all(repr(item) in seen for item in ECHOED[name]), seen
    await driver.close(channel)
    assert counts() == Counter(f"/t.T/{NAMES[way.arity]}" for way in WAYS[driver.driver])


def test_a_call_that_fails_is_counted_and_fails_as_before(channel: Any, counts: Callable[[], dict[str, int]]) -> None:
    with pytest.raises(grpc.RpcError) as caught:
        channel.unary_unary("/t.T/Nothing")(b"")
    assert caught.value.code() is grpc.StatusCode.UNIMPLEMENTED
    assert counts() == {"/t.T/Nothing": 1}


def test_a_counted_channel_is_a_channel(channel: Any) -> None:
    states: list[Any] = []
    assert isinstance(channel, grpc.Channel)
    grpc.channel_ready_future(channel).result(10)
    channel.subscribe(states.append)
    channel.unsubscribe(states.append)
    with channel as entered:
        assert entered is channel
    with pytest.raises(ValueError, match="closed channel"):
        channel.unary_unary(ECHO)(b"")


@pytest.mark.parametrize("way", ["grpc", "shm", "grpc.aio", "shm.aio"])
async def test_what_is_counted_looks_as_it_does_uncounted(
    way: str, grpc_port: int, counter_of: Callable[[str], CallCounter]
) -> None:
    make: dict[str, Callable[[], Any]] = {
        "grpc": lambda: grpc.insecure_channel(f"127.0.0.1:{grpc_port}"),
        "shm": lambda: lucky_transport_stubs.channel("shm://nobody"),
        "grpc.aio": lambda: grpc.aio.insecure_channel(f"127.0.0.1:{grpc_port}"),
        "shm.aio": lambda: lucky_transport_stubs.aio_channel("shm://nobody"),
    }
    plain, seen = make[way](), counted(make[way](), counter_of)
    assert appearance(seen, "channel") == appearance(plain, "channel")
    for arity in ("unary_unary", "unary_stream", "stream_unary", "stream_stream"):
        methods = [getattr(channel, arity)(ECHO) for channel in (plain, seen)]
        public = grpc if "aio" not in way else grpc.aio
        kind = getattr(public, f"{arity.title().replace('_', '')}MultiCallable")
        assert all(isinstance(method, kind) and method._method == ECHO.encode() for method in methods)
        assert appearance(methods[1], "method") == appearance(methods[0], "method")
        assert inspect.signature(methods[1]) == inspect.signature(methods[0])
        assert {*dir(methods[0])} <= {*dir(methods[1])}


async def test_a_counted_channel_of_asyncio_is_a_channel(
    grpc_port: int, counter_of: Callable[[str], CallCounter]
) -> None:
    async with counted(grpc.aio.insecure_channel(f"127.0.0.1:{grpc_port}"), counter_of) as channel:
        assert isinstance(channel, grpc.aio.Channel)
        await asyncio.wait_for(channel.channel_ready(), 10)
        assert channel.get_state() is grpc.ChannelConnectivity.READY


def made(method: str, count: int, *, endpoint: str = "shm://demo", target: str = "127.0.0.1:50051") -> Calls:
    return Calls(target, endpoint, "" if endpoint else "the map does not name it", method, count)


def test_a_program_that_called_nothing_is_told_so() -> None:
    seen = "lucky-transport: no gRPC call was counted; {} that can be switched imported grpc\n"
    assert Report([]).text() == seen.format("no process")
    assert Report([], reached=[7]).text() == seen.format("1 process")
    assert "the folder of the counts was removed" in Report([], is_lost=True).text()


def test_it_says_which_methods_went_where_and_how_often() -> None:
    rows = [made("/a.B/Reset", 2), made("/a.B/Step", 1000), made("/c.D/Log", 1, endpoint="", target="logs:1")]
    assert Report([ProcessCalls(7, ["python"], 0, rows)]).text() == (
        "lucky-transport: 1,002 calls over shared memory, 1 over gRPC, by 1 process\n"
        "  127.0.0.1:50051 over shm://demo\n"
        "         1,000  /a.B/Step\n"
        "             2  /a.B/Reset\n"
        "  logs:1 over gRPC: the map does not name it\n"
        "             1  /c.D/Log\n"
    )


def test_processes_are_added_up_and_listed() -> None:
    processes = [
        ProcessCalls(7, ["python", "train me.py"], 0, [made("/a.B/Step", 3)]),
        ProcessCalls(8, ["python", "x" * 200], 1, [made("/a.B/Step", 4), made("/a.B/Reset", 1)]),
    ]
    report = Report(processes)
    assert report.text() == (
        "lucky-transport: 8 calls over shared memory, 0 over gRPC, by 2 processes\n"
        "  127.0.0.1:50051 over shm://demo\n"
        "             7  /a.B/Step\n"
        "             1  /a.B/Reset\n"
        "  by process\n"
        "             3  pid 7: python 'train me.py'\n"
        f"             5  pid 8: python {'x' * 90}...\n"
    )
    plain = report.plain()
    assert [(one["method"], one["count"]) for one in plain["calls"]] == [("/a.B/Step", 7), ("/a.B/Reset", 1)]
    assert [(one["pid"], len(one["calls"])) for one in plain["processes"]] == [(7, 1), (8, 2)]


def test_names_of_programs_and_methods_are_spelt_out() -> None:
    rows = [made("/a.B/\x1b[31mStep", 1, target="unix:/x\ny")]
    processes = [ProcessCalls(pid, ["python", "-c", "a\nb"], 0, rows) for pid in (7, 8)]
    text = Report(processes, escapes=[UnpatchedProcess(9, ["python", "\x1b[2J"], "why")]).text()
    assert r"/a.B/\x1b[31mStep" in text
    assert r"unix:/x\ny" in text
    assert text.count(r"python -c 'a\nb'") == 2
    assert r"python '\x1b[2J'" in text
    assert "\x1b" not in text


def test_what_was_not_reached_is_always_said() -> None:
    unpatched = UnpatchedProcess(10, ["python", "-I", "x.py"], "started with -I")
    report = Report([], {9: "/other/python"}, [unpatched], others=[(11, "grpclib"), (12, "ray"), (13, "ray")])
    assert report.troubles() == (
        "lucky-transport: pid 9 stayed on gRPC: /other/python has no lucky_transport\n"
        "lucky-transport: pid 10 (python -I x.py) was not switched: started with -I\n"
        "lucky-transport: pid 11 imported grpclib, which speaks gRPC without grpcio;"
        " only what is generated for grpcio is switched\n"
        "lucky-transport: pid 12 and 1 other imported ray, which has a gRPC of its own in its wheel,"
        " between its nodes and workers, in C++; nothing can switch it\n"
    )
    assert report.text().endswith(report.troubles())
    assert "nothing was switched" in report.unswitched()
    assert "pid 11 imported grpclib, which speaks gRPC without grpcio" in report.unswitched()
    assert report.plain()["without_lucky_transport"] == [{"pid": 9, "python": "/other/python"}]
    assert report.plain()["other_packages"][:2] == [{"pid": 11, "package": "grpclib"}, {"pid": 12, "package": "ray"}]
    assert report.plain()["escapes"] == [{"pid": 10, "command": ["python", "-I", "x.py"], "why": "started with -I"}]


def test_a_ledger_is_read_once_and_removed() -> None:
    folder = new_folder()
    assert folder.stat().st_mode & 0o077 == 0
    CallCounters(folder).counter(made("/a.B/Step", 0)).add()
    Path(folder, "9.absent").write_text("/other/python")
    Path(folder, "8.reached").touch()
    Path(folder, "8.pyarrow.flight.other").write_text("pyarrow.flight")
    without, unpatched = (UnpatchedProcess(pid, ["python"], "why") for pid in (9, 10))
    report = Report.conclude(folder, [without, unpatched])
    assert [process.calls for process in report.processes] == [[made("/a.B/Step", 1)]]
    assert report.absent == {9: "/other/python"}
    assert (report.reached, report.others, report.escapes) == ([8], [(8, "pyarrow.flight")], [unpatched])
    assert not folder.exists()

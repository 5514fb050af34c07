"""A bench and a demo in this process, the suites of engines in other languages and of stubs, and servers of pairs."""

import asyncio
import importlib.util
import json
import shutil
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from lucky_transport.errors import ConfigError, EngineFailed, NotReachable, PeerTimeout, RemoteProtocolError
from lucky_transport_migration.bench.demo import COMPARED_STEPS, PATHS
from lucky_transport_migration.bench.flow import StreamMeasurement
from lucky_transport_migration.bench.measuring import QUICK, Measurement
from lucky_transport_migration.bench.reading import headlines
from lucky_transport_migration.bench.report import bench_page
from lucky_transport_migration.bench.rows import typical_us
from lucky_transport_migration.bench.stubs import programs
from lucky_transport_migration.bench.stubs.programs import Job, measure_pair, program, serving
from lucky_transport_migration.bench.suite import check_targets, marks
from lucky_transport_migration.bench.suites import kits
from lucky_transport_migration.bench.suites.kits import BATCH, KIT_PATHS, KITS, plan_of_kits
from lucky_transport_migration.bench.suites.stubs import cases_of, plan_of_stubs
from lucky_transport_migration.units import times_text
from tests.support.command import invoke
from tests.support.waiting import until, until_none_left


def result_of(rows: dict[tuple[str, str], dict[str, float]]) -> dict[str, Any]:
    """Return as much of a result as the targets read: (kind, path) -> percentiles in microseconds."""
    return {
        "rounds": 6,
        "options": {},
        "rows": [
            marks(kind, path, size=1 if kind == "exchange" else BATCH, wait="spin" if path == "limit" else None, us=us)
            for (kind, path), us in rows.items()
        ],
    }


def test_every_promise_is_kept_or_broken_by_what_the_rows_say() -> None:
    result = result_of(
        {
            ("exchange", "limit"): {"p50": 0.1, "p999": 0.2},
            ("exchange", "kit-c"): {"p50": 0.15, "p999": 0.5},
            ("step", "kit-cpp"): {"p50": BATCH / 12.5},
        }
    )
    outcome = [(one["word"], one["measured"]) for one in check_targets(result, KITS.targets)]
    assert outcome == [("PASS", 1.5), ("PASS", 2.5), ("NOT MEASURED", None), ("NOT MEASURED", None), ("PASS", 12.5)]


def test_each_kit_is_measured_or_its_absence_is_told(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(kits, "KIT_SOURCES", tmp_path)
    suite = kits.prepare(("shm",), None, rounds=1, quick=True)
    measured = {case.path for case in suite.cases}
    assert measured.isdisjoint(KIT_PATHS)
    for path in KIT_PATHS:
        assert f"no {path}: there is no {tmp_path}" in " ".join(suite.notes)


@pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler; apt install gcc libc6-dev")
@pytest.mark.parametrize("path", ["kit-python", "kit-c", "limit"])
def test_a_side_is_measured(path: str) -> None:
    suite = kits.prepare(("shm",), None, rounds=1, quick=True)
    (case,) = (one for one in suite.cases if one.path == path and not one.twin)
    found = suite.measure(case)
    assert tuple(found) == case.cells
    assert all(typical_us(one) > 0 for one in found.values())


def test_a_kit_that_does_not_compile_says_why(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    broken = kits.Kit("c/pendulum.c", ("sh", "-c", "echo no such header >&2; exit 1"))
    monkeypatch.setitem(vars(kits)["_KITS"], "kit-c", broken)
    with pytest.raises(EngineFailed, match="does not compile: no such header"):
        kits.compiled("kit-c", tmp_path)


def test_it_is_about_shared_memory() -> None:
    with pytest.raises(ConfigError, match="--between grpc: the engines of this suite are served over shm"):
        plan_of_kits(("grpc",), None, rounds=1, quick=True)


SAY_READY = "import pathlib, sys, time; pathlib.Path(sys.argv[1]).write_text('unix:at'); "


@pytest.mark.parametrize(
    ("program", "why"), [("time.sleep(600)", "was not ready within 0.5 s"), ("", "ended before it")]
)
def test_a_server_that_never_is_ready_is_given_up_and_ended(
    program: str, why: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(programs, "_READY_S", 0.5 if program else 60)
    monkeypatch.setattr(programs, "_GRACE_S", 0.2)
    with (
        pytest.raises(NotReachable, match=f"the server that is silent {why}"),
        serving("that is silent", [sys.executable, "-c", f"import time; {program}"]),
    ):
        pass
    until(lambda: "output of the server that is silent" not in {thread.name for thread in threading.enumerate()})


@pytest.mark.parametrize(("program", "grace_s"), [("sys.stdin.read()", 60), ("time.sleep(600)", 0.2)])
@pytest.mark.parametrize("fails", [False, True])
def test_a_server_says_its_target_and_ends_with_the_block(
    program: str, grace_s: float, fails: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(programs, "_GRACE_S", grace_s)
    with (
        pytest.raises(KeyError) if fails else nullcontext(),
        serving("of a pair", [sys.executable, "-c", SAY_READY + program]) as server,
    ):
        assert server.target == "unix:at"
        assert Path(f"/proc/{server.pid}").exists()
        if fails:
            raise KeyError
    assert not Path(f"/proc/{server.pid}").exists()


demo = partial(invoke, "demo")


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of a report."""
    pytest.importorskip("grpc")
    folder = tmp_path_factory.mktemp("demo") / "out"
    done = demo("--engine", "toy", "--num-envs", "4", "--steps", "60", "--report", str(folder), "--json")
    assert done.exit_code == 0, done.output
    assert '"hdr":' not in done.stdout
    assert json.loads(done.stdout)["engine"] == "toy"
    return folder


@pytest.fixture(scope="module")
def result(report: Path) -> dict[str, Any]:
    return json.loads((report / "demo.json").read_text())


def test_a_report_begins_with_its_answer(report: Path, result: dict[str, Any]) -> None:
    assert {path.name for path in report.iterdir()} == {"demo.html", "demo.json", "report.md"}
    _, _, top = (report / "demo.html").read_text().partition('<div class="verdict">')
    first, _, rest = top.partition("</p>")
    assert f"{result['verdict']['word']}</span> " in first
    assert "EQUAL</span>" in rest.partition("</div>")[0]


def test_all_transports_are_equal_and_measured(result: dict[str, Any]) -> None:
    assert result["parity"]["equal"] is True
    assert result["parity"]["between"] == list(PATHS)
    assert result["parity"]["compared"]["modes"]["next_step"]["steps"] == COMPARED_STEPS
    assert result["rounds"] == 6
    assert result["options"] == {"num_envs": 4, "steps": 60, "seed": 0}
    measured = [row for row in result["rows"] if row["what"] == "toy"]
    assert [row["path"] for row in measured] == list(PATHS)
    for row in measured:
        assert row["n"] == 60
        assert {"p50", "p99"} <= set(row["us"])


def test_the_transport_alone_is_measured_with_an_engine_that_does_nothing(result: dict[str, Any]) -> None:
    alone = [row for row in result["rows"] if row["what"] == "toy:idle"]
    assert [row["path"] for row in alone] == list(PATHS)
    assert all(row["rounds"] == 6 and row["n"] >= 6 * 5 for row in alone)
    assert {row["title"] for row in alone} == {"VectorEnv.step(copy=True), the transport alone, 4 envs"}
    factor = next(one for one in result["verdict"]["beside"] if one.startswith("The transport alone"))
    p50 = {row["path"]: row["us"]["p50"] for row in alone}
    assert times_text(p50["grpc"] / p50["shm"]) in factor


def test_the_speed_up_is_taken_from_the_step_and_from_the_transport_alone(result: dict[str, Any]) -> None:
    for engine in ("toy", "toy:idle"):
        ratios = {one["to"]: one for one in result["ratios"] if one["what"] == engine}
        assert set(ratios) == {"inproc", "grpc", "grpc-batch"}
        assert all(one["low"] <= one["ratio"] <= one["high"] for one in ratios.values())
    assert [one["to"] for one in headlines(result)] == ["inproc", "grpc", "grpc-batch"]
    assert {one["what"] for one in headlines(result)} == {"toy"}


def test_the_page_tells_verdict_parity_and_limits(result: dict[str, Any]) -> None:
    text = bench_page(result, "demo.json")
    assert "✓ EQUAL" in text
    assert "http" not in text
    assert text.count("<img ") == 2
    assert text.index("EQUAL") < text.index("At a glance") < text.index("Where shared memory does not win")
    assert "compared bit for bit" in text
    assert '<a href="demo.json">' in text
    assert bench_page(json.loads(json.dumps(result)), "demo.json") == text


@pytest.mark.usefixtures("without_charts")
def test_a_difference_is_told_on_the_page(result: dict[str, Any]) -> None:
    changed = json.loads(json.dumps(result))
    changed["parity"] |= {"equal": False, "sentence": "DIFFERENT: reward of env 3 differs"}
    text = bench_page(changed)
    assert "✗ DIFFERENT" in text
    assert "Reward of env 3 differs" in text


def test_an_engine_that_is_not_there_is_named_before_anything_is_written(tmp_path: Path) -> None:
    done = demo("--engine", "mujocoo", "--report", str(tmp_path))
    assert done.exit_code != 0
    assert "no engine 'mujocoo'; did you mean 'mujoco'?" in done.output
    assert not list(tmp_path.iterdir())


needs_grpc = pytest.mark.skipif(importlib.util.find_spec("grpc") is None, reason="grpcio is not installed")


def case_of(path: str, wait: str | None = None, what: str = "") -> Any:
    """Return the case that a plan has for this way."""
    plan = plan_of_stubs(("grpc", "shm"), None, rounds=1, quick=False)
    return next(one for one in cases_of(plan) if (one.path, one.wait, one.what) == (path, wait, what))


# what is measured


def test_a_transport_that_carries_no_stubs_is_refused_by_name() -> None:
    with pytest.raises(ConfigError, match=r"transport 'inproc' carries no calls.*--between grpc,shm"):
        plan_of_stubs(("grpc", "inproc"), None, rounds=5, quick=False)


# pairs of processes


def _quick(case: Any) -> Job:
    return Job(case, QUICK, plan_of_stubs(("grpc",), None, rounds=1, quick=True).options)


@needs_grpc
@pytest.mark.parametrize(
    "case",
    [
        replace(case_of("grpc-unix"), twin=True),
        case_of("shm", "adaptive"),
        case_of("shm", "block"),
        case_of("shm", "adaptive", "sizes"),
        case_of("shm", "adaptive", "asyncio"),
        case_of("pipes"),
    ],
    ids=str,
)
def test_a_pair_measures_every_cell_of_its_case(case: Any) -> None:
    """The others over gRPC are measured by tests/exhaustive/migration/cli/test_commands.py."""
    found = measure_pair(_quick(case))
    assert tuple(found) == case.cells
    for cell, measured in found.items():
        if isinstance(measured, Measurement):
            assert measured.samples_ns.size > 0
            assert (measured.rate_achieved is None) == (cell.rate_hz is None)
            assert measured.engine_cpu_ns is not None
        else:
            assert isinstance(measured, StreamMeasurement)
            assert measured.n > 0


@needs_grpc
def test_a_program_and_its_server_run_unchanged_under_the_launcher() -> None:
    found = programs.measure_echo(_quick(case_of("shm", "adaptive", "program")))
    assert found.samples_ns.size > 0
    assert found.warmup_ns.size > 0


@needs_grpc
def test_a_program_that_was_not_switched_is_no_measurement_of_shared_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    launcher = programs._launcher  # pyright: ignore[reportPrivateUsage]

    def elsewhere(job: Job, switch: list[str], report: Path) -> list[str]:
        return launcher(job, ["--map", "127.0.0.1:1=shm://lucky_bench_elsewhere"], report)

    monkeypatch.setattr(programs, "_launcher", elsewhere)
    with pytest.raises(NotReachable, match=r"was not switched; over gRPC: /lucky_transport.bench.Echo/Ask \(.+\)"):
        programs.measure_echo(_quick(case_of("shm", "adaptive", "program")))


def test_a_client_that_fails_is_reported_with_its_exit_report() -> None:
    complaint = r"grpc-tcp: the client failed with exit status 3\n  out of luck"
    with pytest.raises(NotReachable, match=complaint):
        program(
            [sys.executable, "-c", "import sys; print('out of luck', file=sys.stderr); sys.exit(3)"],
            _quick(case_of("grpc-tcp")),
        )


def test_a_client_that_hangs_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(programs, "_PATIENCE_S", 1.0 - 100 * QUICK.budget_s)
    with pytest.raises(PeerTimeout, match="grpc-tcp: the client did not end within 1 s"):
        program([sys.executable, "-c", "import time; time.sleep(60)"], _quick(case_of("grpc-tcp")))


def test_the_waiting_strategy_reaches_the_client_as_an_environment_variable() -> None:
    asking = [sys.executable, "-c", "import os; print(os.environ.get('LUCKY_WAIT'))"]
    assert program(asking, _quick(case_of("shm", "block"))) == b"block\n"
    assert program(asking, _quick(case_of("grpc-tcp"))) == b"None\n"


def test_what_went_wrong_in_the_client_is_raised_here(monkeypatch: pytest.MonkeyPatch) -> None:
    error = RemoteProtocolError("call 3 was answered as call 2", backend="shm", hint="look")
    monkeypatch.setattr(programs, "program", lambda command, job, stdin: programs.pickle.dumps(error))
    with pytest.raises(RemoteProtocolError, match="call 3 was answered as call 2; look"):
        measure_pair(_quick(case_of("shm", "adaptive")))


@needs_grpc
def test_the_server_process_ends_with_its_client_and_leaves_no_socket() -> None:
    from lucky_transport_migration.bench.stubs import client

    with client.served("grpc-unix", 1000) as server:
        socket = Path(server.target.removeprefix("unix:"))
        assert socket.exists()
        assert Path(f"/proc/{server.pid}").exists()
        with pytest.raises(RemoteProtocolError):
            client.ask_nobody("grpc-unix", server.target, client.question(1, 100))
    assert not socket.parent.exists()
    assert not Path(f"/proc/{server.pid}").exists()


# what is checked while it is timed


def _answering(answer: Callable[[int], int]) -> Callable[[Any], Any]:
    """A unary call that answers the number n as if it had been `answer(n)`."""
    from lucky_transport_migration.bench.stubs.client import number_of, question

    return lambda request: question(answer(number_of(request)), 100)


class _Items(Iterator[Any]):
    """A stream of numbered items that is told of its end."""

    def __init__(self, *numbers: int) -> None:
        self._items = iter(SimpleNamespace(value=number.to_bytes(8, "little") + bytes(992)) for number in numbers)
        self.cancelled = False

    def __next__(self) -> Any:
        return next(self._items)

    def cancel(self) -> None:
        self.cancelled = True


def _measured(measure: str, call: Any, *given: Any) -> Any:
    """Measure a call with that function of the client's module."""
    from lucky_transport_migration.bench.stubs import client

    return getattr(client, measure)(call, *given, QUICK, None)


def _together(numbers: list[int]) -> Any:
    """Make calls at once that are answered with these numbers."""
    from lucky_transport_migration.bench.stubs import client

    futures = [SimpleNamespace(result=partial(client.question, number, 100)) for number in numbers]
    return client.ask_together(lambda _: futures.pop(), client.question(7, 100))


async def _awaited(request: Any) -> Any:
    return _answering(lambda number: number - (number == 3))(request)


#: What is measured while something is wrong, and the complaint.
WRONG: dict[str, tuple[Callable[[], Any], str]] = {
    "stale": (lambda: _measured("measure_unary", _answering(lambda n: n - (n == 3)), 100, None), "lost or doubled"),
    "stale at a rate": (
        lambda: _measured("measure_unary", _answering(lambda n: n - (n == 3)), 100, 200),
        "lost or doubled",
    ),
    "other bytes": (
        lambda: _measured("measure_bytes", lambda content: SimpleNamespace(value=bytes(1000)), "value", 1000),
        "lost or doubled",
    ),
    "one of many": (lambda: _together([7, 7, 8] * 10), "were answered together"),
    "of another caller": (
        lambda: _measured("measure_callers", _answering(lambda n: n + (n == 7)), 100, 4),
        "call 7 was answered as call 8",
    ),
    "awaited": (
        lambda: asyncio.run(_measured("measure_awaited", _awaited, 100)),
        "frame 2 came where frame 3 was due",
    ),
}


@needs_grpc
@pytest.mark.parametrize("wrong", WRONG)
def test_an_answer_that_belongs_to_another_call_ends_the_measurement(wrong: str) -> None:
    measured, complaint = WRONG[wrong]
    before = set(threading.enumerate())
    with pytest.raises(RemoteProtocolError, match=complaint):
        measured()
    until_none_left(lambda: set(threading.enumerate()) - before)


@needs_grpc
@pytest.mark.parametrize(
    ("stream", "complaint"),
    [
        (_Items(0, 2), "item 2 of 1000 bytes where item 1"),
        (_Items(0), "the stream ended before it could be measured"),
    ],
)
def test_a_wrong_item_ends_the_measurement_and_the_stream(stream: _Items, complaint: str) -> None:
    with pytest.raises(RemoteProtocolError, match=complaint):
        _measured("measure_stream", lambda request: stream, 1000)
    assert stream.cancelled


@needs_grpc
def test_every_one_of_many_callers_is_counted() -> None:
    from lucky_transport_migration.bench.stubs.client import measure_callers

    callers: set[int] = set()
    echo = _answering(lambda number: number)

    def call(request: Any) -> Any:
        callers.add(threading.get_ident())
        time.sleep(0.001)
        return echo(request)

    before = set(threading.enumerate())
    found = measure_callers(call, 100, 4, QUICK, None)
    assert len(callers) == 4
    assert found.n > 0
    assert found.us_each > 0
    until_none_left(lambda: set(threading.enumerate()) - before)

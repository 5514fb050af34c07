"""The suite of stubs: what is measured, how answers are checked meanwhile, and what the result says."""

from __future__ import annotations

import importlib.util
import json
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from lucky_transport.errors import ConfigError, NotReachable, PeerTimeout, RemoteProtocolError
from lucky_transport_migration.bench import targets
from lucky_transport_migration.bench.flow import StreamMeasurement
from lucky_transport_migration.bench.measuring import QUICK, Measurement
from lucky_transport_migration.bench.report import bench_markdown, bench_page, without_histograms
from lucky_transport_migration.bench.run import PreparedSuite, Results
from lucky_transport_migration.bench.suite import Case
from lucky_transport_migration.bench.suites import stubs
from lucky_transport_migration.bench.suites.stubs import STUBS, cases_of, plan_of_stubs, prepare
from lucky_transport_migration.bench.workloads.stubs import pair, programs
from lucky_transport_migration.bench.workloads.stubs.pair import Job, measure_pair, program
from tests.support.waiting import until_none_left

needs_grpc = pytest.mark.skipif(importlib.util.find_spec("grpc") is None, reason="grpcio is not installed")

#: Made-up microseconds of every row, by way.
TYPICAL_US = {"grpc-tcp": 400.0, "grpc-unix": 300.0, "adaptive": 20.0, "block": 80.0}


def case_of(path: str, wait: str | None = None, what: str = "") -> Case:
    """Return the case that a plan has for this way."""
    plan = plan_of_stubs(("grpc", "shm"), None, rounds=1, quick=False)
    return next(one for one in cases_of(plan) if (one.path, one.wait, one.what) == (path, wait, what))


def made_up(case: Case, index: int) -> dict[Any, Any]:
    """Measurements in which adaptive shm is 20 times faster than gRPC over TCP and takes a tenth of its CPU."""
    found: dict[Any, Any] = {}
    for cell in case.cells:
        us = TYPICAL_US[cell.wait or cell.path] * (1 + index / 100)
        cpu_ns = 10**6 if cell.path == "shm" else 10**7
        if cell.kind in ("stream", "callers", "program"):
            engine_cpu_ns = None if cell.kind == "program" else cpu_ns
            found[cell] = StreamMeasurement(1000, int(us * 1e6), cpu_ns, engine_cpu_ns)
        else:
            samples = np.full(600, int(us * 1000), np.int64)
            found[cell] = Measurement(samples, samples[:5], cpu_ns, cpu_ns, False, True if cell.rate_hz else None)
    return found


@pytest.fixture
def prepared() -> PreparedSuite:
    return prepare(("grpc", "shm"), None, rounds=6, quick=False)


@pytest.fixture
def result(prepared: PreparedSuite) -> dict[str, Any]:
    results = Results()
    for index in range(prepared.plan.rounds):
        for case in prepared.cases:
            results.add(case, made_up(case, index))
    return prepared.result_of(results, "lucky-transport bench --suite stubs", load=0.0)


# what is measured


def test_grpc_stands_for_loopback_tcp_and_a_unix_socket() -> None:
    assert plan_of_stubs(("grpc", "shm"), None, rounds=5, quick=False).paths == ("grpc-tcp", "grpc-unix", "shm")


def test_a_transport_that_carries_no_stubs_is_refused_by_name() -> None:
    with pytest.raises(ConfigError, match=r"transport 'inproc' carries no calls.*--between grpc,shm"):
        plan_of_stubs(("grpc", "inproc"), None, rounds=5, quick=False)


def test_each_way_of_waiting_asyncio_and_whole_programs_have_processes_of_their_own() -> None:
    plan = plan_of_stubs(("grpc", "shm"), None, rounds=5, quick=False)
    assert [str(case) for case in cases_of(plan)] == [
        "grpc-tcp",
        "grpc-unix",
        "shm adaptive",
        "shm block",
        "grpc-tcp, sizes",
        "grpc-unix, sizes",
        "shm adaptive, sizes",
        "grpc-tcp, asyncio",
        "grpc-unix, asyncio",
        "shm adaptive, asyncio",
        "grpc-tcp, program",
        "shm adaptive, program",
    ]


def test_calls_are_measured_in_the_pool_and_inline_flat_out_and_at_fifty_a_second() -> None:
    cells = case_of("shm", "adaptive").cells
    assert {(cell.what, cell.rate_hz) for cell in cells if cell.kind == "unary"} == {
        ("pool", None),
        ("pool", 50),
        ("inline", None),
        ("inline", 50),
    }
    assert [cell.kind for cell in cells if cell.kind != "unary"] == ["stream", "callers"]


# pairs of processes


def _quick(case: Case) -> Job:
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
    ],
    ids=str,
)
def test_a_pair_measures_every_cell_of_its_case(case: Case) -> None:
    """The others over gRPC are measured by tests/exhaustive/migration/cli/test_bench.py."""
    found = measure_pair(_quick(case))
    assert tuple(found) == case.cells
    for cell, measured in found.items():
        if isinstance(measured, Measurement):
            assert measured.samples_ns.size > 0
            assert measured.rate_achieved is None or cell.rate_hz == 50
            assert measured.engine_cpu_ns is not None
        else:
            assert isinstance(measured, StreamMeasurement)
            assert measured.n > 0


@needs_grpc
def test_a_program_and_its_server_run_unchanged_under_the_launcher() -> None:
    assert programs.measure_echo(_quick(case_of("shm", "adaptive", "program"))).n > 0


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
    monkeypatch.setattr(pair, "_PATIENCE_S", 1.0 - 100 * QUICK.budget_s)
    with pytest.raises(PeerTimeout, match="grpc-tcp: the client did not end within 1 s"):
        program([sys.executable, "-c", "import time; time.sleep(60)"], _quick(case_of("grpc-tcp")))


def test_the_waiting_strategy_reaches_the_client_as_an_environment_variable() -> None:
    asking = [sys.executable, "-c", "import os; print(os.environ.get('LUCKY_WAIT'))"]
    assert program(asking, _quick(case_of("shm", "block"))) == b"block\n"
    assert program(asking, _quick(case_of("grpc-tcp"))) == b"None\n"


def test_what_went_wrong_in_the_client_is_raised_here(monkeypatch: pytest.MonkeyPatch) -> None:
    error = RemoteProtocolError("call 3 was answered as call 2", backend="shm", hint="look")
    monkeypatch.setattr(pair, "program", lambda command, job, stdin: pair.pickle.dumps(error))
    with pytest.raises(RemoteProtocolError, match="call 3 was answered as call 2; look"):
        measure_pair(_quick(case_of("shm", "adaptive")))


@needs_grpc
def test_the_server_process_ends_with_its_client_and_leaves_no_socket() -> None:
    from lucky_transport_migration.bench.workloads.stubs.client import served

    with served("grpc-unix", 1000) as server:
        socket = Path(server.ready.removeprefix("unix:"))
        assert socket.exists()
        assert Path(f"/proc/{server.pid}").exists()
    assert not socket.parent.exists()
    assert not Path(f"/proc/{server.pid}").exists()


@needs_grpc
def test_a_server_that_cannot_start_is_not_reachable() -> None:
    from lucky_transport_migration.bench.workloads.stubs.client import served

    with (
        pytest.raises(NotReachable, match="the server over grpc-tcp ended before it was ready"),
        served("grpc-tcp", -1000),
    ):
        pass


# what is checked while it is timed


def _answering(answer: Callable[[int], int]) -> Callable[[Any], Any]:
    """A unary call that answers the number n as if it had been `answer(n)`."""
    from lucky_transport_migration.bench.workloads.stubs.client import number_of, question

    return lambda request: question(answer(number_of(request)), 100)


class _Items(Iterator[Any]):
    """A stream of numbered items that is told of its end."""

    def __init__(self, numbers: list[int], item_bytes: int = 1000) -> None:
        from google.protobuf.wrappers_pb2 import BytesValue

        self._items = iter([BytesValue(value=n.to_bytes(8, "little") + bytes(item_bytes - 8)) for n in numbers])
        self.cancelled = False

    def __next__(self) -> Any:
        return next(self._items)

    def cancel(self) -> None:
        self.cancelled = True


@needs_grpc
@pytest.mark.parametrize("rate_hz", [None, 200])
def test_an_answer_that_belongs_to_another_call_ends_the_measurement(rate_hz: int | None) -> None:
    from lucky_transport_migration.bench.workloads.stubs.client import measure_unary

    stale = _answering(lambda number: number - (number == 3))
    with pytest.raises(RemoteProtocolError, match="lost or doubled"):
        measure_unary(stale, 100, rate_hz, QUICK, None)


@needs_grpc
@pytest.mark.parametrize(
    ("answer", "complaint"),
    [
        (lambda value: value[:-1], "an answer of 999 bytes to a request of 1000"),
        (lambda value: bytes(1000), "lost or doubled"),
    ],
)
def test_bytes_that_are_not_those_that_were_sent_end_the_measurement(
    answer: Callable[[bytes], bytes], complaint: str
) -> None:
    from google.protobuf.wrappers_pb2 import BytesValue

    from lucky_transport_migration.bench.workloads.stubs.client import measure_bytes

    with pytest.raises(RemoteProtocolError, match=complaint):
        measure_bytes(lambda request: BytesValue(value=answer(request.value)), 1000, QUICK, None)


@needs_grpc
@pytest.mark.parametrize(
    ("numbers", "item_bytes", "complaint"),
    [
        ([0, 2], 1000, "item 2 of 1000 bytes where item 1"),
        ([0, 0], 1000, "item 0 of 1000 bytes where item 1"),
        ([0], 999, "item 0 of 999 bytes where item 0 of 1000"),
        ([0], 1000, "the stream ended before it could be measured"),
    ],
)
def test_a_wrong_item_ends_the_measurement_and_the_stream(numbers: list[int], item_bytes: int, complaint: str) -> None:
    from lucky_transport_migration.bench.workloads.stubs.client import measure_stream

    stream = _Items(numbers, item_bytes)  # no more than two: none can end the loop
    with pytest.raises(RemoteProtocolError, match=complaint):
        measure_stream(lambda request: stream, 1000, QUICK, None)
    assert stream.cancelled


@needs_grpc
def test_every_one_of_many_callers_is_counted() -> None:
    from lucky_transport_migration.bench.workloads.stubs.client import measure_callers

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


@needs_grpc
def test_a_callers_wrong_answer_ends_all_of_them() -> None:
    from lucky_transport_migration.bench.workloads.stubs.client import measure_callers

    before = set(threading.enumerate())
    with pytest.raises(RemoteProtocolError, match="call 7 was answered as call 8"):
        measure_callers(_answering(lambda number: number + (number == 7)), 100, 4, QUICK, None)
    until_none_left(lambda: set(threading.enumerate()) - before)


@needs_grpc
def test_an_awaited_answer_that_belongs_to_another_call_ends_the_measurement() -> None:
    import asyncio

    from lucky_transport_migration.bench.workloads.stubs.client import measure_awaited

    stale = _answering(lambda number: number - (number == 30))

    async def call(request: Any) -> Any:
        return stale(request)

    with pytest.raises(RemoteProtocolError, match="frame 29 came where frame 30 was due"):
        asyncio.run(measure_awaited(call, 100, QUICK, None))


@needs_grpc
def test_the_stub_works_with_registered_methods_and_without() -> None:
    import grpc

    from lucky_transport_migration.bench.workloads.stubs.client import number_of, question
    from lucky_transport_migration.bench.workloads.stubs.echo_stub import EchoStub, add_EchoServicer_to_server
    from lucky_transport_migration.bench.workloads.stubs.server import Echo, item_number

    class Old:
        """A server of a grpcio that knows no registered methods."""

        def __init__(self, server: Any) -> None:
            self.add_generic_rpc_handlers = server.add_generic_rpc_handlers

    for wrap in (lambda server: server, Old):
        with ThreadPoolExecutor(2) as pool:
            server = grpc.server(pool)
            add_EchoServicer_to_server(Echo(100), wrap(server))
            port = server.add_insecure_port("127.0.0.1:0")
            server.start()
            with grpc.insecure_channel(f"127.0.0.1:{port}") as channel:
                stub = EchoStub(channel)
                assert number_of(stub.Ask(question(5, 10), timeout=10)) == 5
                assert number_of(stub.AskInline(question(6, 10), timeout=10)) == 6
                three = stub.Watch(_count(3), timeout=10)
                assert [item_number(item) for item in three] == [0, 1, 2]
            server.stop(0).wait(10)


def _count(number: int) -> Any:
    from google.protobuf.wrappers_pb2 import UInt64Value

    return UInt64Value(value=number)


# the result


def test_the_result_is_json_with_one_row_per_cell(result: dict[str, Any]) -> None:
    rows = json.loads(json.dumps(without_histograms(result), allow_nan=False))["rows"]
    keys = [(row["title"], row["path"], row["wait"]) for row in rows if not row["again"]]
    assert len(set(keys)) == len(keys)
    assert {row["kind"] for row in rows} == {"unary", "stream", "callers", "bytes", "aio", "program"}
    assert result["noise_floor"]["floor"] == 1.0
    assert not any("skipped" in row for row in rows)


def test_ratios_compare_shared_memory_with_both_ways_of_grpc(result: dict[str, Any]) -> None:
    found = {(one["kind"], one["what"], one["rate_hz"], one["to"]): one for one in result["ratios"]}
    assert found["unary", "pool", None, "grpc-tcp"]["ratio"] == pytest.approx(20)
    assert found["unary", "pool", 50, "grpc-unix"]["ratio"] == pytest.approx(15)
    assert found["unary", "pool", None, "shm"]["ratio"] == pytest.approx(4)
    assert found["program", "", None, "grpc-tcp"]["ratio"] == pytest.approx(20)
    sentence = found["callers", "", None, "grpc-tcp"]["sentence"]
    assert "shared memory (adaptive) is 20.0 times faster than gRPC over loopback TCP" in sentence
    assert found["unary", "pool", None, "grpc-tcp"]["main"]
    assert not found["unary", "pool", None, "shm"]["main"]


def test_each_target_is_met_or_not(result: dict[str, Any]) -> None:
    found = {one["name"]: one for one in targets.check(result, STUBS.targets)}
    assert len(found) == len(STUBS.targets)
    assert found["unary, pool, adaptive: gRPC over a unix socket over shm"]["measured"] == pytest.approx(15)
    assert found["unary, pool, block: gRPC over TCP over shm"]["measured"] == pytest.approx(5)
    assert found["16 concurrent callers: gRPC over TCP over shm"]["word"] == "PASS"
    assert found["CPU seconds per 10,000 calls, both processes: shm over gRPC over TCP"]["measured"] == pytest.approx(
        0.1
    )
    for row in result["rows"]:
        if (row["kind"], row["what"], row["path"]) == ("unary", "pool", "shm"):
            row["cpu_us_each"]["engine"] *= 10
    found = {one["name"]: one for one in targets.check(result, STUBS.targets)}
    assert found["CPU seconds per 10,000 calls, both processes: shm over gRPC over TCP"]["word"] == "FAIL"


def test_without_grpc_in_the_run_no_target_is_measured(result: dict[str, Any]) -> None:
    result["rows"] = [row for row in result["rows"] if row["path"] == "shm"]
    result["ratios"] = []
    assert {one["word"] for one in targets.check(result, STUBS.targets)} == {"NOT MEASURED"}


def test_page_and_markdown_show_targets_and_rows(result: dict[str, Any]) -> None:
    result["targets"] = targets.check(result, STUBS.targets)
    for text in (bench_page(result), bench_markdown(result)):
        for part in ("Existing gRPC code over shared memory", "handler pool", "PASS", "unmodified program"):
            assert part in text
    cells = bench_markdown(result).count("**1.00×**")
    assert cells == len([row for row in result["rows"] if row["wait"] == "adaptive"])


def test_each_kind_of_call_is_one_big_number_beside_what_a_switch_leaves(result: dict[str, Any]) -> None:
    kinds = {one["title"] for one in result["ratios"] if one["main"]}
    assert bench_page(result).count("<li><b>") == len(kinds) < sum(one["main"] for one in result["ratios"])


def test_what_was_looked_at_while_timing_is_said_once_and_not_in_the_verdict(result: dict[str, Any]) -> None:
    page = bench_page(result)
    (sentence,) = (one for one in result["verdict"]["beside"] if "ooked at" in one)
    assert page.count(sentence) == 1
    assert page.index("</div>") < page.index("What was looked at while timing") < page.index(sentence)


def test_a_run_calls_advance_once_per_piece(prepared: PreparedSuite, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[Case] = []

    def measured(job: Job) -> Any:
        seen.append(job.case)
        return made_up(job.case, 0)

    monkeypatch.setattr(stubs, "measure_pair", measured)
    monkeypatch.setattr(stubs, "measure_echo", lambda job: next(iter(measured(job).values())))
    texts: list[str] = []
    prepared.run("lucky-transport bench", texts.append)
    assert len(texts) == prepared.pieces == len(seen)
    half = len(prepared.cases)
    assert seen[half : 2 * half] == list(reversed(seen[:half])), "A B, then B A"

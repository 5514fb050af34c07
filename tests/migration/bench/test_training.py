"""The suite of training: what is measured, in which order, and what the result says."""

from __future__ import annotations

import copy
import importlib.util
import sys
import threading
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from lucky_transport import api
from lucky_transport.errors import PeerTimeout
from lucky_transport_migration.bench import targets
from lucky_transport_migration.bench.flow import StreamMeasurement
from lucky_transport_migration.bench.measuring import QUICK
from lucky_transport_migration.bench.report import bench_markdown, bench_page
from lucky_transport_migration.bench.run import Results
from lucky_transport_migration.bench.suite import Cell
from lucky_transport_migration.bench.suites import training
from lucky_transport_migration.bench.suites.training import (
    TRAINING,
    Training,
    cases_of,
    measure_training,
    plan_of_training,
    prepare,
)
from lucky_transport_migration.bench.workloads.stubs import programs
from lucky_transport_migration.bench.workloads.stubs.pair import Job
from tests.support.fake_cuda import FakeTorch

TARGET = "training loop of 1 ms steps: rate lost beside two streams"


def made_up(cell: Cell) -> Any:
    """A loop that loses 3 % over shm and 20 % over gRPC, and a LuckyEnv loop that is 20 times as fast over shm.

    A policy on a GPU steps in 100 us, in 120 over device memory alone, in 40,000 over gRPC and in 500 everywhere else.
    """
    if cell.kind.startswith("gpu"):
        us = {"one-process": 100, "device-only": 120, "grpc-batch": 40_000}.get(cell.path, 500)
        return StreamMeasurement(1000, us * 10**6, 10**7, None)
    if cell.kind == "luckyenv":
        return StreamMeasurement(1000, 10**9 if cell.path == "shm" else 20 * 10**9, 10**7, None)
    return Training(1000.0, 800.0 if cell.path == "grpc" else 970.0, 100.0, 30.0, 500)


@pytest.fixture
def result(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    monkeypatch.setattr(training, "why_no_luckyenv", lambda: None)
    monkeypatch.setattr(training, "why_no_gpu", lambda: None)
    prepared = prepare(("grpc", "shm"), None, rounds=6, quick=False)
    results = Results()
    for _ in range(prepared.plan.rounds):
        for case in prepared.cases:
            results.add(case, {cell: made_up(cell) for cell in case.cells})
    return prepared.result_of(results, "lucky-transport bench --suite training", load=0.0)


def test_the_loops_run_over_each_transport_in_process_and_unchanged_under_the_launcher(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(training, "why_no_luckyenv", lambda: None)
    cases = prepare(("grpc", "shm"), None, rounds=1, quick=True).cases
    assert [str(case) for case in cases if not case.twin] == [
        "grpc",
        "shm adaptive",
        "inproc",
        "grpc-tcp, luckyenv",
        "shm adaptive, luckyenv",
    ]


def test_without_luckyrobots_there_is_no_luckyenv_loop_and_a_note_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    installed = importlib.util.find_spec

    def without(name: str) -> Any:
        return None if name == "luckyrobots" else installed(name) or object()

    monkeypatch.setattr(programs.importlib.util, "find_spec", without)
    prepared = prepare(("grpc", "shm"), None, rounds=1, quick=True)
    assert "no LuckyEnv training loop: luckyrobots is not installed" in prepared.notes
    assert all(case.what != "luckyenv" for case in prepared.cases)


@pytest.mark.parametrize(("quick", "sizes"), [(True, 1), (False, 3)])
def test_a_policy_on_a_gpu_is_measured_in_each_size_and_on_each_path(
    monkeypatch: pytest.MonkeyPatch, quick: bool, sizes: int
) -> None:
    monkeypatch.setattr(training, "why_no_luckyenv", lambda: "not here")
    monkeypatch.setattr(training, "why_no_gpu", lambda: None)
    prepared = prepare(("grpc", "shm"), None, rounds=1, quick=quick)
    ways = [str(case) for case in prepared.cases if case.what.startswith("gpu") and not case.twin]
    assert len(ways) == 8 * sizes
    assert [way for way in ways if way.endswith("64 x 48")] == [
        "grpc-batch, gpu, 64 x 48",
        "shm adaptive, gpu, 64 x 48",
        "tensor-copy, gpu, 64 x 48",
        "tensor-view, gpu, 64 x 48",
        "device-copy, gpu, 64 x 48",
        "device-view, gpu, 64 x 48",
        "device-only, gpu, 64 x 48",
        "one-process, gpu, 64 x 48",
    ]


@pytest.mark.parametrize("torch", [None, FakeTorch(devices=0)], ids=["none", "no device"])
def test_without_a_gpu_there_is_no_such_policy_and_a_note_says_why(monkeypatch: pytest.MonkeyPatch, torch: Any) -> None:
    monkeypatch.setattr(training, "why_no_luckyenv", lambda: None)
    monkeypatch.setitem(sys.modules, "torch", torch)
    prepared = prepare(("shm",), None, rounds=1, quick=True)
    (note,) = prepared.notes
    why = "torch cannot be imported: " if torch is None else "PyTorch 2.0.fake sees no CUDA device"
    assert note.startswith(f"no policy on a GPU: {why}")
    assert all(not case.what.startswith("gpu") for case in prepared.cases)


def test_a_loop_is_measured_over_a_transport_without_processes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(training, "why_no_luckyenv", lambda: "no LuckyEnv training loop: not here")
    found = prepare(("inproc",), None, rounds=1, quick=True).run("lucky-transport bench --suite training")
    row, again = found["rows"]
    assert again["again"]
    assert (row["kind"], row["path"], row["n"] > 0) == ("training", "inproc", True)
    assert "no LuckyEnv training loop: not here" in found["notes"]


def test_a_row_tells_what_the_loop_lost_and_what_the_streams_got(result: dict[str, Any]) -> None:
    (row,) = [row for row in result["rows"] if row["kind"] == "training" and row["path"] == "shm" and not row["again"]]
    assert row["loss_percent"] == pytest.approx(3.0)
    assert (row["telemetry_per_s"], row["camera_per_s"]) == (100.0, 30.0)


def test_ratios_compare_the_loops_over_shared_memory_with_those_over_grpc(result: dict[str, Any]) -> None:
    found = {(one["kind"], one["to"]): one["ratio"] for one in result["ratios"]}
    assert found["luckyenv", "grpc-tcp"] == pytest.approx(20)
    assert found["training", "grpc"] == pytest.approx(970 / 800)
    assert found["training", "inproc"] == pytest.approx(1)


@pytest.mark.parametrize(("loss", "word"), [(3.0, "PASS"), (5.1, "FAIL")])
def test_the_target_is_met_or_missed_by_what_the_loop_lost(result: dict[str, Any], loss: float, word: str) -> None:
    result = copy.deepcopy(result)
    for row in result["rows"]:
        if row["kind"] == "training":
            row["loss_percent"] = loss
    found, *of_a_gpu = targets.check(result, TRAINING.targets)
    assert (found["name"], found["word"]) == (TARGET, word)
    assert [(one["word"], one["measured"]) for one in of_a_gpu] == [
        ("PASS", 1.2),
        ("PASS", 1.2),
        ("PASS", 333.333),
        ("PASS", 1.0),
    ]


def test_page_and_markdown_show_the_loops(result: dict[str, Any]) -> None:
    result["targets"] = targets.check(result, TRAINING.targets)
    for text in (bench_page(result), bench_markdown(result)):
        for part in (
            "Training loops",
            "LuckyEnv",
            "beside two streams",
            "3.0",
            "policy on a GPU, 256 x 28,224 floats, free run",
            "device memory alone",
        ):
            assert part in text


def test_the_streams_beside_a_training_loop_are_counted_and_end_with_it() -> None:
    with api.serve("echo", "inproc://echo", options={"width": 8, "height": 4}), api.connect("inproc://echo") as client:
        found = measure_training(client, QUICK)
    assert found.alone_hz > 0
    assert found.beside_hz > 0


class _Stream:
    """Brings `items` items and then nothing until it is cancelled."""

    def __init__(self, items: int) -> None:
        self._left, self.cancelled = items, threading.Event()

    def __iter__(self) -> Iterator[int]:
        return self

    def __next__(self) -> int:
        if self._left and not self.cancelled.is_set():
            self._left -= 1
            return self._left
        self.cancelled.wait()
        raise StopIteration

    def cancel(self) -> None:
        self.cancelled.set()


@pytest.mark.parametrize(("telemetry", "camera"), [(0, 10**9), (10**9, 0), (1, 10**9), (10**9, 1)])
def test_streams_that_bring_nothing_beside_a_training_loop_give_no_row(
    telemetry: int, camera: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(training, "_PATIENCE_S", 0.2)
    streams = _Stream(telemetry), _Stream(camera)
    client: Any = SimpleNamespace(
        spec=SimpleNamespace(action_shape=(1,), action=SimpleNamespace(dtype="f4")),
        transport=SimpleNamespace(step=lambda actions: None),
        telemetry=SimpleNamespace(stream=lambda fps: streams[0]),
        camera=SimpleNamespace(stream=lambda name, fps: streams[1]),
    )
    dead = "telemetry stream" if telemetry < camera else "camera stream"
    with pytest.raises(PeerTimeout, match=rf"^{dead}: no item within 0.2 s"):
        measure_training(client, QUICK)
    assert all(one.cancelled.is_set() for one in streams)


@pytest.mark.skipif(importlib.util.find_spec("grpc") is None, reason="grpcio is not installed")
def test_a_training_program_runs_unchanged_over_grpc_and_under_the_launcher() -> None:
    missing = programs.why_no_luckyenv()
    if missing:
        pytest.skip(missing)
    plan = plan_of_training(("grpc", "shm"), None, rounds=1, quick=True)
    for case in cases_of(plan, luckyenv=True):
        if case.what == "luckyenv":
            assert programs.measure_luckyenv(Job(case, QUICK, plan.options)).n > 0

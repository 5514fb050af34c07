"""The suite of training: what is measured, in which order."""

from __future__ import annotations

import importlib.util
import threading
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from lucky_transport import api
from lucky_transport.errors import PeerTimeout
from lucky_transport_migration.bench.measuring import QUICK
from lucky_transport_migration.bench.stubs import programs
from lucky_transport_migration.bench.stubs.programs import Job
from lucky_transport_migration.bench.suites import training
from lucky_transport_migration.bench.suites.training import cases_of, measure_training, plan_of_training, prepare


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


def test_a_loop_is_measured_over_a_transport_without_processes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(training, "why_no_luckyenv", lambda: "no LuckyEnv training loop: not here")
    found = prepare(("inproc",), None, rounds=1, quick=True).run("lucky-transport bench --suite training")
    row, again = found["rows"]
    assert again["again"]
    assert (row["kind"], row["path"], row["n"] > 0) == ("training", "inproc", True)
    assert "no LuckyEnv training loop: not here" in found["notes"]


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

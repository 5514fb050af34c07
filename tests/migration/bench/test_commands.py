"""The suites of commands and of training, and the engine that they measure: a wrong answer is told."""

import importlib.util
import sys
import threading
import time
from collections.abc import Iterator
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest

from lucky_transport import api
from lucky_transport.errors import ConfigError, PeerTimeout, RemoteProtocolError, SpecError, UnknownName
from lucky_transport.messages import ImageFrame, PolicySlotSummary, SetStateResponse
from lucky_transport_migration.bench.echo_engine import EchoEngine, shade
from lucky_transport_migration.bench.measuring import QUICK
from lucky_transport_migration.bench.stubs import programs
from lucky_transport_migration.bench.stubs.programs import Job
from lucky_transport_migration.bench.suite import Cell
from lucky_transport_migration.bench.suites import training
from lucky_transport_migration.bench.suites.commands import cases_of, measure, measure_commands, plan_of_commands
from lucky_transport_migration.bench.suites.training import measure_training, plan_of_training, prepare


def test_every_cell_is_measured_over_a_transport_without_processes() -> None:
    plan = plan_of_commands(("inproc",), None, rounds=1, quick=True)
    for case in cases_of(plan):
        assert tuple(measure_commands(case, plan)) == case.cells


class Forger(EchoEngine):
    """An echo engine that gets one thing wrong; `wrong` says what."""

    def __init__(self, wrong: str) -> None:
        super().__init__(width=8, height=4)
        self._wrong = wrong

    @property
    def services(self) -> dict[str, Any]:
        found = dict(super().services)
        if self._wrong == "short":
            found["/lucky_transport.v1.StateService/SetState"] = lambda request, call=None: SetStateResponse(b"short")
        return found

    @property
    def streams(self) -> dict[str, Any]:
        def items(request: Any, call: Any) -> Any:
            for number in (0, 1, 3) if self._wrong == "lost" else (0, 1, 1):
                yield PolicySlotSummary(slot_id=number, name="x" * 1000)

        def images(request: Any, call: Any) -> Any:
            pixels = bytearray(bytes([shade(1)]) * 128)
            if self._wrong == "torn":
                pixels[-1] = shade(2)
            while True:
                yield ImageFrame(bytes(pixels), 8, 4, 4, "raw", 0, 1)

        return {"/hazel.rpc.AgentService/StreamPolicySlotState": items, "/hazel.rpc.CameraService/StreamCamera": images}


@pytest.mark.parametrize(
    ("kind", "wrong", "complaint"),
    [
        ("messages", "lost", "item 3 of 1000 bytes where item 2"),
        ("messages", "doubled", "item 1 of 1000 bytes where item 2"),
        ("bytes", "short", "an answer of 5 bytes to a request of 1000"),
        ("view", "torn", "is torn"),
        ("copy", "torn", "is torn"),
        ("view", "stale", "image 1 came after image 1"),
        ("copy", "stale", "image 1 came after image 1"),
    ],
)
def test_a_wrong_answer_ends_the_measurement(kind: str, wrong: str, complaint: str) -> None:
    plan = plan_of_commands(("inproc",), None, rounds=1, quick=True)
    cells = {"messages": Cell("stream", "inproc", size=1000), "bytes": Cell("bytes", "inproc", size=1000)}
    with (
        api.serve(Forger(wrong), "inproc://forger"),
        api.connect("inproc://forger") as client,
        pytest.raises(RemoteProtocolError, match=complaint),
    ):
        measure(client, cells.get(kind, Cell("images", "inproc", kind)), plan, None)


def test_the_engine_answers_with_what_it_was_asked() -> None:
    with api.serve("echo", "inproc://echo"), api.connect("inproc://echo") as client:
        assert client.lidar.get_beam_count(7).beams == 7
        assert client.lidar.get_beam_angles(8).beams == 8


@pytest.mark.parametrize("options", [{"width": 0}, {"item_bytes": -1}])
def test_the_engine_refuses_impossible_options(options: dict[str, Any]) -> None:
    with pytest.raises(SpecError, match="echo engine"):
        api.make_engine("echo", **options)
    with pytest.raises(ConfigError, match=r"engine 'echo' has no option 'hieght'; did you mean 'height'\? options: "):
        api.make_engine("echo", hieght=5)
    with pytest.raises(UnknownName, match="engine 'echo' has no variant 'loud'; use echo"):
        api.make_engine("echo:loud")


def test_a_step_takes_as_long_as_it_was_told_and_changes_nothing() -> None:
    with api.serve("echo", "inproc://echo", options={"step_s": 0.002}), api.connect("inproc://echo") as client:
        start = time.perf_counter()
        frame = client.transport.step(np.zeros(client.spec.action_shape, np.float32))
        assert time.perf_counter() - start >= 0.002
        assert not frame.observations.any()
        assert client.spec.engine == "echo"


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
    monkeypatch.setitem(sys.modules, "mujoco", ModuleType("mujoco"))
    monkeypatch.setitem(sys.modules, "luckyrobots", None)
    prepared = prepare(("grpc", "shm"), None, rounds=1, quick=True)
    assert prepared.notes[0].startswith("no LuckyEnv training loop: ModuleNotFoundError: import of luckyrobots")
    assert all(case.what != "luckyenv" for case in prepared.cases)


def test_a_loop_is_measured_over_a_transport_without_processes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(training, "why_no_luckyenv", lambda: "no LuckyEnv training loop: not here")
    found = prepare(("inproc",), None, rounds=1, quick=True).run("lucky-transport bench --suite training")
    row, again = found["rows"]
    assert again["again"]
    assert (row["kind"], row["path"], row["n"] > 0) == ("training", "inproc", True)
    assert "no LuckyEnv training loop: not here" in found["notes"]


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


def _beside(telemetry: _Stream, camera: _Stream) -> Any:
    """Return a client whose steps take no time, with these streams."""
    return SimpleNamespace(
        spec=SimpleNamespace(action_shape=(1,), action=SimpleNamespace(dtype="f4")),
        transport=SimpleNamespace(step=lambda actions: None),
        telemetry=SimpleNamespace(stream=lambda fps: telemetry),
        camera=SimpleNamespace(stream=lambda name, fps: camera),
    )


def test_what_ends_a_stream_beside_a_training_loop_is_raised(monkeypatch: pytest.MonkeyPatch) -> None:
    broken, other = _Stream(1), _Stream(10**9)
    broken.cancelled.set()
    monkeypatch.setattr(broken.cancelled, "wait", {}.popitem)
    with pytest.raises(KeyError):
        measure_training(_beside(broken, other), QUICK)
    assert other.cancelled.is_set()


@pytest.mark.parametrize(("telemetry", "camera"), [(0, 10**9), (10**9, 0), (1, 10**9), (10**9, 1)])
def test_streams_that_bring_nothing_beside_a_training_loop_give_no_row(
    telemetry: int, camera: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(training, "_PATIENCE_S", 0.2)
    streams = _Stream(telemetry), _Stream(camera)
    dead = "telemetry stream" if telemetry < camera else "camera stream"
    with pytest.raises(PeerTimeout, match=rf"^{dead}: no item within 0.2 s"):
        measure_training(_beside(*streams), QUICK)
    assert all(one.cancelled.is_set() for one in streams)


@pytest.mark.skipif(importlib.util.find_spec("grpc") is None, reason="grpcio is not installed")
def test_a_training_program_runs_unchanged_over_grpc_and_under_the_launcher() -> None:
    missing = programs.why_no_luckyenv()
    if missing:
        pytest.skip(missing)
    plan = plan_of_training(("grpc", "shm"), None, rounds=1, quick=True)
    for case in training.cases_of(plan, luckyenv=True):
        if case.what == "luckyenv":
            assert programs.measure_luckyenv(Job(case, QUICK, plan.options)).n > 0

"""The suite of training: what is measured, in which order; and the page of a training, made of numbers."""

from __future__ import annotations

import importlib.util
import re
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from PIL import Image

from lucky_transport import api
from lucky_transport.errors import PeerTimeout
from lucky_transport_migration.bench.measuring import QUICK
from lucky_transport_migration.bench.suites import training
from lucky_transport_migration.bench.suites.training import cases_of, measure_training, plan_of_training, prepare
from lucky_transport_migration.bench.workloads.stubs import programs
from lucky_transport_migration.bench.workloads.stubs.pair import Job
from lucky_transport_migration.training.page import share, training_page, write_page
from tests.support.fake_cuda import FakeTorch

pytest.importorskip("matplotlib")


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


def made_up(*, equal: bool = True, compared: bool = True, pictures: int = 8) -> dict[str, Any]:
    rows = [
        {
            "env_steps": 2048 * number,
            "reward": 0.2 + 0.01 * number,
            "terms": {"track_lin_vel_xy": 0.01 * number, "track_ang_vel_z": 0.1, "gait": 0.02 * number, "floor": 0.0},
        }
        for number in range(1, 41)
    ]
    times = {"seconds": 2.0, "env_us": 4000.0, "policy_us": 500.0, "learning_us": 1400.0, "updates": 3}
    comparison = [
        {"transport": name, "equal": equal, "rewards": [0.1, 0.2, 0.3], "alone_us": alone, **times}
        for name, alone in (("grpc", 590.0), ("shm", 59.0), ("inproc", 6.0))
    ]
    return {
        "engine": "mujoco:quadruped-walk",
        "num_envs": 64,
        "updates": 40,
        "transport": "shm",
        "seed": 0,
        "command": "lucky-transport train",
        "measured_at": "2026-01-02 03:04 UTC",
        "env_steps": 81920,
        "horizon": 32,
        "seconds": 12.0,
        "still": 0.5,
        "evaluated": 1.0,
        "evaluated_steps": 500,
        "rows": rows,
        "comparison": comparison if compared else [],
        "equal": equal,
        "pictures": [np.full((6, 8, 3), 20 * number, np.uint8) for number in range(pictures)],
        "picture_steps": 3,
        "machine": {"processor": "2 <cores>"},
        "verdict": ["After 12 s the policy earns 2.00 times <that>.", "EQUAL: the first 3 updates are the same."],
    }


def test_the_page_is_one_file_without_scripts_or_addresses() -> None:
    page = training_page(made_up())
    assert "<script" not in page
    outside = set(re.findall(r"""(?:src|href|url)[=(]["']?(\w+:)""", page))
    assert outside == {"data:"}
    assert page.count('src="data:image/jpeg') == 8
    assert page.count('src="data:image/svg') == 4
    assert "2 &lt;cores&gt;" in page
    assert "times &lt;that&gt;" in page
    assert training_page(made_up()) == page


def test_it_says_whether_the_curves_are_equal() -> None:
    assert "✓ EQUAL" in training_page(made_up())
    other = made_up(equal=False) | {"verdict": ["It learnt.", "DIFFERENT: they are not the same."]}
    assert "✗ DIFFERENT" in training_page(other)


def test_without_comparison_and_pictures_there_is_still_a_page() -> None:
    result = made_up(compared=False, pictures=0) | {"verdict": ["It learnt."]}
    page = training_page(result)
    assert page.count('src="data:image/svg') == page.count("<img ") == 2
    assert "EQUAL" not in page


def test_the_numbers_lie_beside_the_page(tmp_path: Path) -> None:
    page = write_page(made_up(), tmp_path / "new")
    assert page.name == "training.html"
    assert {path.name for path in page.parent.iterdir()} == {"training.html", "training.json", "walking.jpg"}


def test_the_pictures_of_all_moments_are_one_image(tmp_path: Path) -> None:
    result = made_up(pictures=5)
    height, width = result["pictures"][0].shape[:2]
    with Image.open(write_page(result, tmp_path).with_name("walking.jpg")) as image:
        assert image.size == (960, round(960 * 2 * height / (4 * width)))  # two rows of four, the last three empty
    without = tmp_path / "without"
    write_page(made_up(pictures=0), without)
    assert not (without / "walking.jpg").exists()


def test_the_share_is_that_of_a_whole_training_step() -> None:
    assert share({"alone_us": 59.0, "env_us": 4000.0, "policy_us": 500.0, "learning_us": 1400.0}) == pytest.approx(0.01)


def test_the_charts_tell_their_numbers_in_words_and_the_table_the_shares() -> None:
    page = training_page(made_up())
    told = re.findall(r'src="data:image/svg[^"]*" alt="(.*?)"', page)
    assert "standing 0.50, evaluated 1.00" in told[0]
    assert "speed" in told[1]
    assert "they are equal" in told[2]
    assert "grpc: transport 0.59 ms, engine 3.41 ms, policy 0.50 ms, learning 1.40 ms" in told[3]
    cells = re.findall(r"<td>(.*?)</td>", page)
    assert [cells[row * 7 : row * 7 + 3] for row in range(3)] == [
        ["grpc", "2.0", "10.0%"],
        ["shm", "2.0", "1.0%"],
        ["inproc", "2.0", "0.1%"],
    ]

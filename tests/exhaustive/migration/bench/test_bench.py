"""A bench and a demo in this process, the suite of engines in other languages, and the servers of pairs."""

import json
import os
import shutil
import sys
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from lucky_transport.errors import ConfigError, EngineFailed, NotReachable, PeerTimeout
from lucky_transport_migration.bench.demo import COMPARED_STEPS, PATHS
from lucky_transport_migration.bench.reading import headlines
from lucky_transport_migration.bench.report import bench_page
from lucky_transport_migration.bench.rows import typical_us
from lucky_transport_migration.bench.stubs import programs
from lucky_transport_migration.bench.stubs.programs import serving
from lucky_transport_migration.bench.suite import check_targets, marks
from lucky_transport_migration.bench.suites import kits
from lucky_transport_migration.bench.suites.kits import BATCH, KIT_PATHS, KITS, plan_of_kits
from lucky_transport_migration.units import times_text
from tests.support.command import invoke


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


def children() -> set[str]:
    return set(Path(f"/proc/self/task/{os.getpid()}/children").read_text().split())


@pytest.mark.parametrize("said", ["", "rea"])
def test_a_server_that_never_says_it_is_ready_is_given_up_and_ended(said: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(programs, "_READY_S", 0.5)
    before = children()
    # on a busy machine it is given up, and its pipe closed, before it has begun
    program = f"import contextlib, os, time\nwith contextlib.suppress(OSError): os.write(1, {said.encode()!r})\n"
    with (
        pytest.raises(PeerTimeout, match=r"the server that is silent was not ready within 0\.5 s"),
        serving("that is silent", [sys.executable, "-c", f"{program}time.sleep(600)"]),
    ):
        pass
    assert children() == before


def test_a_server_that_ends_before_it_is_ready_says_so() -> None:
    with (
        pytest.raises(NotReachable, match="ended before it was ready"),
        serving("of a pair", [sys.executable, "-c", "print('hello')"]),
    ):
        pass


def test_what_a_server_says_behind_ready_is_kept_and_it_ends_with_the_block() -> None:
    before = children()
    with serving("of a pair", [sys.executable, "-c", "print('ready at 7', flush=True); input()"]) as server:
        assert server.ready == "at 7"
        assert children() - before == {str(server.pid)}
    assert children() == before


@pytest.mark.parametrize("fails", [False, True])
def test_a_server_that_does_not_end_by_itself_is_killed(monkeypatch: pytest.MonkeyPatch, fails: bool) -> None:
    monkeypatch.setattr(programs, "_GRACE_S", 0.2)
    before, raised = children(), False
    try:
        with serving("of a pair", [sys.executable, "-c", "import time; print('ready', flush=True); time.sleep(600)"]):
            if fails:
                raise KeyError
    except KeyError:
        raised = True
    assert raised is fails
    assert children() == before


pytest.importorskip("grpc")


demo = partial(invoke, "demo")


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of a report."""
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

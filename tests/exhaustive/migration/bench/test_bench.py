"""A bench in this process, the suite of engines in other languages, and the servers of pairs."""

from __future__ import annotations

import json
import os
import shutil
import sys
from pathlib import Path
from typing import Any

import pytest

from lucky_transport.errors import ConfigError, EngineFailed, NotReachable, PeerTimeout
from lucky_transport_migration.bench import targets
from lucky_transport_migration.bench.rows import typical_us
from lucky_transport_migration.bench.stubs import programs
from lucky_transport_migration.bench.stubs.programs import serving
from lucky_transport_migration.bench.suite import marks
from lucky_transport_migration.bench.suites import kits
from lucky_transport_migration.bench.suites.kits import BATCH, KIT_PATHS, KITS, plan_of_kits
from lucky_transport_migration.bench.suites.steps import COPY, IDLE, PACED_ENVS, STEPPING, plan_of, prepare


def test_a_bench_in_process_runs_all_its_pieces() -> None:
    plan = plan_of(IDLE, ("inproc",), (1, 3), None, {"obs_size": 5, "act_size": 2}, rounds=2, quick=True)
    told: list[str] = []
    prepared = prepare(plan)
    result = prepared.run("lucky-transport bench", told.append)
    assert len(told) == prepared.pieces
    batches = {row["size"] for row in result["rows"] if row["path"] == "inproc" and row["kind"] != "frame"}
    assert batches == {1, 3, PACED_ENVS}
    assert {row["what"] for row in result["rows"]} == {IDLE, COPY, STEPPING}
    json.dumps(result, allow_nan=False)


def test_a_bench_of_an_engine_that_computes_says_that_its_work_is_included() -> None:
    plan = plan_of("toy", ("inproc",), (2,), None, {"obs_size": 5}, rounds=1, quick=True)
    result = prepare(plan).run("lucky-transport bench toy")
    assert {row["kind"] for row in result["rows"]} == {"step", "view"}
    assert any("they hold the engine's time too" in note for note in result["notes"])


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
    outcome = [(one["word"], one["measured"]) for one in targets.check(result, KITS.targets)]
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

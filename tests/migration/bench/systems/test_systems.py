"""The suite of systems: what is measured, what is checked meanwhile, and what the result says."""

from __future__ import annotations

import importlib.util
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from lucky_transport.errors import ConfigError, MissingExtra
from lucky_transport_migration.bench import targets
from lucky_transport_migration.bench.bench_page import bench_page
from lucky_transport_migration.bench.flow import StreamMeasurement
from lucky_transport_migration.bench.markdown import bench_markdown
from lucky_transport_migration.bench.measuring import Measurement
from lucky_transport_migration.bench.run import PreparedSuite, Results
from lucky_transport_migration.bench.suites.systems import SystemSetup, plan_of_systems, setups_of
from lucky_transport_migration.bench.workloads.systems import bench
from lucky_transport_migration.bench.workloads.systems.pause import Pause
from lucky_transport_migration.bench.workloads.systems.pipe import Queue

#: Made-up microseconds by kind and path.
TYPICAL_US = {
    ("library", "shm"): 6.0,
    ("library", "direct"): 1.0,
    ("library_env", "shm"): 15.0,
    ("tick", "holodeck"): 20.0,
    ("tick", "semaphores"): 60.0,
    ("ready", "shm"): 200.0,
    ("ready", "openra"): 1200.0,
    ("advance", "shm"): 100.0,
    ("advance", "openra"): 400.0,
    ("ticks", "shm"): 25.0,
    ("ticks", "openra"): 100.0,
    ("ticks", "inproc"): 24.0,
    ("free", "shm"): 20.0,
    ("free", "inproc"): 15.0,
    ("action", "pipe"): 60.0,
    ("action", "unix-socket"): 50.0,
    ("slots", "pipe"): 30.0,
}


def made_up(setup: SystemSetup, index: int) -> dict[Any, Any]:
    """Measurements of a round."""
    found: dict[Any, Any] = {}
    for cell in setup.cells():
        us = TYPICAL_US.get((cell.kind, cell.path), 1.0) * (1 + index / 100)
        samples = np.full(600, int(us * 1000), np.int64)
        if cell.kind == "pause":
            found[cell] = Pause(100_000, 3 if cell.path == "openra" else 0, 200)
        elif cell.kind == "queue":
            found[cell] = Queue(1000, 500_000_000, 4_000_000 + index)
        elif cell.kind == "ready":
            found[cell] = samples
        elif cell.kind in ("ticks", "free", "slots"):
            found[cell] = StreamMeasurement(1000, int(us * 1e6), 10**6, 10**6)
        else:
            found[cell] = Measurement(samples, samples[:5], 10**6, 10**6, False)
    return found


@pytest.fixture
def prepared(monkeypatch: pytest.MonkeyPatch) -> PreparedSuite:
    monkeypatch.setattr(bench, "missing_sides", dict[Any, str])
    return bench.prepare(("grpc", "shm"), None, rounds=3, quick=False)


def result_of(prepared: PreparedSuite) -> dict[str, Any]:
    results = Results()
    for index in range(prepared.plan.rounds):
        for setup in prepared.setups:
            results.add(setup, made_up(setup, index))
    result = prepared.result_of(results, "lucky-transport bench --suite systems", load=0.0)
    result["targets"] = targets.check(result, prepared.suite.targets)
    return result


# what is measured


def test_each_side_of_each_system_has_processes_of_its_own(prepared: PreparedSuite) -> None:
    assert [str(setup) for setup in prepared.setups] == [
        "libenv, shm adaptive",
        "libenv, direct",
        "holodeck, holodeck",
        "holodeck, semaphores",
        "sessions, shm adaptive",
        "sessions, openra",
        "sessions, inproc",
        "pipe, pipe",
        "pipe, unix-socket",
        "libenv, shm adaptive",  # the second half of the A/A pair
    ]
    assert [cell.kind for cell in prepared.setups[-1].cells()] == ["library"]


def test_without_grpc_nothing_is_measured_over_it() -> None:
    setups = setups_of(plan_of_systems(("shm",), None, rounds=5, quick=False))
    assert "openra" not in {setup.path for setup in setups}


@pytest.mark.parametrize("transports", [("grpc",), ("shm", "inproc")])
def test_other_transports_are_refused_with_those_that_are_compared(transports: tuple[str, ...]) -> None:
    with pytest.raises(ConfigError, match=r"write --transports grpc,shm"):
        plan_of_systems(transports, None, rounds=5, quick=False)


def test_what_is_missing_is_left_out_and_said_once_and_not_judged(monkeypatch: pytest.MonkeyPatch) -> None:
    def load(target: str, **how: Any) -> Any:
        raise MissingExtra(f"{how['owner']} needs a package", hint=f"pip install 'lucky-transport[{how['extra']}]'")

    monkeypatch.setattr(bench, "load", load)
    monkeypatch.setattr(bench, "compiler", lambda: None)
    prepared = bench.prepare(("grpc", "shm"), None, rounds=1, quick=False)
    assert {(setup.system, setup.path) for setup in prepared.setups} == {
        ("sessions", "shm"),
        ("sessions", "inproc"),
        ("pipe", "pipe"),
        ("pipe", "unix-socket"),
    }
    notes = "\n".join(prepared.notes)
    for reason in ("there is no C compiler", "lucky-transport[holodeck]", "lucky-transport[openra]"):
        assert reason in notes
    assert notes.count("there is no C compiler") == 1
    words = {one["name"]: one["word"] for one in result_of(prepared)["targets"]}
    for name, word in words.items():
        expected = "NOT MEASURED" if "C library" in name or "gRPC" in name else None
        assert expected is None or word == expected, name
    assert words["pipe, one action: over a raw unix socket"] == "PASS"


# what the result says


def test_each_system_is_compared_with_its_own_limit(prepared: PreparedSuite) -> None:
    ratios = {(one["kind"], one["of"], one["to"]): one["ratio"] for one in result_of(prepared)["ratios"]}
    assert ratios == {
        ("library", "shm", "direct"): pytest.approx(1 / 6, abs=1e-3),
        ("tick", "holodeck", "semaphores"): 3.0,
        ("ready", "shm", "openra"): 6.0,
        ("advance", "shm", "openra"): 4.0,
        ("ticks", "shm", "openra"): 4.0,
        ("ticks", "shm", "inproc"): 0.96,
        ("free", "shm", "inproc"): 0.75,
        ("action", "pipe", "unix-socket"): pytest.approx(50 / 60, abs=1e-3),
    }


def test_only_ways_to_the_same_sessions_decide_the_verdict(prepared: PreparedSuite) -> None:
    result = result_of(prepared)
    told = "Shared memory is faster than the other transports in 2 of 2 comparisons, each judged alone."
    assert result["verdict"]["sentence"] == told


def test_promises_are_judged_by_what_was_measured(prepared: PreparedSuite) -> None:
    judged = [(one["measured"], one["word"]) for one in result_of(prepared)["targets"]]
    assert judged == [
        (pytest.approx(5.05), "PASS"),  # 6 us hosted, 1 us called, each 1 % slower in its second round
        (6.0, "PASS"),
        (4.0, "FAIL"),
        (0.75, "FAIL"),
        (0.0, "PASS"),
        (3.0, "FAIL"),
        (1.2, "PASS"),
        (pytest.approx(30.3), "PASS"),
        (4.0, "PASS"),
    ]


def test_a_quick_run_says_nothing_of_promises_about_many_sessions(prepared: PreparedSuite) -> None:
    few = replace(prepared, plan=plan_of_systems(("grpc", "shm"), None, rounds=1, quick=True))
    unknown = [one["name"] for one in result_of(few)["targets"] if one["word"] == "NOT MEASURED"]
    assert len(unknown) == 6
    assert all("64 sessions" in name or "paused for 2 s" in name or "1,000" in name for name in unknown)


def test_rows_tell_what_no_duration_tells(prepared: PreparedSuite) -> None:
    rows = {(row["kind"], row["path"]): row for row in result_of(prepared)["rows"]}
    queue, pause = rows["queue", "pipe"], rows["pause", "openra"]
    assert (queue["seconds"], queue["largest_gap_ms"], queue["per_s"]) == (0.5, 4.0, 2000.0)
    assert (pause["behind_ticks"], pause["missed_ticks"]) == (3, 200)


def test_page_and_markdown_show_every_system(prepared: PreparedSuite) -> None:
    result = result_of(prepared)
    page, markdown = bench_page(result), bench_markdown(result)
    for title in ("C library of 64 envs", "Holodeck, per tick", "a session advanced by one tick", "one action"):
        assert title in page
        assert title in markdown


def test_a_result_keeps_to_the_published_schema(prepared: PreparedSuite) -> None:
    jsonschema: Any = pytest.importorskip(
        "jsonschema", reason="jsonschema is not installed: pip install 'lucky-transport[dev]'"
    )
    schema = json.loads((Path(__file__).parents[4] / "schema" / "bench.schema.json").read_text())
    jsonschema.Draft202012Validator(schema).validate(json.loads(json.dumps(result_of(prepared), allow_nan=False)))


def test_the_reason_of_a_missing_package_names_its_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    installed = importlib.util.find_spec("posix_ipc") is not None
    assert (("holodeck", "holodeck") in bench.missing_sides()) is not installed

"""The suite of engines in other languages: what it measures, and what it says where it cannot."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

from lucky_transport.errors import ConfigError, EngineFailed
from lucky_transport_migration.bench import targets
from lucky_transport_migration.bench.rows import typical_us
from lucky_transport_migration.bench.suite import marks
from lucky_transport_migration.bench.suites import kits
from lucky_transport_migration.bench.suites.kits import BATCH, KIT_PATHS, KITS, plan_of_kits


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
    assert outcome == [
        ("PASS", 1.5),
        ("PASS", 2.5),
        ("NOT MEASURED", None),
        ("NOT MEASURED", None),
        ("PASS", 12.5),
    ]


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

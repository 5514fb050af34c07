"""Each planted slowness is found by `lucky-transport gate`, or said not to be judged.

Who answers a call, and with a shadow or without, is drawn as in a running program; how long each side took is planted.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from lucky_transport_migration.evidence.record import EQUAL, NOT_COMPARED, Evidence, SideResult
from lucky_transport_migration.stages.decision import Decider
from tests.planted.tools import Report, command

READ = "/hazel.rpc.SceneService/GetEntity"
CALLS = 4_000
CONTROL_US = 8_000.0

_AT = "2026-01-01T00:00:00.000Z"

#: What the candidate takes for call number `index`, given what the control takes.
Slowness = Callable[[float, int], float]


def alike(us: float, index: int) -> float:
    return us


def a_fifth_slower(us: float, index: int) -> float:
    return 1.2 * us


def slow_in_two_percent(us: float, index: int) -> float:
    return us + 15_000 if index * 7_919 % 10_007 < 200 else us


def slow_in_every_fiftieth(us: float, index: int) -> float:
    return us + 15_000 if index % 50 == 0 else us


def gate(folder: Path, stage: str, slowness: Slowness, seed: int = 0) -> Report:
    """`lucky-transport gate` on the evidence of a program whose method is at `stage`."""
    (folder / "lucky_transport.toml").write_text(f'[stages]\ndefault = "{stage}"\n')
    evidence = folder / "lucky-evidence"
    evidence.mkdir()
    random = np.random.default_rng(seed)
    decider = Decider(folder, draw=random.random)
    with (evidence / "calls-1.jsonl").open("w") as lines:
        for index, (control, candidate) in enumerate(CONTROL_US * random.lognormal(0, 0.2, (CALLS, 2))):
            us = {"grpc": float(control), "shm": slowness(float(candidate), index)}
            decision = decider.decide(READ)
            primary = SideResult(decision.primary, us=us[decision.primary], items=1)
            shadow = SideResult(decision.shadow, us=us[decision.shadow], items=1) if decision.shadow else None
            verdict = EQUAL if shadow else NOT_COMPARED
            one = Evidence(READ, decision.stage, primary, shadow, verdict=verdict, request=f"{index:x}", at=_AT)
            lines.write(one.write())
    return command("lucky_transport_migration.cli.gate")


def held_back(report: Report, percentile: str, limit: str) -> None:
    """Fail unless it is too slow in this percentile: more calls would not show otherwise."""
    report.must_name(["HOLD", f"its {percentile} is", f"the limit is {limit}"])
    assert "could show that it is kept" not in report.text, report.text


@pytest.fixture(autouse=True)
def _here(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)


def test_a_candidate_a_fifth_slower_is_held_back_by_its_median(tmp_path: Path) -> None:
    held_back(gate(tmp_path, "shadow", a_fifth_slower), "p50", "1.10")


@pytest.mark.parametrize("slowness", [slow_in_two_percent, slow_in_every_fiftieth])
def test_a_slow_tail_is_held_back_where_callers_wait_for_the_candidate(slowness: Slowness, tmp_path: Path) -> None:
    held_back(gate(tmp_path, "canary 50%", slowness), "p99", "1.50")


@pytest.mark.parametrize("slowness", [slow_in_two_percent, slow_in_every_fiftieth])
def test_a_slow_tail_of_shadows_is_said_not_to_be_judged(slowness: Slowness, tmp_path: Path) -> None:
    gate(tmp_path, "shadow", slowness).must_list(["PROMOTE", f"not judged of {READ}: its p99"])


@pytest.mark.parametrize("run", range(20))
def test_without_a_plant_the_method_may_move_on(run: int, tmp_path: Path) -> None:
    gate(tmp_path, "shadow", alike, seed=run).must_list(["PROMOTE"])

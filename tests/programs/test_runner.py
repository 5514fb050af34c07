"""The runner of programs sees what differs, what hangs and what cannot be installed."""

import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.programs.page import Row, save, saved, table
from tests.programs.programs import CannotInstall, Program, environment, programs
from tests.programs.reasons import ITSELF, reasons
from tests.programs.sides import Outcome, ProgramFailed, run_program

PROGRAM = Program("any", "multiprocessing_clients", ["any==1.0"], ["no_such_module"], "calls", loop="steps")


def _outcome(equal: object, over_grpc: int = 0, **times: float) -> Outcome:
    return Outcome({"said": equal, "sum": 1}, 5, over_grpc, **times)


@pytest.mark.parametrize(
    ("outcomes", "failure"),
    [
        ([(False, _outcome("a")), (True, _outcome("b"))], 'said: "a" != "b"'),
        ([(False, _outcome("a")), (True, _outcome("a")), (False, _outcome("c"))], 'said: "a" != "c"'),
        ([(False, _outcome("a")), (True, _outcome("a", 2))], "calls over shared memory: 5, over gRPC: 2"),
    ],
)
def test_what_differs_or_stays_on_grpc_is_a_failure_that_names_it(outcomes: Any, failure: str) -> None:
    row = Row.of(PROGRAM, outcomes)
    assert row.failure == row.verdict == failure
    assert "| any 1.0 | calls | 0 | **no** | 5 / " in table([row])


def test_the_table_has_the_means_of_both_runs() -> None:
    slow = [_outcome("a", p50_us=time, rounds_per_s=100, client_cpu_s=1, server_cpu_s=2) for time in (300, 500)]
    quick = [_outcome("a", p50_us=100, rounds_per_s=200, client_cpu_s=0.5, server_cpu_s=1)] * 2
    row = Row.of(PROGRAM, [(False, slow[0]), (True, quick[0]), (True, quick[1]), (False, slow[1])])
    line = table([row]).splitlines()[-1]
    assert line == "| any | 400 µs, 100 µs | 4.00× | steps: 100, 200 | 2.00× | 1.00 + 2.00, 0.50 + 1.00 |  |"


def test_results_are_kept_for_the_versions_that_they_are_of(tmp_path: Path) -> None:
    row = Row.of(PROGRAM, [(is_shm, _outcome("a", p50_us=2.0, rounds_per_s=3.0)) for is_shm in (False, True)])
    save(row, tmp_path)
    (kept,) = saved([PROGRAM], tmp_path)
    assert table([kept]) == table([row])
    assert saved([replace(PROGRAM, packages=["any==1.1"])], tmp_path) == []


SLOW = {"percentile": "p50", "holds_back": True, "times": 0.5, "at_most": 2.0, "limit": 1.1}
QUICK = SLOW | {"holds_back": False}
LIMITS = {"calls": 1000, "mismatch_limit": 0.003}


@pytest.mark.parametrize(
    ("change", "properties", "said"),
    [
        ({}, {"/a.B/Get": "nothing describes it"}, ["the program: nothing describes it: Get"]),
        ({"mismatches": 2}, {"/a.B/Get": ITSELF}, [f"the program: {ITSELF}: Get"]),
        ({"mismatches": 2}, {}, ["differs: 2 of Get"]),
        ({"latency": []}, {}, ["the program: it refuses drawn requests, and too few others can be timed: Get"]),
        ({"distinct": 900}, {}, ["too few calls: 100 more of Get"]),
        ({"latency": [SLOW]}, {}, ["noise, which more calls over a longer time outlast: p50 of Get up to 2.00, 1.10"]),
        ({"latency": [SLOW | {"times": 1.5}]}, {}, ["slower: p50 of Get up to 2.00, 1.10"]),
        ({"reasons": []}, {}, []),
    ],
)
def test_what_holds_a_method_back_is_the_program_too_few_calls_or_noise(
    change: Any, properties: Any, said: list[str]
) -> None:
    gate = {"error": 0.05, "is_whole": True}
    one = {"method": "/a.B/Get", "reasons": ["why"], "mismatches": 0, "failures": 0, "distinct": 1500}
    row = one | {"gate": gate, "latency": [QUICK]} | change
    found = reasons({"methods": [row], "limits": LIMITS, "itself": []}, properties)
    assert [text.removesuffix(" allowed") for text in found] == said
    assert reasons({}, {}) == ["the program: its client makes no call through Python's grpc"]


def test_a_program_that_hangs_is_ended_at_the_limit() -> None:
    pytest.importorskip("grpc")
    with pytest.raises(ProgramFailed, match=r"did not end within 0\.01 s"):
        run_program(PROGRAM, sys.executable, shm=False, limit_s=0.01)


@pytest.mark.exhaustive
def test_a_side_that_fails_is_shown_with_the_end_of_what_it_said() -> None:
    with pytest.raises(ProgramFailed, match=r"(?s)ended with 1.*ModuleNotFoundError: No module named 'no_such_case'"):
        run_program(Program("any", "no_such_case", [], [], ""), sys.executable, shm=False)


@pytest.mark.exhaustive
def test_a_package_that_cannot_be_installed_is_named(tmp_path: Path) -> None:
    missing = Program("any", "any", ["./no-such-folder"], [], "")
    with pytest.raises(CannotInstall, match="no-such-folder"):
        environment(missing, tmp_path, tmp_path / "none.whl")


def test_the_table_names_each_program_once_with_pinned_versions() -> None:
    found = programs()
    cases = {path.stem for path in (Path(__file__).parent / "cases").glob("*.py")} - {"side", "serving"}
    assert sorted(program.case for program in found) == sorted(cases)
    assert len({program.name for program in found}) == len(found)
    assert all("==" in (program.unresolved or program.packages)[0] for program in found)
    assert PROGRAM.missing == ["no_such_module"]

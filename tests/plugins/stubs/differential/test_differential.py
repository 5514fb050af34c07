"""Cases of threads and of asyncio over real gRPC and over ours: the same record, but for what is declared.

Of each kind of case a sixth part; the rest are in tests/exhaustive.
"""

from __future__ import annotations

import pytest

pytest.importorskip("grpc", reason="there is nothing to compare with")

from .comparing import judged, load_cases, skip_without_generated_stubs
from .declared import DIFFERENCES
from .registry import Case, quick

CASES = load_cases()


@pytest.mark.filterwarnings(  # of grpc.aio's own, up to 1.60 at least, after an interceptor has failed
    "ignore:Exception ignored in. <function InterceptedCall:pytest.PytestUnraisableExceptionWarning"
)
@pytest.mark.parametrize("case", quick(CASES), ids=lambda case: case.name)
def test_ours_does_what_grpc_does(case: Case) -> None:
    skip_without_generated_stubs(case)
    undeclared, stale = judged(case)
    assert undeclared == {}, "(gRPC, ours)"
    assert stale == [], "declared as different, but the same"


def test_every_case_has_a_name_of_its_own() -> None:
    names = [case.name for case in CASES]
    assert len(names) == len(set(names))


def test_every_declared_difference_is_of_a_case_that_exists() -> None:
    known = {name for case in CASES for name in (case.name, case.name.partition("[")[0])}
    assert {name for one in DIFFERENCES for name in one.cases} <= known

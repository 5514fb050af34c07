"""Cases of asyncio over real gRPC and over ours, in this process: the same record, but for what is declared.

Of each kind of case a sixth part; the rest are in tests/exhaustive.
"""

from __future__ import annotations

import pytest

pytest.importorskip("grpc", reason="there is nothing to compare with")

from .comparing import judged, load_cases, skip_without_generated_stubs
from .registry import Case, quick

OF_ASYNCIO = [case for case in quick(load_cases()) if case.name.startswith("aio_")]


@pytest.mark.filterwarnings(  # of grpc.aio's own, up to 1.60 at least, after an interceptor has failed
    "ignore:Exception ignored in. <function InterceptedCall:pytest.PytestUnraisableExceptionWarning"
)
@pytest.mark.parametrize("case", OF_ASYNCIO, ids=lambda case: case.name)
def test_ours_does_what_grpc_does_over_asyncio(case: Case) -> None:
    skip_without_generated_stubs(case)
    undeclared, stale = judged(case)
    assert undeclared == {}, "(gRPC, ours)"
    assert stale == [], "declared as different, but the same"

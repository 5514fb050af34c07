"""Cases of asyncio over real gRPC and over ours: those that the quick part leaves out."""

import pytest

pytest.importorskip("grpc", reason="there is nothing to compare with")

from tests.plugins.stubs.differential.comparing import judge, load_cases
from tests.plugins.stubs.differential.conftest import grpcs_core_is_never_shut_down, nothing_is_left, quiet
from tests.plugins.stubs.differential.registry import Case, exhaustive

__all__ = ["grpcs_core_is_never_shut_down", "nothing_is_left", "quiet"]

OF_ASYNCIO = [case for case in exhaustive(load_cases()) if case.name.startswith("aio_")]


@pytest.mark.filterwarnings(  # of grpc.aio's own, up to 1.60 at least, after an interceptor has failed
    "ignore:Exception ignored in. <function InterceptedCall:pytest.PytestUnraisableExceptionWarning"
)
@pytest.mark.parametrize("case", OF_ASYNCIO, ids=lambda case: case.name)
def test_ours_does_what_grpc_does_over_asyncio(case: Case) -> None:
    judge(case)

"""Cases of threads over real gRPC and over ours: those that the quick part leaves out."""

import pytest

pytest.importorskip("grpc", reason="there is nothing to compare with")

from tests.plugins.stubs.differential.comparing import judge, load_cases
from tests.plugins.stubs.differential.conftest import grpcs_core_is_never_shut_down, nothing_is_left, quiet
from tests.plugins.stubs.differential.registry import Case, exhaustive

__all__ = ["grpcs_core_is_never_shut_down", "nothing_is_left", "quiet"]

OF_THREADS = [case for case in exhaustive(load_cases()) if not case.name.startswith("aio_")]


@pytest.mark.filterwarnings(  # of grpc.aio's own, up to 1.60 at least, after an interceptor has failed
    "ignore:Exception ignored in. <function InterceptedCall:pytest.PytestUnraisableExceptionWarning"
)
@pytest.mark.parametrize("case", OF_THREADS, ids=lambda case: case.name)
def test_ours_does_what_grpc_does(case: Case) -> None:
    judge(case)

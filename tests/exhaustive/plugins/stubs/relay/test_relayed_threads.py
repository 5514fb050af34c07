"""Every case of threads over gRPC, and with a relay between client and server: the same but for what is declared."""

import pytest

pytest.importorskip("grpc", reason="there is nothing to compare with")

from tests.plugins.stubs.differential.comparing import load_cases, skip_without_generated_stubs
from tests.plugins.stubs.differential.conftest import quiet
from tests.plugins.stubs.differential.registry import Case
from tests.plugins.stubs.differential.relayed import is_endless, undeclared

__all__ = ["quiet"]

CASES = [case for case in load_cases() if not case.name.startswith("aio_") and not is_endless(case)]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_a_relay_does_what_grpc_does(case: Case) -> None:
    skip_without_generated_stubs(case)
    assert undeclared(case) == {}, "(gRPC, relayed)"

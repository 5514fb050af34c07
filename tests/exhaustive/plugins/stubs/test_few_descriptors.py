"""A process that may open no more files says so, with the limit, and goes on once it may."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.plugins.stubs.few_descriptors import MOST
from tests.support.waiting import PATIENCE_S

ROOT = Path(__file__).parents[4]
REACHED = "too many open files, the limit is "


def calls(side: str) -> list[tuple[str, str, int]]:
    done = subprocess.run(
        [sys.executable, "-m", "tests.plugins.stubs.few_descriptors", side],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=12 * PATIENCE_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return [tuple(json.loads(line)) for line in done.stdout.splitlines()]


@pytest.mark.parametrize(("side", "fewest"), [("client", 5), ("engine", 4)])
def test_each_call_names_the_limit_until_it_goes_through(side: str, fewest: int) -> None:
    found = calls(side)
    assert {kind for kind, *_ in found} == {"typed", "typed_async", "stub", "stub_future", "stub_async"}
    for kind, result, more in found:
        is_expected = REACHED in result and result.startswith(("NotReachable", "RpcError UNAVAILABLE"))
        assert result == "ok" or is_expected, (kind, result)
        assert more <= 1, (kind, result, more)  # a thread of an executor has what its last task raised
    refused = [kind for kind, result, _ in found if REACHED in result]
    assert all(fewest <= refused.count(kind) < MOST for kind in ("typed", "stub", "stub_async")), found

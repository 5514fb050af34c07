"""Evidence that is made up: calls with given answers and durations."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

from lucky_transport_migration.evidence.record import EQUAL, Evidence, SideResult

METHOD = "/hazel.rpc.SceneService/GetEntity"

#: Makes one call's evidence; keyword arguments are fields of `Evidence`, grpc_us and shm_us the durations.
Seen = Callable[..., Evidence]

#: Makes `n` equal calls, durations drawn around the given medians.
Calls = Callable[..., Iterator[Evidence]]


@pytest.fixture
def seen() -> Seen:
    return _seen


def _seen(method: str = METHOD, *, grpc_us: float = 400.0, shm_us: float = 40.0, **fields: Any) -> Evidence:
    given = {
        "stage": "shadow",
        "primary": SideResult("grpc", us=grpc_us, items=1),
        "shadow": SideResult("shm", us=shm_us, items=1),
        "verdict": EQUAL,
        "at": "2026-01-01T00:00:00.000Z",
    }
    return Evidence(method, **given | fields)


@pytest.fixture
def calls() -> Calls:
    def calls(n: int, seed: int = 0, grpc_us: float = 400.0, shm_us: float = 40.0, **fields: Any) -> Iterator[Evidence]:
        noise = np.random.default_rng(seed).lognormal(0.0, 0.4, (n, 2))
        for ours, theirs in noise.tolist():
            yield _seen(grpc_us=grpc_us * ours, shm_us=shm_us * theirs, **fields)

    return calls

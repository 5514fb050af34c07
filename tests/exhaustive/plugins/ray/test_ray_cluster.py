"""What a program is told where Ray itself fails."""

from __future__ import annotations

import threading
from collections.abc import Generator
from typing import Any

import pytest

pytest.importorskip("ray", reason="Ray is not installed: pip install 'lucky-transport[ray]'")

from lucky_transport import api
from lucky_transport.errors import NotReachable
from lucky_transport_ray import cluster
from lucky_transport_ray.runtime import ray


@pytest.mark.parametrize(
    "error", [ConnectionError("no answer"), Exception("The current node timed out during startup.")], ids=type
)
def test_a_ray_that_does_not_start_is_not_reachable(error: Exception, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(**arguments: Any) -> None:
        raise error

    monkeypatch.setattr(ray, "init", fails)
    with pytest.raises(NotReachable, match=f"no Ray cluster at this host: {error}.*ray start --head"):
        api.make(endpoint="ray:?engine=toy")
    assert not ray.is_initialized()


@pytest.fixture
def hangs() -> Generator[Any]:
    """A function that returns at the end of the test only."""
    ends = threading.Event()
    yield lambda **arguments: ends.wait()  # pyright: ignore[reportUnknownLambdaType]
    ends.set()


def test_an_end_of_ray_that_hangs_is_given_up(
    hangs: Any, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fails(**arguments: Any) -> None:
        raise ConnectionError("no answer")

    monkeypatch.setattr(cluster, "_END_S", 0.01)
    monkeypatch.setattr(ray, "init", fails)
    monkeypatch.setattr(ray, "shutdown", hangs)
    with pytest.raises(NotReachable, match="no answer"):
        api.make(endpoint="ray:?engine=toy")
    assert "ray: what it started here may be left, it takes longer than 0.01 s to end" in caplog.text

"""What a program is told where Ray itself fails."""

from __future__ import annotations

from typing import Any

import pytest

pytest.importorskip("ray", reason="Ray is not installed: pip install 'lucky-transport[ray]'")

from lucky_transport import api
from lucky_transport.errors import NotReachable
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

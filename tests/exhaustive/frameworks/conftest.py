"""Training libraries as they are published, on our env: their packages are installed in an environment of their own.

Where a package is missing, its tests are skipped by name; `.ci/run` installs the newest of each.
"""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import pytest

from lucky_transport import api
from lucky_transport.env.vector_env import VectorEnv

Make = Callable[..., VectorEnv]


def pytest_itemcollected(item: pytest.Item) -> None:
    """What the libraries warn of, mostly of each other, is shown; it fails no test."""
    item.add_marker(pytest.mark.filterwarnings("default"))


@pytest.fixture(params=["shm", "grpc"])
def make(request: pytest.FixtureRequest) -> Iterator[Make]:
    """`lucky_transport.make` over each of the two transports, with an engine process; closes its envs at the end."""
    if request.param == "grpc":
        pytest.importorskip("grpc", reason="grpcio is not installed: pip install 'lucky-transport[grpc]'")
    with ExitStack() as envs:
        yield lambda engine, num_envs, **settings: envs.enter_context(
            api.make(engine, num_envs, transport=request.param, **settings)
        )


@pytest.fixture
def torch() -> Any:
    """PyTorch, on one thread: several tests run at once."""
    found = pytest.importorskip("torch")
    found.set_num_threads(1)
    found.manual_seed(0)
    return found

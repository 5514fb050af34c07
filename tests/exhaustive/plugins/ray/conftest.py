"""A cluster of two nodes on this machine, for the tests of this folder."""

import os
import re
from collections.abc import Callable, Generator
from contextlib import ExitStack
from typing import Any

import pytest

from lucky_transport import api
from lucky_transport.env.vector_env import VectorEnv
from tests.support.waiting import until_none_left

_STORE_BYTES = 80 << 20
#: A node that died is noticed within about 2 s, instead of 15.
_HEALTH = {"health_check_initial_delay_ms": 500, "health_check_period_ms": 500, "health_check_failure_threshold": 3}
_NODE = {"num_cpus": 2, "object_store_memory": _STORE_BYTES}


class Nodes:
    """The nodes with room for actors; the head has none, so that any of them can be killed."""

    def __init__(self, cluster: Any) -> None:
        self._cluster = cluster
        self._nodes = [cluster.add_node(**_NODE) for _ in range(2)]

    def kill(self) -> None:
        """Kill one node as a power failure does, actors and engines with it."""
        self._cluster.remove_node(self._nodes.pop(), allow_graceful=False)

    def refill(self) -> None:
        """Have two nodes again."""
        while len(self._nodes) < 2:
            self._nodes.append(self._cluster.add_node(**_NODE))


@pytest.fixture(scope="module")
def _cluster() -> Generator[Nodes]:
    from ray.cluster_utils import Cluster  # pyright: ignore[reportMissingImports]

    head = {
        "num_cpus": 0,
        "object_store_memory": _STORE_BYTES,
        "include_dashboard": False,
        "_system_config": {**_HEALTH, "enable_worker_prestart": False},
    }
    cluster = Cluster(initialize_head=True, connect=True, head_node_args=head)
    try:
        yield Nodes(cluster)
    finally:
        pytest.importorskip("ray").shutdown()
        cluster.shutdown()


@pytest.fixture
def nodes(_cluster: Nodes) -> Nodes:
    """Two nodes with room for two actors each."""
    _cluster.refill()
    return _cluster


@pytest.fixture
def make(nodes: Nodes) -> Generator[Callable[..., VectorEnv]]:
    """Make an env over ray; nothing of its engines is left in shared memory at the end."""
    pids: set[str] = set()
    with ExitStack() as stack:

        def note(env: Any) -> None:
            pids.update(re.findall(r"pid (\d+)", " ".join(env.transport.places)))

        def made(query: str, **arguments: Any) -> VectorEnv:
            env = api.make(endpoint=f"ray:?{query}", **arguments)
            note(env)
            stack.callback(env.close)
            stack.callback(note, env)
            return env

        yield made
    until_none_left(
        lambda: [name for name in os.listdir("/dev/shm") if name.split("_")[1:2] and name.split("_")[1] in pids]
    )

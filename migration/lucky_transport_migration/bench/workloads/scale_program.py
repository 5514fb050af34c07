"""One of the clients of the suite of scale:

    python -m lucky_transport_migration.bench.workloads.scale_program KIND PATH WAIT SECONDS ENDPOINT COUNT

It says `ready` with the process of its own engine, begins at a line on stdin, writes its Measurement in base64, and
keeps what it has open until stdin ends: meanwhile the memory of all is looked at.
"""

from __future__ import annotations

import base64
import itertools
import os
import pickle
import sys
import time
from contextlib import closing
from typing import Any

import numpy as np

from lucky_transport import api
from lucky_transport.config import load_settings
from lucky_transport.env.vector_env import VectorEnv
from lucky_transport.process import unique_name
from lucky_transport.registry import registry
from lucky_transport_migration.bench.measuring import CpuTimer, Look, Measurement, open_loop
from lucky_transport_migration.bench.suites.scale import CALL_HZ, STEP_HZ
from lucky_transport_migration.bench.suites.steps import IDLE, PACED_ENVS, STEPPING
from lucky_transport_migration.bench.workloads.scale import memory_kib, open_descriptors
from lucky_transport_migration.paths import ConnectedEngine, find_path

__all__ = ["cycles", "main"]

_LEAST = 5
_ASKED = "the number that it was asked with"


def _begin(pid: int | None = None) -> None:
    print("ready", pid or "", flush=True)
    sys.stdin.readline()


def _show(found: Measurement) -> None:
    print(base64.b64encode(pickle.dumps(found)).decode(), flush=True)
    sys.stdin.read()


def _pair(path: str, wait: str | None, seconds: float) -> None:
    with (
        ConnectedEngine(find_path(path), STEPPING, PACED_ENVS, seed=0, wait=wait) as link,
        closing(VectorEnv(link.transport)) as env,
    ):
        env.reset(seed=0)
        actions = np.zeros(link.transport.spec.action_shape, link.transport.spec.action.dtype)
        _begin(link.pid)
        _show(open_loop(env.step, actions, STEP_HZ, max(_LEAST, int(seconds * STEP_HZ)), link.pid))


def _client(endpoint: str, wait: str | None, seconds: float) -> None:
    numbers = itertools.count(1)
    with api.connect(endpoint, wait=wait) as client:

        def ask(_: Any) -> Any:
            return client.lidar.get_beam_count(next(numbers))

        _begin()
        look = Look(_ASKED, lambda answer: answer.beams)
        _show(open_loop(ask, np.zeros(0), CALL_HZ, max(_LEAST, int(seconds * CALL_HZ)), None, look))


def cycles(path: str, wait: str | None, count: int) -> Measurement:
    """Serve an engine, connect to it, step it and close both, `count` times in this process.

    beside: what a cycle kept of memory and all of them of descriptors, behind the first tenth, and how long the last
    tenth of the cycles took over the first behind it.
    """
    way, settings = find_path(path), load_settings({"wait": wait})
    made = registry().transport(way.transport).local_endpoint
    samples = np.empty(count, np.int64)
    warm, kept = max(1, count // 10), (0, 0)
    watch = CpuTimer(None)
    for cycle in range(count):
        start = time.perf_counter_ns()
        with api.serve(IDLE, made.format(name=unique_name()), wait=wait) as served:
            endpoint = served.endpoints[0]
            with api.open_transport(
                type(endpoint)(endpoint.scheme, endpoint.address, way.options), settings
            ) as transport:
                transport.step(np.zeros(transport.spec.action_shape, transport.spec.action.dtype))
        samples[cycle] = time.perf_counter_ns() - start
        if cycle + 1 == warm:
            kept = memory_kib(os.getpid()), open_descriptors(os.getpid())
    rest = samples[warm:]
    beside = {
        "kept_kib": (memory_kib(os.getpid()) - kept[0]) / max(1, count - warm),
        "kept_descriptors": float(open_descriptors(os.getpid()) - kept[1]),
        "last_over_first": float(np.median(rest[-warm:]) / np.median(rest[:warm])) if rest.size else 1.0,
    }
    return Measurement(rest if rest.size else samples, samples[:warm], watch.stop()[0], None, beside=beside)


def main() -> None:
    """Be that client."""
    kind, path, wait, seconds, endpoint, count = sys.argv[1:]
    if kind == "pairs":
        _pair(path, wait or None, float(seconds))
    elif kind == "clients":
        _client(endpoint, wait or None, float(seconds))
    else:
        _begin()
        _show(cycles(path, wait or None, int(count)))


if __name__ == "__main__":
    main()

"""How the cost of one pair grows with the number of pairs on this host.

    python -m tests.endurance.scale --pairs 1,4,8
    python -m tests.endurance.scale --between shm --pairs 1 --cycles 10000

    pairs      N engines, each with a client of its own that steps 16 envs 200 times a second
    clients    N clients that make typed calls of one engine, each 50 a second
    cycles     engines made, connected to, stepped and closed in one process, one after the other

A client is a process of its own; all of them begin at once. Nothing is asserted. With the arguments KIND PATH SECONDS
ENDPOINT this is one of the clients.
"""

import base64
import itertools
import os
import pickle
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import click
import numpy as np

from lucky_transport import api
from lucky_transport.cli.tables import show
from lucky_transport.env.vector_env import VectorEnv
from lucky_transport.errors import NotReachable, plural
from lucky_transport.process import python_command, unique_name
from lucky_transport.registry import registry
from lucky_transport_migration.bench.measuring import Effort, Look, Measurement, engine_cpu_ns, measure_loop
from lucky_transport_migration.cli.arguments import NAMES, NUMBERS
from lucky_transport_migration.paths import ConnectedEngine, find_path
from lucky_transport_migration.units import duration_text

STEP_HZ, CALL_HZ, ENVS = 200, 50, 16
_HEADS = ("", "p50", "p99", "% of a core, each", "MiB each", "descriptors each")
_CYCLE_HEADS = ("", "p50", "KiB kept a cycle", "descriptors kept", "last over first")

Row = Sequence[str]


def memory_kib(pid: int) -> int:
    """Return the memory of a process in KiB, of what it shares with others its part (PSS)."""
    lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("Pss:"))


def open_descriptors(pid: int) -> int:
    """Return how many descriptors a process has open."""
    return len(os.listdir(f"/proc/{pid}/fd"))


def side_by_side(kind: str, path: str, count: int, seconds: float) -> Row:
    """Return the row of `count` pairs, or of `count` clients of one engine; all have ended then."""
    with ExitStack() as stack:
        endpoint, engine = "", []
        if kind == "clients":
            link = stack.enter_context(ConnectedEngine(find_path(path), "echo", 1))
            endpoint, engine = link.endpoint, [link.pid or 0]
        command = python_command("tests.endurance.scale", kind, path, str(seconds), endpoint)

        def start(_: int) -> tuple[Any, list[int]]:
            client = stack.enter_context(subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE))
            word, *pids = _line(client)
            return client, [client.pid, *map(int, pids)] if word == b"ready" else []

        with ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:  # a start computes
            clients = list(pool.map(start, range(count)))
        pids = [*engine, *(pid for _, some in clients for pid in some)]
        used = sum(engine_cpu_ns(pid) or 0 for pid in pids)
        for client, _ in clients:
            client.stdin.write(b"begin\n")
            client.stdin.flush()
        found: list[Measurement] = [pickle.loads(base64.b64decode(_line(client)[0])) for client, _ in clients]
        used = sum(engine_cpu_ns(pid) or 0 for pid in pids) - used
        each = (
            f"{used / seconds / count / 1e7:.2f}",
            f"{sum(map(memory_kib, pids)) / count / 1024:.1f}",
            f"{sum(map(open_descriptors, pids)) / count:.1f}",
        )
    samples = np.concatenate([one.samples_ns for one in found]) / 1e3
    p50, p99 = (duration_text(float(np.percentile(samples, share))) for share in (50, 99))
    return f"{plural(count, kind.removesuffix('s'))}, {path}", p50, p99, *each


def _line(client: Any) -> list[bytes]:
    """Return the words of the next line that a client prints."""
    if not (words := client.stdout.readline().split()):
        raise NotReachable("a client ended before it was over")
    return words


def cycles(path: str, count: int) -> Row:
    """Serve an engine, connect to it, step it and close both, `count` times in this process; the first tenth warms."""
    made = registry().transport(path).local_endpoint
    samples, warm, kept = np.empty(count, np.int64), max(1, count // 10), (0, 0)
    for cycle in range(count):
        start = time.perf_counter_ns()
        with (
            api.serve("toy:idle", made.format(name=unique_name())) as served,
            api.open_transport(served.endpoints[0]) as transport,
        ):
            transport.step(np.zeros(transport.spec.action_shape, transport.spec.action.dtype))
        samples[cycle] = time.perf_counter_ns() - start
        if cycle + 1 == warm:
            kept = memory_kib(os.getpid()), open_descriptors(os.getpid())
    rest = samples[warm:]
    memory = (memory_kib(os.getpid()) - kept[0]) / len(rest)
    return (
        f"{plural(count, 'cycle')}, {path}",
        duration_text(float(np.median(rest)) / 1e3),
        f"{memory:.2f}",
        str(open_descriptors(os.getpid()) - kept[1]),
        f"{np.median(rest[-warm:]) / np.median(rest[:warm]):.2f}",
    )


def client(kind: str, path: str, seconds: str, endpoint: str) -> None:
    """Be a client: say `ready` and the process of one's engine, begin at a line, and write the Measurement.

    It keeps what it has open until stdin ends: meanwhile the memory of all is looked at.
    """
    with ExitStack() as stack:
        if kind == "pairs":
            link = stack.enter_context(ConnectedEngine(find_path(path), "toy", ENVS, seed=0))
            env = stack.enter_context(closing(VectorEnv(link.transport)))
            env.reset(seed=0)
            actions = np.zeros(link.transport.spec.action_shape, link.transport.spec.action.dtype)
            step, rate, pid, look = env.step, STEP_HZ, link.pid, None
        else:
            connected, numbers = stack.enter_context(api.connect(endpoint)), itertools.count(1)
            actions, rate, pid = np.zeros(0), CALL_HZ, None
            step = lambda _: connected.lidar.get_beam_count(next(numbers))  # noqa: E731
            look = Look("the number that it was asked with", lambda answer: answer.beams)
        print("ready", pid or "", flush=True)
        sys.stdin.readline()
        found = measure_loop(step, actions, Effort(open_loop_s=float(seconds)), pid, look, rate)
        print(base64.b64encode(pickle.dumps(found)).decode(), flush=True)
        sys.stdin.read()


def rows(transports: Sequence[str], pairs: Sequence[int], seconds: float) -> Iterator[Row]:
    """Yield the rows side by side. Over gRPC an env is stepped through the batch service."""
    for kind in ("pairs", "clients"):
        for count in pairs:
            for name in transports:
                yield side_by_side(kind, "grpc-batch" if (kind, name) == ("pairs", "grpc") else name, count, seconds)


@click.command()
@click.option("--between", "transports", default="grpc,shm", show_default=True, type=NAMES)
@click.option("--pairs", type=NUMBERS, help="So many side by side.  [default: up to 4 a CPU, at most 64]")
@click.option("--cycles", "count", default=500, show_default=True, type=click.IntRange(min=2))
@click.option("--seconds", default=2.0, show_default=True, help="Of each loop.")
def main(transports: Sequence[str], pairs: Sequence[int] | None, count: int, seconds: float) -> None:
    """Measure, and print what each uses."""
    most = min(64, 4 * len(os.sched_getaffinity(0)))
    show("side by side", _HEADS, list(rows(transports, pairs or sorted({1, most // 4, most}), seconds)), numbers=True)
    show("one after the other", _CYCLE_HEADS, [cycles(name, count) for name in transports], numbers=True)


if __name__ == "__main__":
    client(*sys.argv[1:]) if sys.argv[1:2] in (["pairs"], ["clients"]) else main()

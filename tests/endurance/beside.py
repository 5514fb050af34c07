"""What `lucky-transport bench` leaves out: other ways beside ours, and pairs that have not all CPUs for themselves.

    python -m tests.endurance.beside
    python -m tests.endurance.beside --only peers --rounds 3

    peers      one exchange over a raw unix socket and over iceoryx2, in the sizes of the bench
    beside     one exchange beside programs that compute all the time, and what these lose
    one-cpu    one exchange with all processes of the pair on one CPU
    idle       the CPU time of an engine that has nothing to do
    threads    how late another Python thread of a client that waits is

Prints medians of rounds of fresh process pairs, and the promises that were made of them. Nothing is asserted.
"""

import os
import sys
import threading
import time
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import click
import numpy as np

from lucky_transport.cli.tables import show
from lucky_transport.process import ChildProcess
from lucky_transport_migration.bench.limits import ping_pong
from lucky_transport_migration.bench.measuring import Effort, Measurement, engine_cpu_ns, measure_loop
from lucky_transport_migration.paths import ConnectedEngine, find_path
from lucky_transport_migration.units import duration_text
from tests.endurance.peers import PEERS, Message, measure_peer

_OBS, _ACT = 100, 12
_WAYS = (("shm", "adaptive"), ("shm", "block"), ("grpc", None), ("grpc-batch", None))
_TICK_S, _STEP_S = 0.001, 0.0002  # how often another thread wants to run, and how long the engine steps meanwhile
_PENDULUM = Message(1, 3, 1, copies=True)
#: As a row calls it -> what travels.
_MESSAGES = {
    **{f"{n:,} envs{', copied frame' if copies else ''}": Message(n, _OBS, _ACT, copies)
       for copies in (False, True) for n in (1, 64, 4096)},
    **{f"frame of {size:,} bytes": Message(1, size // 4, _ACT, copies=True) for size in (64, 4096, 2**18, 2**22)},
    "1 pendulum": _PENDULUM,
}  # fmt: skip

_CO_RUNNERS = (0, 1, 2, 4)
#: Computes until it is ended, at the latest with the process that started it.
_CO_RUNNER = "import ctypes; ctypes.CDLL(None).prctl(1, 9)\nwhile True: pass"

#: Rows of a table: how it is called, and its texts.
Row = Sequence[str]


def exchange(path: str, wait: str | None, effort: Effort) -> Measurement:
    """Return exchanges of one env over a path, by a fresh pair of processes."""
    if path == "limit":
        return ping_pong("futex" if wait == "block" else "spin", min(effort.most, 20_000), 4 * _ACT)
    with ConnectedEngine(find_path(path), "toy:idle", 1, options={"obs_size": _OBS}, wait=wait) as link:
        actions = np.zeros(link.transport.spec.action_shape, link.transport.spec.action.dtype)
        return measure_loop(link.transport.step, actions, effort, link.pid)


def peers(effort: Effort, rounds: int) -> Iterator[Row]:
    """Yield the rows of other ways."""
    for name in PEERS:
        if name == "iceoryx2" and find_spec("iceoryx2") is None:
            yield name, "not installed: pip install iceoryx2"
            continue
        given = dict(_MESSAGES)
        if name == "unix-socket":  # what polls does not sleep between steps
            given["1 env, 50 a second"] = Message(1, _OBS, _ACT, copies=False, rate_hz=50)
        found = [measure_peer(name, list(given.values()), effort) for _ in range(rounds)]
        for what, *measured in zip(given, *found, strict=True):
            yield f"{name}, {what}", *_texts(measured)


@contextmanager
def co_runners(count: int, look_s: float) -> Generator[Callable[[], float]]:
    """Run so many programs that compute; yields what says how much less CPU time they got since, in per cent."""
    with ExitStack() as stack:
        command = [sys.executable, "-S", "-c", _CO_RUNNER]
        children = [ChildProcess("co-runner", command) for _ in range(count)]
        for one in children:
            stack.callback(one.stop)

        def used() -> tuple[int, int]:
            return time.perf_counter_ns(), sum(engine_cpu_ns(one.pid) or 0 for one in children)

        before = used()
        time.sleep(look_s)
        start = used()
        alone = (start[1] - before[1]) / (start[0] - before[0])

        def lost() -> float:
            now = used()
            return (1 - (now[1] - start[1]) / (now[0] - start[0]) / alone) * 100 if alone else 0.0

        yield lost


def beside(effort: Effort, rounds: int) -> Iterator[Row]:
    """Yield one exchange beside co-runners."""
    for count in _CO_RUNNERS:
        for path, wait in (*_WAYS, ("limit", "block"), ("limit", "spin")):
            found: list[Measurement] = []
            losses: list[float] = []
            for _ in range(rounds):
                with co_runners(count, effort.budget_s) as lost:
                    found.append(exchange(path, wait, effort))
                    losses.append(lost())
            yield f"{path} {wait or ''}, beside {count}", *_texts(found), f"{np.median(losses):.0f} % lost"


@contextmanager
def on_one_core() -> Generator[None]:
    """Keep each thread of this process, and each process that it starts in the block, on one CPU."""

    def pin(cores: set[int]) -> None:
        for task in Path("/proc/self/task").iterdir():
            with suppress(ProcessLookupError):  # the thread ended between the listing and the call
                os.sched_setaffinity(int(task.name), cores)

    usable = os.sched_getaffinity(0)
    pin({max(usable)})
    try:
        yield
    finally:
        pin(usable)


def one_cpu(effort: Effort, rounds: int) -> Iterator[Row]:
    """Yield one exchange on one CPU, where nothing is measured that spins, and the promise."""
    p50: dict[str, float] = {}
    for path, wait in (*_WAYS, ("limit", "block")):
        with on_one_core():
            found = [exchange(path, wait, effort) for _ in range(rounds)]
        p50[f"{path} {wait or ''}"] = _p50_us(found)
        yield f"{path} {wait or ''}", *_texts(found)
    yield _promise("shm over the native futex, times", p50["shm adaptive"] / p50["limit block"], 1.5)


def idle(effort: Effort, rounds: int) -> Iterator[Row]:
    """Yield the CPU time of an attached engine with nothing to do, in per cent of a core, and the promise."""
    for path, wait in _WAYS:
        percents: list[float] = []
        for _ in range(rounds):
            with ConnectedEngine(find_path(path), "toy:idle", 1, options={"obs_size": _OBS}, wait=wait) as link:
                actions = np.zeros(link.transport.spec.action_shape, link.transport.spec.action.dtype)
                for _ in range(10):
                    link.transport.step(actions)
                time.sleep(0.05)  # let the last step's spinning end
                before, start = engine_cpu_ns(link.pid) or 0, time.perf_counter()
                time.sleep(8 * effort.budget_s)
                percents.append(((engine_cpu_ns(link.pid) or 0) - before) / (time.perf_counter() - start) / 1e7)
        yield f"{path} {wait or ''}", f"{np.median(percents):.2f} %"
        if wait == "adaptive":
            yield _promise("idle engine's CPU, adaptive, %", float(np.median(percents)), 0.3)


def threads(effort: Effort, rounds: int) -> Iterator[Row]:
    """Yield how late another thread is, beside the machine's own lateness, and the promise."""
    for path, wait in (("none", None), *_WAYS):
        late = np.concatenate([_lateness(path, wait, effort) for _ in range(rounds)])
        p99 = float(np.percentile(late, 99)) / 1e3
        yield f"{path} {wait or ''}", duration_text(float(np.median(late)) / 1e3), duration_text(p99)
        if wait == "adaptive":
            yield _promise("other threads of a waiting client, p99, µs", p99, 1000)


def _lateness(path: str, wait: str | None, effort: Effort) -> Any:
    """Return how late, in nanoseconds, a thread was while this one steps an engine that takes 200 us a step."""
    if path == "none":
        return _lateness_while(lambda: time.sleep(_STEP_S), effort)
    with ConnectedEngine(find_path(path), "toy:idle", 1, options={"step_delay_s": _STEP_S}, wait=wait) as link:
        actions = np.zeros(link.transport.spec.action_shape, link.transport.spec.action.dtype)
        return _lateness_while(lambda: link.transport.step(actions), effort)


def _lateness_while(work: Callable[[], object], effort: Effort) -> Any:
    late = np.empty(max(20, int(4 * effort.budget_s / _TICK_S)), np.int64)

    def neighbour() -> None:
        start = time.perf_counter_ns()
        for i in range(late.size):
            due = start + int((i + 1) * _TICK_S * 1e9)
            time.sleep(max(0, due - time.perf_counter_ns()) / 1e9)
            late[i] = time.perf_counter_ns() - due

    thread = threading.Thread(target=neighbour, daemon=True)
    thread.start()
    while thread.is_alive():
        work()
    return late


def _p50_us(found: Sequence[Measurement]) -> float:
    return float(np.median([np.median(one.samples_ns) for one in found])) / 1e3


def _texts(found: Sequence[Measurement]) -> tuple[str, str]:
    """Return p50, of each round, and p99, of all of them."""
    p99 = float(np.percentile(np.concatenate([one.samples_ns for one in found]), 99)) / 1e3
    return duration_text(_p50_us(found)), duration_text(p99)


def _promise(what: str, measured: float, goal: float) -> Row:
    return what, f"{measured:.2f}", f"at most {goal:g}", "PASS" if measured <= goal else "FAIL"


_PARTS: dict[str, Callable[[Effort, int], Iterator[Row]]] = {
    "peers": peers, "beside": beside, "one-cpu": one_cpu, "idle": idle, "threads": threads,
}  # fmt: skip


@click.command()
@click.option("--only", type=click.Choice(list(_PARTS)), multiple=True, help="These parts; all where none is named.")
@click.option("--rounds", default=6, show_default=True, help="Fresh process pairs each.")
@click.option("--seconds", default=0.25, show_default=True, help="Of each loop.")
def main(only: Sequence[str], rounds: int, seconds: float) -> None:
    """Measure, and print what was found: p50 and p99."""
    for name in only or _PARTS:
        rows = list(_PARTS[name](Effort(budget_s=seconds), rounds))
        width = max(map(len, rows))
        show(name, ("", "p50", "p99", "", "")[:width], [(*row, *[""] * (width - len(row))) for row in rows])


if __name__ == "__main__":
    main()

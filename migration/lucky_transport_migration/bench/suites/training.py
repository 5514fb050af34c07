"""The suite of training: loops as programs have them.

training   steps of 1 ms, alone and beside a 100 Hz telemetry and a 30 Hz camera stream, also in process
luckyenv   the steps of a luckyrobots LuckyEnv loop, over shm under `lucky-transport run`

Alone, beside, alone, beside, ... within one connection: a machine that grows warm favours neither. The streams' own
rates are given too: a loop that wins by starving them has won nothing.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from lucky_transport.client import Client
from lucky_transport.deadline import Deadline
from lucky_transport.errors import PeerTimeout
from lucky_transport_migration.bench.measuring import Effort
from lucky_transport_migration.bench.rows import Measured
from lucky_transport_migration.bench.run import PreparedSuite
from lucky_transport_migration.bench.stubs.programs import Job, measure_luckyenv, why_no_luckyenv
from lucky_transport_migration.bench.suite import BenchSuite, Case, Cell, Plan, SpeedTarget, call_cases, marks
from lucky_transport_migration.bench.suites.commands import plan_of_commands
from lucky_transport_migration.paths import ConnectedEngine, find_path

TELEMETRY_HZ = 100
CAMERA_HZ = 30
_STREAMS = ("telemetry stream", "camera stream")
_TURNS = 2
_PATIENCE_S = 5.0

TRAINING = BenchSuite(
    name="training",
    title="Training loops",
    engine="echo",
    titles={
        "training": "training loop, 1 ms a step, beside two streams, per step",
        "luckyenv": "LuckyEnv training loop, per step",
    },
    targets=(
        SpeedTarget(
            "training loop of 1 ms steps: rate lost beside two streams", "at most", 5, "%",
            marks("training", "shm"), column="loss_percent",
        ),
    ),
)  # fmt: skip

_STEP_S = 0.001
#: A transport -> the way by which a program reaches it: it connects to a port.
_WAYS = {"grpc": "grpc-tcp", "shm": "shm"}


def cases_of(plan: Plan, *, luckyenv: bool) -> list[Case]:
    """Return the cases of one round."""
    loops = list(call_cases(plan, [("training", "", None, None)]))
    if luckyenv:
        ways = [(_WAYS[path], plan.main_wait(path)) for path in plan.paths if path in _WAYS]
        loops += [Case(path, wait, (Cell("luckyenv", path, wait),), "luckyenv") for path, wait in ways]
    return loops


def plan_of_training(paths: Sequence[str], waits: Sequence[str] | None, *, rounds: int, quick: bool) -> Plan:
    """Return the plan of a command line; the loop runs in process too, as what no transport can be faster than."""
    plan = plan_of_commands(tuple(dict.fromkeys((*paths, "inproc"))), waits, rounds=rounds, quick=quick)
    return replace(plan, options=plan.options | {"step_s": _STEP_S})


def prepare(paths: Sequence[str], waits: Sequence[str] | None, *, rounds: int, quick: bool) -> PreparedSuite:
    """Return the suite for a command line; a quick one has one round of short loops.

    Running it raises what starting the engines and programs raises, PeerTimeout where a stream brings nothing.
    """
    plan = plan_of_training(paths, waits, rounds=rounds, quick=quick)
    missing = why_no_luckyenv()
    cases = plan.with_twins(cases_of(plan, luckyenv=missing is None))
    notes = [missing] if missing else []
    return PreparedSuite(TRAINING, plan, cases, lambda case: _measure(case, plan), notes=notes)


def _measure(case: Case, plan: Plan) -> dict[Cell, Measured]:
    cell = case.cells[0]
    if cell.kind == "luckyenv":
        return {cell: measure_luckyenv(Job(case, plan.effort, plan.options))}
    with ConnectedEngine(find_path(case.path), TRAINING.engine, 1, options=plan.options, wait=case.wait) as link:
        return {cell: measure_training(Client(link.transport), plan.effort)}


@dataclass(slots=True)
class Training:
    """Steps a second alone and beside the streams, and items a second of each stream, in one round."""

    alone_hz: float
    beside_hz: float
    telemetry_hz: float
    camera_hz: float
    n: int

    @property
    def loss_percent(self) -> float:
        """How much of its rate the loop loses."""
        return (1 - self.beside_hz / self.alone_hz) * 100

    @property
    def us_each(self) -> float:
        """Microseconds per step beside the streams."""
        return 1e6 / self.beside_hz

    @staticmethod
    def columns(rounds: Sequence[Training]) -> dict[str, Any]:
        """Return what a row of these rounds has beside its times."""

        def median(name: str) -> float:
            return round(float(np.median([getattr(one, name) for one in rounds])), 3)

        return {
            "alone_per_s": median("alone_hz"),
            "per_s": median("beside_hz"),
            "loss_percent": median("loss_percent"),
            "loss_percent_max": round(max(one.loss_percent for one in rounds), 3),
            "telemetry_per_s": median("telemetry_hz"),
            "camera_per_s": median("camera_hz"),
        }


def measure_training(client: Client, effort: Effort) -> Training:
    """Return one round; each part takes the effort's budget.

    Raises PeerTimeout when a stream brings nothing, before or after the steps that are timed beside it.
    """
    actions = np.zeros(client.spec.action_shape, client.spec.action.dtype)
    _rate(client, actions, effort.budget_s / 5)
    alone: list[float] = []
    beside: list[float] = []
    telemetry = camera = 0.0
    for _ in range(_TURNS):
        alone.append(_rate(client, actions, effort.budget_s))
        with _streams(client) as (counts, await_more):
            start, before = time.perf_counter(), list(counts)
            beside.append(_rate(client, actions, effort.budget_s))
            took = time.perf_counter() - start
            rates = [(now - then) / took for now, then in zip(counts, before, strict=True)]
            await_more()
        telemetry, camera = telemetry + rates[0] / _TURNS, camera + rates[1] / _TURNS
    n = int(sum(beside) * effort.budget_s)
    return Training(float(np.mean(alone)), float(np.mean(beside)), telemetry, camera, n)


@contextmanager
def _streams(client: Client) -> Iterator[tuple[list[int], Callable[[], None]]]:
    """How many items threads of their own have taken of each stream, and what waits until each has brought one more.

    That raises PeerTimeout, and what ended a stream.
    """
    streams = client.telemetry.stream(fps=TELEMETRY_HZ), client.camera.stream("front", fps=CAMERA_HZ)
    counts = [0] * len(streams)

    def take(index: int) -> None:
        for _ in streams[index]:
            counts[index] += 1

    def await_more() -> None:
        deadline, seen = Deadline(_PATIENCE_S), list(counts)
        while still := [name for name, n, then in zip(_STREAMS, counts, seen, strict=True) if n == then]:
            for one in running:
                if one.done():
                    one.result()
            if deadline.expired:
                raise PeerTimeout(f"{' and '.join(still)}: no item within {_PATIENCE_S:g} s beside a training loop")
            time.sleep(0.001)

    with ThreadPoolExecutor(len(streams)) as pool:
        running = [pool.submit(take, index) for index in range(len(streams))]
        try:
            await_more()
            yield counts, await_more
        finally:
            for stream in streams:
                stream.cancel()


def _rate(client: Client, actions: Any, seconds: float) -> float:
    """Return steps per second over about that long."""
    step = client.transport.step
    step(actions)
    start = now = time.perf_counter()
    n = 0
    while now - start < seconds:
        step(actions)
        n += 1
        now = time.perf_counter()
    return n / (now - start)

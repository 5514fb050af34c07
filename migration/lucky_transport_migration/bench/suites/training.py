"""What the suite of training measures: cells (one row each) in cases (one fresh pair of processes each).

training   steps of 1 ms, alone and beside a 100 Hz telemetry and a 30 Hz camera stream, also in process
luckyenv   the steps of a luckyrobots LuckyEnv loop, over shm under `lucky-transport run`
gpu        a policy on a GPU, and where its observations come from (`training_gpu.py`)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from lucky_transport_migration.bench.plan import Case, Plan
from lucky_transport_migration.bench.suite import CallCases, CallCell, CallSuite, call_row
from lucky_transport_migration.bench.suites.commands import plan_of_commands
from lucky_transport_migration.bench.suites.training_gpu import GPU_NAMES, GPU_TARGETS, GPU_TITLES, gpu_cases
from lucky_transport_migration.bench.targets import SpeedTarget

__all__ = ["TRAINING", "cases_of", "plan_of_training"]

TRAINING = CallSuite(
    name="training",
    title="Training loops",
    engine="echo",
    titles={
        "training": "training loop, 1 ms a step, beside two streams, per step",
        "luckyenv": "LuckyEnv training loop, per step",
        **GPU_TITLES,
    },
    names=GPU_NAMES,
    targets=(
        SpeedTarget(
            "training loop of 1 ms steps: rate lost beside two streams", "at most", 5, "%",
            call_row("training", "shm"), column="loss_percent",
        ),
        *GPU_TARGETS,
    ),
)  # fmt: skip

_STEP_S = 0.001
#: A transport -> the way by which a program reaches it: it connects to a port.
_WAYS = {"grpc": "grpc-tcp", "shm": "shm"}


def cases_of(plan: Plan, *, luckyenv: bool, gpu: bool = False) -> list[Case]:
    """Return the cases of one round."""
    loops = list(CallCases([("training", "", None)]).of(plan))
    if luckyenv:
        ways = [(_WAYS[path], plan.main_wait(path)) for path in plan.paths if path in _WAYS]
        loops += [Case(path, wait, (CallCell("luckyenv", path, wait),), "luckyenv") for path, wait in ways]
    return [*loops, *gpu_cases(plan)] if gpu else loops


def plan_of_training(paths: Sequence[str], waits: Sequence[str] | None, *, rounds: int, quick: bool) -> Plan:
    """Return the plan of a command line; the loop runs in process too, as what no transport can be faster than."""
    plan = plan_of_commands(tuple(dict.fromkeys((*paths, "inproc"))), waits, rounds=rounds, quick=quick)
    return replace(plan, options=plan.options | {"step_s": _STEP_S})

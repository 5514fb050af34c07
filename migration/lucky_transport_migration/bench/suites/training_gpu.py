"""The rows of a policy on a GPU in the suite of training: one case for each way of its observations, in each size.

    gpu         a step of all envs: the policy, its actions to the engine, observations on the GPU, synchronised
    gpu_free    the same loop without a synchronisation, the mean of many steps

Over gRPC and shared memory the engine is on the host and `torch.from_numpy(...).to("cuda")` copies, where a path does
not say otherwise. The paths that begin with "device" have an engine on the same GPU.
"""

from __future__ import annotations

from collections.abc import Iterator

from lucky_transport_migration.bench.measuring import QUICK
from lucky_transport_migration.bench.suite import Case, Cell, Plan, marks
from lucky_transport_migration.bench.targets import SpeedTarget
from lucky_transport_migration.paths import label

#: What a row calls its observations -> envs and floats of each.
SIZES = {"64 x 48": (64, 48), "4,096 x 48": (4096, 48), "256 x 28,224": (256, 28_224)}
_SMALL, _MIDDLE, _LARGE = SIZES
ACT_SIZE = 12

GPU_KINDS = ("gpu", "gpu_free")
GPU_TITLES = {
    "gpu": "policy on a GPU, {what} floats, synchronised, per step",
    "gpu_free": "policy on a GPU, {what} floats, free run, per step",
}
#: A transport of the plan -> the paths on which it is measured here.
_PATHS = {
    "grpc": ("grpc-batch",),
    "shm": ("shm", "tensor-copy", "tensor-view", "device-copy", "device-view", "device-only"),
    "inproc": ("one-process",),
}


def _free_run(what: str, sense: str, goal: float, path: str, other: str) -> SpeedTarget:
    name = f"policy on a GPU, {what}, free run: {label(path)} over {label(other)}"
    rows = (marks("gpu_free", path, what), marks("gpu_free", other, what))
    return SpeedTarget(name, "at least" if sense == ">=" else "at most", goal, "times", *rows)


GPU_TARGETS = (
    _free_run(_MIDDLE, "<=", 1.5, "device-only", "one-process"),
    _free_run(_LARGE, "<=", 1.5, "device-only", "one-process"),
    _free_run(_LARGE, ">=", 250, "grpc-batch", "device-only"),
    SpeedTarget(
        f"policy on a GPU, {_MIDDLE}: observations_torch over from_numpy", "at most", 1.0, "times",
        marks("gpu", "tensor-copy", _MIDDLE), marks("gpu", "shm", _MIDDLE),
    ),
)  # fmt: skip


def gpu_cases(plan: Plan) -> Iterator[Case]:
    """Yield the cases of one round; a quick plan has the smallest size."""
    for what in (_SMALL,) if plan.effort == QUICK else SIZES:
        for path in (one for transport in plan.paths for one in _PATHS.get(transport, ())):
            wait = plan.main_wait(path)
            yield Case(path, wait, tuple(Cell(kind, path, wait, what) for kind in GPU_KINDS), f"gpu, {what}")

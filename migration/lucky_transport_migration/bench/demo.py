"""The demo: one engine per transport with the same seed, stepped with the same moves side by side.

Steps run in blocks, back to back as a training loop makes them; the blocks of the transports alternate in the order
A B .. and B A .., and after each block every answer is compared bit for bit.

What is timed is `VectorEnv.step` as a user calls it, the engine's own work included. What the transport alone costs is
measured apart, with an engine that does nothing and has the same sizes; what the engine alone costs is the same engine
in this very process. The result is that of a bench whose rounds are blocks, with the proof of parity beside it.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np

from lucky_transport.env.vector_env import VectorEnv
from lucky_transport.spec.batch_spec import BatchSpec
from lucky_transport_migration.bench.measuring import CpuTimer, Effort, Measurement, closed_loop
from lucky_transport_migration.bench.run import PreparedSuite, Results
from lucky_transport_migration.bench.stats import LEAST_ROUNDS
from lucky_transport_migration.bench.suites.steps import IDLE, StepCell, StepPlan, StepSuite, step_title
from lucky_transport_migration.compare.difference import AtMove
from lucky_transport_migration.parity.rollout import RolloutPlan, RolloutStep
from lucky_transport_migration.parity.step_answers import env_answer, make_move
from lucky_transport_migration.parity.step_comparison import Counts, first_finding
from lucky_transport_migration.parity.step_parity import Parity, open_ends
from lucky_transport_migration.paths import ConnectedEngine, find_path, open_links
from lucky_transport_migration.units import duration_text, times_text

__all__ = ["PATHS", "pieces", "run_demo"]

#: What is shown beside each other; the first is the engine without any wire.
PATHS = ("inproc", "grpc", "grpc-batch", "shm")

_BLOCK = 25  # steps; long enough for a closed loop, short enough to alternate often
_ALONE = Effort(budget_s=0.07, least=5, most=10_000)


@dataclass
class Member:
    """One transport's env, and what it measured per block; the first block is the warm-up."""

    name: str
    env: VectorEnv
    pid: int | None
    blocks: list[Measurement] = field(default_factory=list[Measurement])

    def play(self, moves: Sequence[RolloutStep]) -> list[tuple[tuple[Any, ...], int]]:
        """Make the moves back to back, time the steps among them; return what each returned, and the env's count of
        values out of bounds after it.
        """
        returned: list[tuple[tuple[Any, ...], int]] = []
        samples: list[int] = []
        watch = CpuTimer(self.pid)
        clock = time.perf_counter_ns
        for move in moves:
            start = clock()
            result = make_move(self.env, move)
            took = clock() - start
            returned.append((result, self.env.out_of_bounds))
            if move.kind == "step":
                samples.append(took)
        client, engine = watch.stop()
        self.blocks.append(Measurement(np.array(samples, np.int64), np.empty(0, np.int64), client, engine))
        return returned


def pieces(steps: int) -> int:
    """Return how many times `run_demo` calls `advance`."""
    return 2 + -(-steps // _BLOCK) + len(PATHS)


def run_demo(
    engine: str, num_envs: int, steps: int, seed: int, command: str, advance: Callable[..., None] = lambda text="": None
) -> dict[str, Any]:
    """Return a bench's result as JSON values, with the proof under "parity".

    Raises MissingExtra (grpc, mujoco), UnknownName and what starting and driving the engines raises.
    """
    paths = [find_path(name) for name in PATHS]
    parity = Parity(list(PATHS), num_envs=num_envs)
    blocks = _blocks(steps)
    options = {"num_envs": num_envs, "steps": steps, "seed": seed}
    asked = StepPlan.of(
        PATHS, ("adaptive",), options, rounds=len(blocks), quick=False, engine=engine, num_envs=(num_envs,)
    )
    load, results = os.getloadavg()[0], Results()
    with ExitStack() as stack:
        links = open_links(
            stack,
            paths,
            lambda path: ConnectedEngine(path, engine, num_envs, seed=seed, wait=asked.main_wait(path.name)),
        )
        advance("engines started")
        envs = [stack.enter_context(closing(VectorEnv(link.transport))) for link in links]
        members = [Member(link.path.name, env, link.pid) for link, env in zip(links, envs, strict=True)]
        spec = links[0].transport.spec
        policy = RolloutPlan(spec, seed, steps + _BLOCK)
        for index, count in enumerate([_BLOCK, *blocks]):
            _play_block(members, policy, count, index, spec, parity)
            advance(f"stepping {engine}")
    parity.not_compared |= open_ends(parity, spec, ("next_step",))
    for member in members:
        warmup, *measured = member.blocks
        measured[0].warmup_ns = warmup.samples_ns
        for one in measured:
            one.looked_at = "every value, beside those of the other transports"
        results.cells[_cell(asked, member.name, engine)] = list(measured)
    for name in PATHS:
        results.cells[_cell(asked, name, IDLE)] = list(_measure_alone(name, asked.main_wait(name), spec))
        advance(f"{name} without an engine")
    suite = DemoSuite(
        name="step", title=f"{engine}: shared memory beside gRPC", engine=engine, cpu_key="cpu_us_per_step"
    )
    prepared = PreparedSuite(suite, asked, (), lambda case: {}, rounds_of=f"{_BLOCK} steps")
    result = prepared.result_of(results, command, load)
    result["verdict"]["beside"] = [*_sentences(result), *result["verdict"]["beside"]]
    return result | {"parity": parity.plain() | {"sentence": parity.sentence}}


class DemoSuite(StepSuite):
    """A batch beside the same of an engine that does nothing."""

    def title_of(self, cell: StepCell) -> str:
        return step_title(asdict(cell)) + (", the transport alone" if cell.engine == IDLE else "")


def _cell(plan: StepPlan, path: str, engine: str) -> StepCell:
    return StepCell("env", path, plan.main_wait(path), plan.num_envs[0], engine, copy=True)


def _sentences(result: Mapping[str, Any]) -> list[str]:
    """Return what the transport alone takes, and what no transport makes faster."""
    p50 = {(row["path"], row["engine"]): row["us"]["p50"] for row in result["rows"]}
    ours, theirs, engine = p50["shm", IDLE], p50["grpc", IDLE], p50["inproc", result["engine"]]
    share = 100 * min(1.0, engine / p50["shm", result["engine"]])
    return [
        f"The transport alone, with an engine that does nothing: {duration_text(ours)} against {duration_text(theirs)} "
        f"over legacy gRPC, a factor of {times_text(theirs / ours)}.",
        f"The engine's own work takes {duration_text(engine)} of a step (measured in one process), {share:.0f} % of a "
        "step over shared memory; no transport makes it faster.",
    ]


def _blocks(steps: int) -> list[int]:
    full, rest = divmod(steps, _BLOCK)
    return [_BLOCK] * full + [rest] * (rest > 0)


def _play_block(
    members: Sequence[Member], policy: RolloutPlan, count: int, index: int, spec: BatchSpec, parity: Parity
) -> None:
    """Let each member make the same `count` steps (and the resets among them), then compare move by move."""
    moves: list[RolloutStep] = []
    while sum(move.kind == "step" for move in moves) < count:
        moves.append(policy.next())
    order = members if index % 2 == 0 else list(reversed(members))
    returned = {member.name: member.play(moves) for member in order}
    if parity.difference is not None:
        return  # trajectories have parted; latencies go on being measured
    counts = parity.modes.setdefault("next_step", Counts())
    for at, move in enumerate(moves):
        answers = {member.name: env_answer(*returned[member.name][at]) for member in members}
        event = "step" if move.kind == "step" else "reset"
        parity.difference = first_finding(answers, spec, AtMove("next_step", counts.exchanges + 1, event))
        if parity.difference is not None:
            return
        counts.add(move, answers[members[0].name])


def _measure_alone(name: str, wait: str | None, spec: BatchSpec) -> Iterator[Measurement]:
    """Yield step times of the path with an engine that does nothing, of the same sizes, in as many rounds as a verdict
    takes.
    """
    options = {"obs_size": spec.observation.size, "act_size": spec.action.size}
    with (
        ConnectedEngine(find_path(name), IDLE, spec.num_envs, options=options, wait=wait) as link,
        closing(VectorEnv(link.transport)) as env,
    ):
        env.reset()
        actions = np.zeros(link.transport.spec.action_shape, np.float32)
        for _ in range(LEAST_ROUNDS):
            yield closed_loop(env.step, actions, _ALONE, link.pid)

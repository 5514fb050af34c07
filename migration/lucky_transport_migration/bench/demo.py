"""The demo: one engine per transport with the same seed, compared bit for bit and then measured side by side.

What is timed is `VectorEnv.step` as a user calls it, the engine's own work included. What the transport alone costs is
measured apart, with an engine that does nothing and has the same sizes; what the engine alone costs is the same engine
in this very process. Steps run in blocks, back to back as a training loop makes them; the blocks of the transports
alternate in the order A B .. and B A .. The result is that of a bench whose rounds are blocks.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, closing
from dataclasses import replace
from typing import Any

from lucky_transport.env.vector_env import VectorEnv
from lucky_transport.spec.batch_spec import BatchSpec
from lucky_transport_migration.bench.measuring import Effort, measure_loop
from lucky_transport_migration.bench.run import PreparedSuite, Results
from lucky_transport_migration.bench.suite import Cell, Plan
from lucky_transport_migration.bench.suites.steps import IDLE, suite_of
from lucky_transport_migration.parity.step_parity import prove
from lucky_transport_migration.paths import ConnectedEngine, find_path, open_links
from lucky_transport_migration.stats import LEAST_ROUNDS
from lucky_transport_migration.units import duration_text, times_text

#: What is shown beside each other; the first is the engine without any wire.
PATHS = ("inproc", "grpc", "grpc-batch", "shm")
COMPARED_STEPS = 50
_ALONE = Effort(budget_s=0.07, least=5, most=10_000)


def pieces() -> int:
    """Return how many times `run_demo` calls `advance`."""
    return 1 + 2 * LEAST_ROUNDS


def run_demo(
    engine: str, num_envs: int, steps: int, seed: int, command: str, advance: Callable[..., None] = lambda text="": None
) -> dict[str, Any]:
    """Return a bench's result as JSON values, with the proof under "parity".

    Raises MissingExtra (grpc, mujoco), UnknownName and what starting and driving the engines raises.
    """
    parity = prove(engine, PATHS, num_envs=num_envs, steps=COMPARED_STEPS, seed=seed)
    advance(f"{engine} compared")
    block, load, results = -(-steps // LEAST_ROUNDS), os.getloadavg()[0], Results()
    options = {"num_envs": num_envs, "steps": steps, "seed": seed}
    plan = Plan.of(PATHS, ("adaptive",), options, rounds=LEAST_ROUNDS, quick=False, engine=engine, num_envs=(num_envs,))
    spec = _measure(plan, engine, {}, Effort(budget_s=0, least=block, most=block), results, advance)
    sizes = {"obs_size": spec.observation.size, "act_size": spec.action.size}
    _measure(plan, IDLE, sizes, _ALONE, results, advance)
    suite = replace(
        suite_of(engine),
        title=f"{engine}: shared memory beside gRPC",
        forms={IDLE: ", the transport alone", engine: ""},
    )
    prepared = PreparedSuite(suite, plan, (), lambda case: {}, rounds_of=f"{block} steps")
    result = prepared.result_of(results, command, load)
    result["verdict"]["beside"] = [*_sentences(result), *result["verdict"]["beside"]]
    return result | {"parity": parity.plain() | {"sentence": parity.sentence}}


def _measure(
    plan: Plan, engine: str, options: Mapping[str, Any], effort: Effort, results: Results, advance: Callable[..., None]
) -> BatchSpec:
    """Add a measurement of each path in each block to the results; returns the engine's spec."""
    (num_envs,), seed = plan.num_envs, plan.options["seed"]
    with ExitStack() as stack:
        links = open_links(
            stack,
            [find_path(name) for name in PATHS],
            lambda path: ConnectedEngine(
                path, engine, num_envs, seed=seed, options=options, wait=plan.main_wait(path.name)
            ),
        )
        members = [(link, stack.enter_context(closing(VectorEnv(link.transport)))) for link in links]
        for _, env in members:
            env.reset(seed=seed)
        space = members[0][1].action_space
        space.seed(seed)
        for index in range(plan.rounds):
            actions = space.sample()
            for link, env in members if index % 2 == 0 else reversed(members):
                cell = Cell("step", link.path.name, plan.main_wait(link.path.name), engine, num_envs)
                results.cells.setdefault(cell, []).append(measure_loop(env.step, actions, effort, link.pid))
            advance(f"stepping {engine}")
        return links[0].transport.spec


def _sentences(result: Mapping[str, Any]) -> Iterator[str]:
    """Yield what the transport alone takes, and what no transport makes faster."""
    p50 = {(row["path"], row["what"]): row["us"]["p50"] for row in result["rows"]}
    ours, theirs, engine = p50["shm", IDLE], p50["grpc", IDLE], p50["inproc", result["engine"]]
    yield (
        f"The transport alone, with an engine that does nothing: {duration_text(ours)} against {duration_text(theirs)} "
        f"over legacy gRPC, a factor of {times_text(theirs / ours)}."
    )
    share = 100 * min(1.0, engine / p50["shm", result["engine"]])
    yield (
        f"The engine's own work takes {duration_text(engine)} of a step (measured in one process), {share:.0f} % of a "
        "step over shared memory; no transport makes it faster."
    )

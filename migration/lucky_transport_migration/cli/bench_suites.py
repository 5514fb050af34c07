"""The suites of `lucky-transport bench`: each with its plan, ready to run."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

__all__ = ["SUITES_OF_CALLS", "ChosenSuite", "suite_of_calls", "suite_of_steps"]


@dataclass(frozen=True, slots=True)
class ChosenSuite:
    """A suite with its plan: how long it takes, in how many pieces, and what to do with its result."""

    minutes: float
    pieces: int
    rounds: int
    run: Callable[[str, Callable[..., None]], dict[str, Any]]
    check: Callable[[dict[str, Any]], list[dict[str, Any]]]
    show: Callable[[dict[str, Any]], None]


def suite_of_steps(
    engine: str,
    transports: tuple[str, ...],
    num_envs: tuple[int, ...] | None,
    waits: tuple[str, ...] | None,
    options: dict[str, Any],
    rounds: int,
    quick: bool,
    payloads: tuple[int, ...] | None,
    peers: bool,
) -> ChosenSuite:
    """Return the suite of exchanges and steps; raises what planning it raises."""
    from lucky_transport_migration.bench import bench, tables, targets
    from lucky_transport_migration.bench.bench_plan import plan_of

    plan = plan_of(
        engine, transports, num_envs, waits, options, rounds=rounds, quick=quick, payloads=payloads, peers=peers
    )
    return ChosenSuite(
        bench.estimate_s(plan) / 60,
        bench.pieces(plan),
        plan.rounds,
        lambda command, advance: bench.run_bench(plan, command, advance),
        lambda result: [one.plain() for one in targets.check(result)],
        tables.show_bench,
    )


def suite_of_calls(
    name: str, transports: tuple[str, ...], waits: tuple[str, ...] | None, rounds: int, quick: bool
) -> ChosenSuite:
    """Return the suite `name` of SUITES_OF_CALLS; raises what planning it raises."""
    from lucky_transport.registry import load
    from lucky_transport_migration.bench import targets
    from lucky_transport_migration.bench.call_suite.results import Prepared
    from lucky_transport_migration.bench.call_suite.tables import show_calls

    prepare = load(SUITES_OF_CALLS[name], owner=f"bench --suite {name}", extra="grpc")
    prepared: Prepared = prepare(transports, waits, rounds=rounds, quick=quick)
    return ChosenSuite(
        prepared.estimate_s / 60,
        prepared.pieces,
        prepared.plan.rounds,
        prepared.run,
        lambda result: [one.plain() for one in targets.check(result, prepared.suite.targets)],
        show_calls,
    )


#: As `--suite` names them -> what prepares each, imported when it is asked for.
SUITES_OF_CALLS = {
    "commands": "lucky_transport_migration.bench.commands.bench:prepare",
    "images": "lucky_transport_migration.bench.images.bench:prepare",
    "stubs": "lucky_transport_migration.bench.stubs.bench:prepare",
    "systems": "lucky_transport_migration.bench.systems.bench:prepare",
}

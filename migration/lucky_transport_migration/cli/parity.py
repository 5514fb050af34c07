"""`lucky-transport parity`: the same engine over several transports, its steps or its calls, compared bit for bit."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from typing import Any

import click

from lucky_transport_migration.cli.arguments import JSON_OBJECT, NAMES

__all__ = ["parity"]


@click.command(
    epilog="\b\nExample:\n"
    "  lucky-transport parity mujoco:quadruped --between grpc,shm --num-envs 16 --steps 2000 --autoreset all\n"
    "  lucky-transport parity --suite commands --methods '*Camera*' --count 40"
)
@click.argument("engine", default="mujoco:quadruped")
@click.option(
    "--suite",
    default="step",
    show_default=True,
    type=click.Choice(["step", "commands"]),
    help="Exchanges and VectorEnv.step, or all typed calls and streams.",
)
@click.option(
    "--between",
    "--transports",
    default="grpc,shm",
    show_default=True,
    type=NAMES,
    help="Paths to compare, the yardstick first.",
)
@click.option(
    "--num-envs", type=click.IntRange(min=1), help="Envs stepped together.  [default: 16; with --suite commands 2]"
)
@click.option("--steps", type=click.IntRange(min=1), help="Steps per autoreset mode.  [default: 500]")
@click.option("--seed", default=0, show_default=True, type=click.IntRange(min=0), help="Seed of all that is random.")
@click.option(
    "--autoreset",
    type=click.Choice(["next_step", "same_step", "disabled", "all"]),
    help="Autoreset mode of the compared envs.  [default: next_step]",
)
@click.option("--methods", help="Methods to call, a shell pattern such as 'SceneService/*'.  [default: all]")
@click.option(
    "--count", type=click.IntRange(min=1), help="Requests per method, every second one spoilt.  [default: 12]"
)
@click.option("--options", default="{}", type=JSON_OBJECT, help="Options of the engine's constructor, a JSON object.")
@click.option("--json", "as_json", is_flag=True, help="Print the outcome as JSON.")
def parity(
    engine: str,
    suite: str,
    between: tuple[str, ...],
    num_envs: int | None,
    steps: int | None,
    seed: int,
    autoreset: str | None,
    methods: str | None,
    count: int | None,
    options: dict[str, Any],
    as_json: bool,
) -> None:
    """Prove that ENGINE (mujoco:quadruped) answers the same over several transports.

    Starts one engine process per path with the same seed, makes the same moves on all (steps, resets of all, of one and
    of some envs, actions out of bounds, wrong calls) and compares every value bit for bit. Paths: shm, grpc (the legacy
    per-agent Step), grpc-batch, inproc, or any installed transport. Exit code 0 only when all are equal.

    --suite commands calls every typed method instead, streams too, with requests made from what the engine says exists
    and with spoilt ones, in one shuffled sequence, and compares responses, errors and their texts. It takes --methods
    and --count; --steps and --autoreset are for steps.
    """
    common = {"seed": seed, "options": options}
    if suite == "commands":
        _refuse("--suite commands", **{"--steps": steps, "--autoreset": autoreset})
        outcome, show = _commands(engine, between, methods or "*", count or 12, num_envs or 2, common, silent=as_json)
    else:
        _refuse("--suite step", **{"--methods": methods, "--count": count})
        outcome, show = _steps(
            engine, between, autoreset or "next_step", steps or 500, num_envs or 16, common, silent=as_json
        )
    if as_json:
        click.echo(json.dumps(outcome.plain(), indent=2, allow_nan=False))
    else:
        show(outcome)
    sys.exit(0 if outcome.equal else 1)


def _refuse(suite: str, **given: Any) -> None:
    wrong = [name for name, value in given.items() if value is not None]
    if wrong:
        raise click.UsageError(f"{suite} does not take {', '.join(wrong)}; see --help")


def _steps(
    engine: str,
    between: tuple[str, ...],
    autoreset: str,
    steps: int,
    num_envs: int,
    common: dict[str, Any],
    *,
    silent: bool,
) -> tuple[Any, Callable[[Any], None]]:
    """Return the outcome of comparing steps, and what shows it to a person."""
    from lucky_transport_migration.parity import MODES, prove, total_steps
    from lucky_transport_migration.progress import watched
    from lucky_transport_migration.tables import show_parity

    modes = MODES if autoreset == "all" else (autoreset,)
    with watched("comparing", total_steps(steps, modes), silent=silent) as advance:
        outcome = prove(engine, between, num_envs=num_envs, steps=steps, modes=modes, advance=advance, **common)
    return outcome, show_parity


def _commands(
    engine: str,
    between: tuple[str, ...],
    pattern: str,
    count: int,
    num_envs: int,
    common: dict[str, Any],
    *,
    silent: bool,
) -> tuple[Any, Callable[[Any], None]]:
    """Return the outcome of comparing typed calls, and what shows it to a person."""
    from lucky_transport_migration.commands_parity.proof import chosen_methods, prove_commands
    from lucky_transport_migration.commands_parity.tables import show_commands_parity
    from lucky_transport_migration.progress import watched

    methods = chosen_methods(pattern)
    with watched("comparing", count, silent=silent) as advance:
        outcome = prove_commands(
            engine, between, methods=methods, count=count, num_envs=num_envs, advance=advance, **common
        )
    return outcome, show_commands_parity

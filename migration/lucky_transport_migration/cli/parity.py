"""`lucky-transport parity`: the same engine over several transports, its steps or its calls, compared bit for bit."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping
from contextlib import ExitStack, closing
from functools import partial
from pathlib import Path
from typing import Any

import click

from lucky_transport.cli.completion import complete_engines
from lucky_transport_migration.cli.arguments import JSON_OBJECT, NAMES, complete_methods, metadata_option, one_pattern

_NOISE = (
    "NOT COMPARED with {others}: engine {engine!r} differs from itself, two of them over {path} with the same seed. "
    "Make it draw from its seed alone, or name in [parity.fields] what differs."
)

#: Parameters of servers alone, and those of engines alone.
_OF_SERVERS = ("server", "services", "files", "folders", "deadline", "recording", "values", "metadata")
_OF_ENGINES = ("engine", "suite", "between", "aa", "num_envs", "steps", "autoreset", "options")


@click.command(
    epilog="\b\nExamples:\n"
    "  lucky-transport parity mujoco:quadruped --between grpc,shm\n"
    "  lucky-transport parity mujoco:quadruped --suite step --num-envs 16 --steps 2000 --autoreset all\n"
    "  lucky-transport parity --method '*Camera*' --count 40\n"
    "  lucky-transport parity --method all --count 200 --evidence lucky-evidence && lucky-transport gate\n"
    "  lucky-transport parity --server 'python server.py --port {port}' --service weather.v1.Weather\n"
    "  lucky-transport parity --server './serve.sh {port}' --proto weather.proto --method 'Weather/Get*'\n"
    "  lucky-transport parity --server './serve.sh {port}' --from run.jsonl.gz --metadata 'authorization=$TOKEN'"
)
@click.argument("engine", default="mujoco:quadruped", shell_complete=complete_engines)
@click.option(
    "--suite",
    type=click.Choice(["all", "step", "commands"]),
    help="Everything, VectorEnv.step and the exchanges below it, or typed calls and streams.  [default: all; with a "
    "pattern for --method commands]",
)
@click.option(
    "--between",
    default="grpc,shm",
    show_default=True,
    type=NAMES,
    help="Paths to compare, the baseline first.",
)
@click.option("--aa", is_flag=True, help="Compare the first path with itself: what differs then is noise.")
@click.option("--num-envs", type=click.IntRange(min=1), help="Envs stepped together.  [default: 16; for typed calls 2]")
@click.option("--steps", type=click.IntRange(min=1), help="Steps per autoreset mode.  [default: 1000]")
@click.option("--seed", default=0, show_default=True, type=click.IntRange(min=0), help="Seed of all that is random.")
@click.option(
    "--autoreset",
    type=click.Choice(["next_step", "same_step", "disabled", "all"]),
    help="Autoreset mode of the compared envs.  [default: next_step]",
)
@click.option(
    "--method",
    "methods",
    multiple=True,
    callback=one_pattern,
    shell_complete=complete_methods,
    help="Methods to call, a shell pattern such as 'SceneService/*'.  [default: all]",
)
@click.option(
    "--count",
    "--requests",
    type=click.IntRange(min=1),
    help="Requests per method; of an engine's every second one corrupted, of a server's first the table of cases, then "
    "random ones.  [default: 12; with --server 100]",
)
@click.option(
    "--server", help="Compare a gRPC server of your own in place of an engine: its command, {port} for the number."
)
@click.option(
    "--service", "services", multiple=True, help="With --server: a full name; may be repeated.  [default: all]"
)
@click.option(
    "--proto",
    "--descriptor-set",
    "files",
    type=click.Path(path_type=Path, dir_okay=False),
    multiple=True,
    help="With --server: what describes it, a .proto or what protoc's --descriptor_set_out wrote; may be repeated.  "
    "[default: its reflection]",
)
@click.option(
    "--proto-path",
    "folders",
    type=click.Path(path_type=Path, exists=True, file_okay=False),
    multiple=True,
    help="Where a .proto finds what it imports; may be repeated.",
)
@click.option(
    "--deadline", type=click.FloatRange(min=0, min_open=True), help="With --server: seconds a call has.  [default: 10]"
)
@click.option(
    "--from",
    "recording",
    type=click.Path(path_type=Path, exists=True, dir_okay=False),
    metavar="RECORDING",
    help="With --server: make the calls of this recording, in its order, in place of drawn ones.",
)
@click.option(
    "--value",
    "values",
    multiple=True,
    metavar="FIELD=VALUE",
    help="With --server: a value that a drawn field often has, e.g. weather.v1.ForecastRequest.station=Oslo; may be "
    "repeated, and stand in [parity.values].",
)
@metadata_option("With --server")
@click.option("--options", default="{}", type=JSON_OBJECT, help="Options of the engine's constructor, a JSON object.")
@click.option(
    "--evidence",
    type=click.Path(file_okay=False, path_type=Path),
    help="Folder that gets a line per compared call and exchange, for `lucky-transport gate`.",
)
@click.option("--json", "as_json", is_flag=True, help="Print the outcome as JSON.")
@click.pass_context
def parity(context: click.Context, suite: str | None, methods: str | None, as_json: bool, **given: Any) -> None:
    """Prove that ENGINE (mujoco:quadruped) answers the same over several transports.

    Starts one engine process per path with the same seed and does the same with all: exchanges and VectorEnv steps
    (resets of all, of one and of some envs, actions out of bounds, wrong calls), and every typed method and stream with
    requests made from what the engine says exists, half of them corrupted, in one shuffled sequence. Values are
    compared bit for bit, but for what [parity.fields] in lucky_transport.toml allows; the report lists what was
    compared and what was not. Paths: shm, grpc (the legacy per-agent Step), grpc-batch, inproc, or any
    installed transport. Exit code 0 only when all are equal. Where they differ, the first path is compared with itself
    before the others are blamed.

    --steps and --autoreset are for steps, --method and --count for typed calls. What changes the world is compared on
    two engines here, or by `lucky-transport record` and `replay`; it is never made twice on one.

    With --server a gRPC server of your own is started twice, on a port and in shared memory under `lucky-transport
    run`, and gets calls drawn from the descriptors of its messages, or those of a recording. A difference is shown with
    the smallest call that is found to have it.
    """
    own = {name: given.pop(name) for name in _OF_SERVERS}
    if own["server"] is not None:
        _prove_server(context, methods or "all", as_json, {**given, **own})
        return
    if wrong := [name for name, value in own.items() if value]:
        raise click.UsageError(f"{_spelt(context, wrong)}: only with --server; see --help")
    if suite is None:
        suite = "all" if methods in (None, "all", "*") else "commands"
    foreign = {"step": ("methods", "count"), "commands": ("steps", "autoreset"), "all": ()}[suite]
    _refuse(suite, [name for name in foreign if {**given, "methods": methods}[name] is not None])
    if given.pop("aa"):
        given["between"] = (given["between"][0], f"{given['between'][0]}#2")
    first = given["between"][0]
    outcome, show = _prove(suite, methods or "all", silent=as_json, **given)
    itself = None
    differs = outcome.plain()["first_difference"] is not None
    if differs and {name.partition("#")[0] for name in given["between"]} != {first}:
        replicate = {"between": (first, f"{first}#2"), "evidence": None}
        itself, _ = _prove(suite, methods or "all", silent=as_json, **given | replicate)
    if as_json:
        plain = outcome.plain() | {"itself": itself and itself.plain()}
        click.echo(json.dumps(plain, indent=2, allow_nan=False))
    elif itself is None or itself.plain()["first_difference"] is None:
        show(outcome)
    else:
        show(itself)
        click.echo(_NOISE.format(engine=given["engine"], path=first, others=", ".join(given["between"][1:])))
    sys.exit(0 if outcome.equal else 1)


def _spelt(context: click.Context, names: list[str]) -> str:
    """Return parameters as a user types them."""
    found = (one for one in context.command.params if one.name in names)
    return ", ".join("ENGINE" if isinstance(one, click.Argument) else one.opts[0] for one in found)


def _prove_server(context: click.Context, methods: str, as_json: bool, given: dict[str, Any]) -> None:
    """Compare a server with itself in shared memory, show the outcome, and end with its exit code."""
    from click.core import ParameterSource

    from lucky_transport.config import load_settings
    from lucky_transport_migration.compare.rules import ComparisonRules
    from lucky_transport_migration.console import terminated_as_by_ctrl_c, watched
    from lucky_transport_migration.parity.field_values import FieldValues
    from lucky_transport_migration.parity.service_proof import ServiceProof
    from lucky_transport_migration.parity.service_servers import ServerCommand
    from lucky_transport_migration.parity.whole_parity import show_parity
    from lucky_transport_migration.recording.asking import requests_of
    from lucky_transport_migration.recording.reading import Recording

    def is_given(name: str) -> bool:
        return context.get_parameter_source(name) is not ParameterSource.DEFAULT

    if wrong := list(filter(is_given, _OF_ENGINES)):
        raise click.UsageError(f"{_spelt(context, wrong)}: not with --server; see --help")
    if given["recording"] and (wrong := list(filter(is_given, ("count", "seed", "values")))):
        raise click.UsageError(f"{_spelt(context, wrong)}: nothing is drawn with --from")
    recorded = given["recording"] and requests_of(Recording(given["recording"]), given["metadata"])
    proof = ServiceProof(
        ServerCommand(given["server"], load_settings().start_timeout_s, given["metadata"]),
        given["files"],
        given["folders"],
        given["services"],
        methods,
        given["count"] or 100,
        given["seed"],
        given["deadline"] or 10.0,
        ComparisonRules.load(),
        given["evidence"],
        FieldValues.load(given["values"]),
        recorded,
    )
    what = "comparing calls" if recorded else "comparing methods"
    with terminated_as_by_ctrl_c(), watched(what, None, silent=as_json) as advance:
        outcome = proof.prove(advance)
    if as_json:
        click.echo(json.dumps(outcome.plain(), indent=2, allow_nan=False))
    else:
        show_parity(outcome)
    sys.exit(0 if outcome.equal else 1)


def _refuse(suite: str, wrong: list[str]) -> None:
    if wrong:
        names = ", ".join(f"--{name}" for name in wrong)
        raise click.UsageError(f"--suite {suite} does not take {names}; see --help")


def _prove(suite: str, methods: str, *, silent: bool, **given: Any) -> tuple[Any, Callable[[Any], None]]:
    """Return the outcome of a suite, and what shows it to a person."""
    from lucky_transport_migration.compare.rules import ComparisonRules
    from lucky_transport_migration.parity.whole_parity import (
        prove_whole,
        show_parity,
        show_whole_parity,
    )

    common = {name: given.pop(name) for name in ("engine", "seed", "options", "num_envs", "between")}
    common["rules"] = ComparisonRules.load()
    prove_steps = partial(_prove_steps, given["autoreset"], given["steps"], given["evidence"], silent, common)
    prove_calls = partial(_prove_calls, methods, given["count"], given["evidence"], silent, common)
    if suite == "step":
        return prove_steps(), show_parity
    if suite == "commands":
        return prove_calls(), show_parity
    return prove_whole(prove_steps, prove_calls), show_whole_parity


def _prove_steps(
    autoreset: str | None, steps: int | None, evidence: Path | None, silent: bool, common: dict[str, Any]
) -> Any:
    from lucky_transport_migration.console import watched
    from lucky_transport_migration.parity.parity_evidence import EvidenceWriter
    from lucky_transport_migration.parity.step_parity import MODES, prove, total_steps

    modes, steps = MODES if autoreset == "all" else (autoreset or "next_step",), steps or 1000
    engine, between, rest = _split(common, num_envs=16)
    with ExitStack() as stack:
        writer = stack.enter_context(closing(EvidenceWriter(evidence)))
        advance = stack.enter_context(watched("comparing steps", total_steps(steps, modes), silent=silent))

        def advanced(took: Mapping[str, float]) -> None:
            advance()
            writer.write_step(took)

        parity = prove(engine, between, steps=steps, modes=modes, advance=advanced, **rest)
        if parity.difference is not None:
            writer.write_step(dict.fromkeys(parity.difference.names, 0.0), parity.difference)
        return parity


def _prove_calls(pattern: str, count: int | None, evidence: Path | None, silent: bool, common: dict[str, Any]) -> Any:
    from lucky_transport_migration.console import watched
    from lucky_transport_migration.parity.call_proof import chosen_methods, prove_commands
    from lucky_transport_migration.parity.parity_evidence import EvidenceWriter

    methods = chosen_methods(pattern)
    engine, between, rest = _split(common, num_envs=2)
    with ExitStack() as stack:
        write = stack.enter_context(closing(EvidenceWriter(evidence))).write
        advance = stack.enter_context(watched("comparing calls", count or 12, silent=silent))
        return prove_commands(engine, between, methods=methods, count=count or 12, advance=advance, write=write, **rest)


def _split(common: dict[str, Any], num_envs: int) -> tuple[str, tuple[str, ...], dict[str, Any]]:
    """Return engine and paths, and the rest of what both proofs take; num_envs: where none was asked for."""
    rest = {**common, "num_envs": common["num_envs"] or num_envs}
    return rest.pop("engine"), rest.pop("between"), rest

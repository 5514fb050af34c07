"""`lucky-transport parity`: the same engine over several transports, its steps or its calls, compared bit for bit."""

from __future__ import annotations

import json
import sys
from collections.abc import Container, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any, NoReturn

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
#: Suite -> parameters that it has no use for.
_NOT_OF = {"step": ("methods", "count"), "commands": ("steps", "autoreset"), "all": ()}


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
    from lucky_transport_migration.cli.show_parity import show_parity

    methods = methods or "all"
    of_server = {name: given.pop(name) for name in _OF_SERVERS}
    if of_server["server"] is not None:
        _refuse(context, _OF_ENGINES, "not with --server")
        drawn = {name: value for name, value in given.items() if name not in _OF_ENGINES}
        _end(_prove_server(context, methods, as_json, **drawn, **of_server), as_json)
    _refuse(context, _OF_SERVERS, "only with --server")
    suite = suite or ("all" if methods in ("all", "*") else "commands")
    _refuse(context, _NOT_OF[suite], f"not with --suite {suite}")
    if given.pop("aa"):
        given["between"] = (given["between"][0], f"{given['between'][0]}#2")
    first, *others = given["between"]
    outcome, itself = _prove(suite, methods, as_json, **given), None
    if outcome.plain()["first_difference"] is not None and {name.partition("#")[0] for name in others} != {first}:
        itself = _prove(suite, methods, as_json, **given | {"between": (first, f"{first}#2"), "evidence": None})
    if not as_json and itself is not None and itself.plain()["first_difference"] is not None:
        show_parity(itself)
        click.echo(_NOISE.format(engine=given["engine"], path=first, others=", ".join(others)))
        sys.exit(1)
    _end(outcome, as_json, itself=itself and itself.plain())


def _end(outcome: Any, as_json: bool, **more: Any) -> NoReturn:
    """Show the outcome of a proof, as JSON with `more`, and end with its exit code."""
    from lucky_transport_migration.cli.show_parity import show_parity

    if as_json:
        click.echo(json.dumps(outcome.plain() | more, indent=2, allow_nan=False))
    else:
        show_parity(outcome)
    sys.exit(0 if outcome.equal else 1)


def _refuse(context: click.Context, names: Container[str | None], why: str) -> None:
    """Refuse those of the parameters that were given, as a user types them."""
    wrong = [one for one in context.command.params if one.name in names and _is_given(context, one.name or "")]
    if wrong:
        spelt = ", ".join("ENGINE" if isinstance(one, click.Argument) else "/".join(one.opts) for one in wrong)
        raise click.UsageError(f"{spelt}: {why}; see --help")


def _is_given(context: click.Context, name: str) -> bool:
    return context.get_parameter_source(name) is not click.core.ParameterSource.DEFAULT


def _prove_server(
    context: click.Context, methods: str, silent: bool, *, recording: Path | None, evidence: Path | None, **given: Any
) -> Any:
    """Return the outcome of comparing a server with itself in shared memory."""
    from lucky_transport.config import load_settings
    from lucky_transport_migration.compare.rules import ComparisonRules
    from lucky_transport_migration.console import terminated_as_by_ctrl_c, watched
    from lucky_transport_migration.parity.field_values import FieldValues
    from lucky_transport_migration.parity.service_proof import ServiceProof
    from lucky_transport_migration.parity.service_servers import ServerCommand
    from lucky_transport_migration.recording.entries import Recording
    from lucky_transport_migration.recording.replay_call import requests_of

    if recording:
        _refuse(context, ("count", "seed", "values"), "nothing is drawn with --from")
    recorded = recording and requests_of(Recording(recording), given["metadata"])
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
        evidence,
        FieldValues.load(given["values"]),
        recorded,
    )
    what = "comparing calls" if recorded else "comparing methods"
    with terminated_as_by_ctrl_c(), watched(what, None, silent=silent) as advance:
        return proof.prove(advance)


def _prove(
    suite: str,
    pattern: str,
    silent: bool,
    *,
    engine: str,
    between: tuple[str, ...],
    num_envs: int | None,
    autoreset: str | None,
    steps: int | None,
    count: int | None,
    evidence: Path | None,
    **common: Any,
) -> Any:
    """Return the outcome of a suite; common: the seed and the engine's options."""
    from lucky_transport_migration.compare.rules import ComparisonRules
    from lucky_transport_migration.console import watched
    from lucky_transport_migration.parity.call_parity import prove_whole
    from lucky_transport_migration.parity.call_proof import chosen_methods, prove_commands
    from lucky_transport_migration.parity.parity_evidence import EvidenceWriter
    from lucky_transport_migration.parity.step_parity import MODES, prove, total_steps

    common["rules"] = ComparisonRules.load()
    modes, steps = MODES if autoreset == "all" else (autoreset or "next_step",), steps or 1000
    methods, count = chosen_methods(pattern), count or 12

    def prove_steps() -> Any:
        with watched("comparing steps", total_steps(steps, modes), silent=silent) as advance:

            def advanced(took: Mapping[str, float]) -> None:
                advance()
                writer.write_step(took)

            sizes = {"num_envs": num_envs or 16, "steps": steps, "modes": modes}
            parity = prove(engine, between, advance=advanced, **sizes, **common)
        if parity.difference is not None:
            writer.write_step(dict.fromkeys(parity.difference.names, 0.0), parity.difference)
        return parity

    def prove_calls() -> Any:
        with watched("comparing calls", count, silent=silent) as advance:
            sizes = {"num_envs": num_envs or 2, "methods": methods, "count": count}
            return prove_commands(engine, between, advance=advance, write=writer.write, **sizes, **common)

    with closing(EvidenceWriter(evidence)) as writer:
        if suite == "all":
            return prove_whole(prove_steps, prove_calls)
        return prove_steps() if suite == "step" else prove_calls()

"""`lucky-transport scan`: what is left of gRPC in Python code, and the rewrites that are mechanical."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from lucky_transport.errors import plural

if TYPE_CHECKING:
    from lucky_transport_migration.scan.findings import ScanResult

_SCANNER = "lucky_transport_migration.scan.scanner"
_CHANGES = "lucky_transport_migration.scan.changes"
_TARGETS = "lucky_transport_migration.scan.targets"


@click.command(
    epilog="\b\nExamples:\n"
    "  lucky-transport scan ./training\n"
    "  lucky-transport scan ./training --fix --endpoint shm://demo\n"
    "  lucky-transport scan ./training --fix --target 'robot.lab:*=shm://robot'\n"
    "  lucky-transport scan ./training --json | jq -r '.findings[] | \"\\(.path):\\(.line) \\(.symbol)\"'\n"
    "  lucky-transport scan . --gate wire"
)
@click.argument("path", default=".", type=click.Path(exists=True, path_type=Path))
@click.option("--fix", is_flag=True, help="Rewrite what is mechanical: shows the diff, asks, writes.")
@click.option("--diff", is_flag=True, help="Show what --fix would do, and write nothing.")
@click.option("--yes", is_flag=True, help="With --fix: do not ask.")
@click.option(
    "--endpoint",
    metavar="ENDPOINT",
    help="Where rewritten channels, servers, envs and clients find the engine, e.g. shm://demo."
    "  [default: as configured when the program runs]",
)
@click.option(
    "--target",
    "targets",
    metavar="PATTERN[=ENDPOINT]",
    multiple=True,
    help="A target of gRPC that is the engine's too: HOST:PORT, unix:PATH, with * for anything, or an expression as the"
    " program spells it; found at --endpoint, or at one of its own, shm://NAME. Can be given several times."
    "  [default: port 50051 of this host, and what the setting grpc_map names]",
)
@click.option(
    "--gate",
    type=click.Choice(["wire", "package"]),
    help="Exit with 1 unless nothing goes over gRPC's wire, or nothing of gRPC is left and its package can go.",
)
@click.option("--json", "as_json", is_flag=True, help="Print the outcome as JSON.")
def scan(
    path: Path,
    fix: bool,
    diff: bool,
    yes: bool,
    endpoint: str | None,
    targets: tuple[str, ...],
    gate: str | None,
    as_json: bool,
) -> None:
    """Find what is left of gRPC below PATH: imports, channels, stubs, servers, servicers, dependencies, build steps.

    Nothing is run or imported. Each place comes with the API level that fits it: 1 runs unchanged under
    `lucky-transport run` or with a drop-in channel, 2 is for typed calls (`connect`), 3 for the env (`make`).
    Places on gRPC's wire are counted apart from those that need its package: the stubs and servicers of a service of
    your own need it over shared memory too. Generated files are counted apart; those with stubs, and files that cannot
    be understood, keep --gate package closed, the latter --gate wire too.

    --fix rewrites luckyrobots' LuckyEnv and LuckyEngineClient, channels, servers, and requirements that nothing needs
    any more. Only what is known to lead to the engine is replaced: port 50051 of this host, what the setting grpc_map
    names, and what --target names; everything else is listed with the reason. Notebooks are not
    read: export them as .py.
    """
    if as_json and (fix or diff) and not (yes or diff):
        raise click.UsageError("--json with --fix cannot ask; add --yes, or --diff to change nothing")
    if endpoint is not None:
        from lucky_transport.endpoint import Endpoint

        endpoint = str(Endpoint.parse(endpoint))
    result, extra = _scan(path, silent=as_json), dict[str, Any]()
    if fix or diff:
        result, extra = _fix(path, result, endpoint, targets, write=fix and not diff, ask=not yes, silent=as_json)
    if as_json:
        click.echo(json.dumps(result.plain() | extra, indent=2))
    else:
        from lucky_transport_migration.scan.show import show_result

        show_result(result)
    passes = {"wire": result.nothing_on_wire, "package": result.nothing_left, None: True}
    sys.exit(0 if passes[gate] else 1)


def _scan(path: Path, *, silent: bool) -> ScanResult:
    from lucky_transport.registry import load
    from lucky_transport_migration.console import watched

    run = load(f"{_SCANNER}:scan", owner="command 'scan'", extra="scan")
    from lucky_transport_migration.scan.scanner import files_of

    with watched("reading", sum(1 for _ in files_of(path)), silent=silent) as advance:
        return run(path, advance=advance)


def _fix(
    path: Path,
    result: ScanResult,
    endpoint: str | None,
    targets: tuple[str, ...],
    *,
    write: bool,
    ask: bool,
    silent: bool,
) -> tuple[ScanResult, dict[str, Any]]:
    """Return what is left after the rewrites, or before them where they were not wanted, and what JSON adds."""
    from lucky_transport.config import load_settings
    from lucky_transport.registry import load
    from lucky_transport_migration.console import watched

    plan = load(f"{_CHANGES}:plan_changes", owner="command 'scan --fix'", extra="scan")
    load(f"{_TARGETS}:check_targets", owner="command 'scan --fix'", extra="scan")(targets)
    from lucky_transport_migration.scan.changes import files_with_code
    from lucky_transport_migration.scan.show import show_changes

    settings = load_settings(directory=path.resolve() if path.is_dir() else path.resolve().parent)
    with watched("rewriting", len(files_with_code(result)), silent=silent) as advance:
        changes = plan(path, result, endpoint, targets, settings=settings, advance=advance)
    if not silent:
        show_changes(changes)
    if (
        write
        and changes.files
        and (not ask or click.confirm(f"Change {plural(len(changes.files), 'file')}?", default=False))
    ):
        load(f"{_CHANGES}:write_changes", owner="command 'scan --fix'", extra="scan")(changes)
        result = changes.after
    return result, changes.plain()

"""`lucky-transport stage`: how far each method has moved, and moving it."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from lucky_transport.cli.tables import echo
from lucky_transport.cli.tables import show as show_table
from lucky_transport.errors import ConfigError
from lucky_transport.registry import load
from lucky_transport_migration.cli.arguments import complete_methods

if TYPE_CHECKING:
    from lucky_transport_migration.gate.moves import StageChange


def _placement(text: str) -> Any:
    from lucky_transport_migration.stages.stage import Placement

    try:
        return Placement.parse(text)
    except ValueError as error:
        raise click.BadParameter(str(error)) from error


_JSON = click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
_FORCE = click.option("--force", is_flag=True, help="Move up in spite of a cool-down, or of the gate.")


@click.group(
    epilog="\b\nExamples:\n"
    "  lucky-transport stage show 'SceneService/*'\n"
    "  lucky-transport stage set 'SceneService/*' shadow\n"
    "  lucky-transport stage promote SceneService/ListEntities",
)
def stage() -> None:
    """Show and change how far each method has moved from gRPC to shared memory.

    A method goes grpc -> shadow -> canary 1%, 10%, 50% -> shm -> complete; its stage is in the nearest
    lucky_transport.toml, and running programs follow changes of the file within a second. METHOD is a short name
    (SceneService/ListEntities), a full one, or a shell pattern in quotes.
    """


@stage.command(
    short_help="List methods with effect, stage and evidence.",
    epilog="\b\nExample:\n  lucky-transport stage show 'SceneService/*' --reasons",
)
@click.argument("pattern", shell_complete=complete_methods, default="*", metavar="[METHOD]")
@click.option("--reasons", is_flag=True, help="Say why each method has its side-effect class.")
@_JSON
def show(pattern: str, reasons: bool, as_json: bool) -> None:
    """List methods with their side-effect class, their stage, and what was seen of them."""
    from lucky_transport_migration.jsonl import Damage
    from lucky_transport_migration.stages.effective_stages import EffectiveStages, lines, unused_rows
    from lucky_transport_migration.stages.evidence_window import count_evidence

    standing, damage = EffectiveStages.load(), Damage()
    seen = count_evidence(standing.plan.evidence, damage)
    found = list(lines(standing, seen, pattern))
    if not found:
        standing.plan.catalogue.find(pattern)  # says which are nearest
    unused = unused_rows(standing, seen)
    if as_json:
        plain: dict[str, Any] = {"file": str(standing.plan.path), "control": standing.plan.control}
        plain |= {"candidate": standing.plan.candidate, "methods": [one.plain() for one in found]}
        click.echo(json.dumps(plain | {"unused_rows": unused, "damaged": damage.plain()}, indent=2))
        return
    _show_lines(str(standing.plan.path), found, reasons=reasons)
    for row in unused:
        echo(f"row {row!r} fits no method that is known here")
    if damage.lines:
        echo(damage.sentence)


@stage.command(
    "set",
    short_help="Put METHOD at a stage.",
    epilog="\b\nExample:\n  lucky-transport stage set 'SceneService/*' 'canary 10%'",
)
@click.argument("method", shell_complete=complete_methods)
@click.argument("placement", type=_placement, metavar="STAGE")
@_FORCE
@_JSON
def set_(method: str, placement: Any, force: bool, as_json: bool) -> None:
    """Put METHOD at STAGE: grpc, shadow, 'canary 10%', shm or complete. The gate is not asked.

    A pattern becomes one row, in the place of all rows that it covers. Exit code 1 when a cool-down forbids it.
    """
    moves = _moves()
    _done(done := moves.place(method, placement, force=force), moves.notes(done), as_json=as_json)


@stage.command(
    short_help="Move METHOD up by one rung if the gate would.",
    epilog="\b\nExample:\n  lucky-transport stage promote 'SceneService/*'",
)
@click.argument("method", shell_complete=complete_methods)
@_FORCE
@_JSON
def promote(method: str, force: bool, as_json: bool) -> None:
    """Move METHOD up by one rung, where `lucky-transport gate` would let it.

    Live evidence counts from the method's last move on. Exit code 1 when a method stays where it is.
    """
    moves = _moves()
    _done(done := moves.promote(method, force=force), moves.notes(done), as_json=as_json)


@stage.command(
    short_help="Move METHOD back at once.",
    epilog="\b\nExample:\n  lucky-transport stage demote SceneService/ListEntities --why 'looks wrong'",
)
@click.argument("method", shell_complete=complete_methods)
@click.option("--to", type=_placement, metavar="STAGE", help="Where to.  [default: where gRPC answers again]")
@click.option("--why", default="by hand", help="The reason, for who reads the journal.")
@_JSON
def demote(method: str, to: Any, why: str, as_json: bool) -> None:
    """Move METHOD back at once, and hold it there for the cool-down of [gate].

    What was compared before then counts no more: to set it aside of a method that is at grpc, name that method itself.
    """
    _done(_moves().demote(method, to, why), (), as_json=as_json)


@stage.command(
    short_help="Make the services of SOURCE known.",
    epilog="\b\nExamples:\n  lucky-transport stage register weather.proto\n"
    "  lucky-transport stage register grpc://127.0.0.1:50071",
)
@click.argument("source")
@click.option(
    "--proto-path",
    "folders",
    type=click.Path(path_type=Path, exists=True, file_okay=False),
    multiple=True,
    help="Where a .proto finds what it imports; may be given repeatedly.",
)
def register(source: str, folders: tuple[Path, ...]) -> None:
    """Make the services of SOURCE known, so that they can be named before a program has called them.

    SOURCE is a .proto, a file that protoc's --descriptor_set_out wrote, or grpc://HOST:PORT, a server with reflection.
    What it says is kept beside the evidence. A program under `lucky-transport run` does the same for what it calls.
    """
    from lucky_transport_migration.catalogue.descriptors import keep_set, methods_in
    from lucky_transport_migration.catalogue.sources import file_set_from
    from lucky_transport_migration.stages.stage_plan import StagePlan

    plan, content = StagePlan.load(), file_set_from(source, folders)
    try:
        found = {one.name for one in methods_in(content, source)}
    except ValueError as error:
        raise ConfigError(
            f"{source}: {error}", hint="write one: protoc --include_imports --descriptor_set_out FILE"
        ) from None
    if not found:
        raise ConfigError(f"{source} has no service", hint="give the .proto that has the line `service`")
    plan.evidence.mkdir(parents=True, exist_ok=True)
    keep_set(plan.evidence, content)
    for name in sorted(found):
        method = plan.catalogue.method(name)
        echo(f"{name}: {method.effect.value}, {method.reason}")


def _moves() -> Any:
    return load("lucky_transport_migration.gate.moves:Moves", owner="lucky-transport stage", extra="scan")()


def _done(moves: Sequence[StageChange], notes: Sequence[str], *, as_json: bool) -> None:
    """Print what moved, and notes on stderr; end with exit code 1 if something that was to move did not."""
    if as_json:
        rows = [
            {"method": one.method, "from": str(one.before), "to": str(one.to), "refused": one.refused} for one in moves
        ]
        plain = {"moved": not any(one.refused for one in moves), "methods": rows, "notes": list(notes)}
        click.echo(json.dumps(plain, indent=2))
    for one in () if as_json else moves:
        arrow = f"{one.before} -> {one.to}" if one.before != one.to else f"stays at {one.to}"
        echo(f"{one.method}: {f'not moved to {one.to}: {one.refused}' if one.refused else arrow}")
    for note in () if as_json else notes:
        echo(f"note: {note}", err=True)
    sys.exit(any(one.refused for one in moves))


def _show_lines(title: str, found: Sequence[Any], *, reasons: bool) -> None:
    from lucky_transport.messages.method import short_name

    columns = ("method", "effect", "stage", "by", "equal", "different", "failed", "not compared")
    rows = [
        (
            short_name(one.method),
            f"{one.effect}: {one.reason}" if reasons else one.effect,
            one.stage,
            one.by + (f" (in cool-down for {one.cooling_s:.0f} s more)" if one.cooling_s else ""),
            *(one.seen.get(verdict, "-") for verdict in ("equal", "different", "failed", "not_compared")),
        )
        for one in found
    ]
    show_table(title, columns, rows, empty="no method fits")

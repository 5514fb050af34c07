"""A scan for a person: the verdict, then a table of what is left, then what no one can tell.

On a terminal the table is drawn; in a pipe it is one line a place, `path:line: kind symbol (level N: why)`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from lucky_transport.cli.tables import echo
from lucky_transport_migration.console import print_text, text_of
from lucky_transport_migration.scan.findings import LEVELS, ScanResult

if TYPE_CHECKING:
    from lucky_transport_migration.scan.changes import Changes


def show_result(result: ScanResult) -> None:
    """Print what is left, by file."""
    console = Console()
    if result.findings and console.is_terminal:
        _draw(console, result)
    else:
        for one in result.findings:
            wire = "on the wire, " if one.wire else ""
            echo(f"{one.where}: {one.kind} {one.symbol} ({wire}level {one.level}: {one.why})")
    for unread in result.unread:
        echo(f"{unread.path}:{unread.line}: {unread.why}", fg="yellow")
    for path in result.generated_stubs:
        echo(f"{path}: generated stubs import grpc; delete them when nothing imports them")
    for unmoved in result.unmoved:
        echo(f"{unmoved.path}:{unmoved.line}: {unmoved.symbol} {unmoved.why}")
    echo(result.sentence, bold=True, fg="green" if result.nothing_left else None)


def _draw(console: Console, result: ScanResult) -> None:
    table = Table(box=SIMPLE_HEAD, pad_edge=False)
    for name in ("where", "kind", "symbol", "wire", "level"):
        table.add_column(name, overflow="fold", min_width=_WIDTHS.get(name))
    table.add_column("why", overflow="fold", ratio=1, min_width=24)
    for one in result.findings:
        cells = (one.where, one.kind, one.symbol, "wire" if one.wire else "", str(one.level), one.why)
        table.add_row(*map(text_of, cells))
    console.print(table)
    levels = sorted({one.level for one in result.findings})
    print_text(console, "  ".join(f"level {level}: {LEVELS[level]}" for level in levels), "dim")


def show_changes(changes: Changes) -> None:
    """Print what would change, as a diff, and what is left to a person."""
    for one in changes.files:
        for line in one.diff().splitlines():
            echo(line.expandtabs(), fg=_COLOURS.get(line[:1]) if line[:3] not in ("+++", "---") else None)
    for left in changes.refusals:
        echo(f"{left.path}:{left.line}: left to you: {left.why}")
    echo(f"After this: {changes.after.sentence}" if changes.files else "No rule rewrites anything here.", bold=True)


#: Columns that are read at a glance and must not fold.
_WIDTHS = {"kind": 11, "wire": 4, "level": 5}
_COLOURS = {"+": "green", "-": "red", "@": "cyan"}

"""`lucky-transport ls`: what is installed here, and which segments live on this host."""

from __future__ import annotations

import json
from typing import Any

import click

from lucky_transport.cli.tables import show
from lucky_transport.diagnosis import inventory

__all__ = ["ls"]


@click.command(
    epilog="\b\nExamples:\n  lucky-transport ls\n  lucky-transport ls --json | jq -r '.segments[].name'",
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object instead of tables.")
def ls(as_json: bool) -> None:
    """List transports, engines and commands, whether each can be used here, and the segments on this host."""
    from lucky_transport.shm.segment import segment_files

    items = {
        "transports": inventory.transports(),
        "engines": inventory.engines(),
        "commands": inventory.commands(),
    }
    broken = inventory.broken_plugins()
    if as_json:
        plain: dict[str, Any] = {kind: [_item_plain(kind, item) for item in found] for kind, found in items.items()}
        plain |= {"broken_plugins": broken, "segments": [_segment_plain(one) for one in segment_files.find()]}
        click.echo(json.dumps(plain, indent=2))
        return
    for kind, column in (("transports", "schemes"), ("engines", "variants")):
        rows = [
            (item.name, " ".join(item.names) or "-", item.extra or "-", item.summary, _usable(item))
            for item in items[kind]
        ]
        show(kind.capitalize(), ("name", column, "extra", "summary", "usable"), rows)
    show("Commands", ("name", "summary", "usable"), [(i.name, i.summary, _usable(i)) for i in items["commands"]])
    if broken:
        show("Plugins that failed to load", ("name", "why"), list(broken.items()))
    _show_segments(segment_files.find())


def _show_segments(segments: list[Any]) -> None:
    from lucky_transport.shm.files.namespaces import STOPPED

    rows = [
        (
            one.name,
            f"{one.size_bytes / 2**20:.1f} MiB",
            one.num_envs,
            one.engine.removeprefix("pid ").removesuffix(STOPPED) or "-",
            one.client.removeprefix("pid ") or "-",
            one.frame_seq,
            "stale" if one.stale else "stopped" if one.stopped else "ok",
        )
        for one in segments
    ]
    columns = ("name", "size", "envs", "engine pid", "client pid", "frames", "state")
    show("Segments on this host", columns, rows)
    if any(one.stale for one in segments):
        click.echo("The engine of a stale segment is gone; `lucky-transport doctor --fix` removes it.")
    if any(one.stopped for one in segments):
        click.echo("A stopped engine goes on after `kill -CONT` of its pid.")


def _usable(item: inventory.InventoryEntry) -> str:
    return "yes" if item.loadable else f"no: {item.problem}"


def _item_plain(kind: str, item: inventory.InventoryEntry) -> dict[str, Any]:
    plain: dict[str, Any] = {"name": item.name, "summary": item.summary}
    if kind != "commands":
        plain |= {"schemes" if kind == "transports" else "variants": list(item.names), "extra": item.extra}
    return plain | {"loadable": item.loadable, "problem": item.problem}


def _segment_plain(one: Any) -> dict[str, Any]:
    return {
        "name": one.name,
        "path": str(one.path),
        "size_bytes": one.size_bytes,
        "num_envs": one.num_envs,
        "engine_pid": one.engine_pid,
        "client_pid": one.client_pid,
        "engine": one.engine,
        "client": one.client,
        "frame_seq": one.frame_seq,
        "stale": one.stale,
        "stopped": one.stopped,
    }

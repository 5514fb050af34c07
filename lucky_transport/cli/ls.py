"""`lucky-transport ls`: what runs on this host, and what is installed here."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import click

from lucky_transport.cli.tables import echo, show
from lucky_transport.diagnosis import packages
from lucky_transport.errors import plural
from lucky_transport.registry import registry

if TYPE_CHECKING:
    from lucky_transport.control import EngineDescription
    from lucky_transport.diagnosis.servers import ServerReport


_INSTALLED = {"transports": packages.transports, "engines": packages.engines, "commands": packages.commands}


@click.command(
    epilog="\b\nExamples:\n  lucky-transport ls\n  lucky-transport ls engines\n"
    "  lucky-transport ls --json | jq -r '.segments[].name'",
)
@click.argument("kind", required=False, type=click.Choice([*_INSTALLED]), metavar="[transports|engines|commands]")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object instead of tables.")
def ls(kind: str | None, as_json: bool) -> None:
    """List the segments, engines and servers on this host; or the transports, engines or commands that are installed.

    Servers are those of gRPC in shared memory: of a program under `lucky-transport run`, or one that makes them. Calls
    are counted under `run`, over shared memory and over gRPC together.
    """
    broken = packages.failed_plugins()
    if as_json:
        _print_json(broken)
        return
    if kind is None:
        from lucky_transport import control
        from lucky_transport.diagnosis import servers
        from lucky_transport.shm.segment import segment_files

        _show_segments(segment_files.find())
        _show_engines(control.engines())
        _show_servers(servers.find())
        found = registry()  # to count what is installed, nothing of it is loaded
        installed = {"transport": found.transports, "engine": found.engines, "command": found.commands}
        counts = ", ".join(plural(len(infos), name) for name, infos in installed.items())
        click.echo(f"Installed: {counts}. `lucky-transport ls engines` lists the engines, and so on.")
    elif kind == "commands":
        show("Commands", ("name", "summary", "usable"), [(i.name, i.summary, _usable(i)) for i in packages.commands()])
    else:
        rows = [
            (item.name, " ".join(item.names) or "-", item.extra or "-", item.summary, _usable(item))
            for item in _INSTALLED[kind]()
        ]
        column = "schemes" if kind == "transports" else "variants"
        show(kind.capitalize(), ("name", column, "extra", "summary", "usable"), rows)
    if broken:
        show("Plugins that failed to load", ("name", "why"), list(broken.items()))


def _print_json(broken: dict[str, str]) -> None:
    from lucky_transport import control
    from lucky_transport.diagnosis import servers
    from lucky_transport.shm.segment import segment_files

    plain: dict[str, Any] = {
        kind: [_item_plain(kind, item) for item in listed()] for kind, listed in _INSTALLED.items()
    }
    plain |= {"broken_plugins": broken, "segments": [one.plain() for one in segment_files.find()]}
    plain |= {"running": [asdict(one) for one in control.engines()]}
    click.echo(json.dumps(plain | {"servers": [one.plain() for one in servers.find()]}, indent=2))


def _show_engines(engines: list[EngineDescription]) -> None:
    if engines:
        rows = [(one.engine, one.num_envs, " ".join(one.endpoints), one.pid, one.summary) for one in engines]
        show("Engines on this host", ("engine", "envs", "endpoints", "pid", "services"), rows)


def _show_servers(found: list[ServerReport]) -> None:
    from lucky_transport.diagnosis.servers import stale_sentence

    rows = [
        (
            one.name,
            " ".join(one.services) or "-",
            len(one.methods) or "-",
            "-" if one.total is None else f"{one.total:,}",
            "-" if one.peers is None else one.peers,
            one.transports,
            one.target or "-",
            one.pid or "-",
            one.state,
        )
        for one in found
        if one.state != "stale"
    ]
    columns = ("name", "services", "methods", "calls", "peers", "transport", "gRPC at", "pid", "state")
    show("Servers on this host", columns, rows)
    if stale := stale_sentence(found):
        echo(stale)
        echo()


def _show_segments(segments: list[Any]) -> None:
    from lucky_transport.shm.files.liveness import STOPPED

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


def _usable(item: packages.InventoryEntry) -> str:
    return "yes" if item.loadable else f"no: {item.problem}"


def _item_plain(kind: str, item: packages.InventoryEntry) -> dict[str, Any]:
    plain: dict[str, Any] = {"name": item.name, "summary": item.summary}
    if kind != "commands":
        plain |= {"schemes" if kind == "transports" else "variants": list(item.names), "extra": item.extra}
    return plain | {"loadable": item.loadable, "problem": item.problem}

"""The installed transports, engines and commands, and whether they load; each is loaded to find out."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from lucky_transport.errors import TransportError
from lucky_transport.hookspecs import CommandInfo, EngineInfo, TransportInfo
from lucky_transport.registry import Registry, load, registry

_Info = TransportInfo | EngineInfo | CommandInfo


@dataclass(frozen=True, slots=True)
class InventoryEntry:
    """A transport, engine or command of a plugin; `names` are its URL schemes or variants, `problem` "" if it loads."""

    name: str
    summary: str
    names: tuple[str, ...] = ()
    extra: str = ""
    problem: str = ""

    @property
    def loadable(self) -> bool:
        """True when it can be used here."""
        return not self.problem


def transports(found: Registry | None = None) -> list[InventoryEntry]:
    """Return every transport, by name; both of its ends are loaded."""
    infos = (found or registry()).transports.values()
    return _entries((info, "transport", info.schemes, (info.client, info.server)) for info in infos)


def engines(found: Registry | None = None) -> list[InventoryEntry]:
    """Return every engine, by name; its factory is loaded, no engine is made."""
    return _entries((info, "engine", info.variants, (info.factory,)) for info in (found or registry()).engines.values())


def commands(found: Registry | None = None) -> list[InventoryEntry]:
    """Return every subcommand, by name; its module is loaded."""
    return _entries((info, "command", (), (info.command,)) for info in (found or registry()).commands.values())


def _entries(offered: Iterable[tuple[_Info, str, tuple[str, ...], tuple[str, ...]]]) -> list[InventoryEntry]:
    """Return the entries of what is offered: its info, what it is, its further names, what is loaded of it."""
    entries = [
        InventoryEntry(
            info.name, info.summary, names, info.extra, _problem(targets, f"{kind} {info.name!r}", info.extra)
        )
        for info, kind, names, targets in offered
    ]
    return sorted(entries, key=lambda entry: entry.name)


def broken_plugins(found: Registry | None = None) -> dict[str, str]:
    """Return plugin name -> why it could not be loaded at all."""
    broken = (found or registry()).broken
    return {name: f"{type(error).__name__}: {error}" for name, error in sorted(broken.items())}


def _problem(targets: Iterable[str], owner: str, extra: str) -> str:
    for target in filter(None, targets):
        try:
            load(target, owner=owner, extra=extra)
        except TransportError as error:
            return str(error)
    return ""

"""The installed transports, engines and commands, and whether they load; each is loaded to find out."""

from __future__ import annotations

from dataclasses import dataclass

from lucky_transport.errors import TransportError
from lucky_transport.registry import Registry, load, registry

__all__ = ["InventoryEntry", "broken_plugins", "commands", "engines", "transports"]


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
    return sorted(
        (
            InventoryEntry(
                info.name,
                info.summary,
                info.schemes,
                info.extra,
                _problem(info.client, info.server, owner=f"transport {info.name!r}", extra=info.extra),
            )
            for info in infos
        ),
        key=lambda entry: entry.name,
    )


def engines(found: Registry | None = None) -> list[InventoryEntry]:
    """Return every engine, by name; its factory is loaded, no engine is made."""
    infos = (found or registry()).engines.values()
    return sorted(
        (
            InventoryEntry(
                info.name,
                info.summary,
                info.variants,
                info.extra,
                _problem(info.factory, owner=f"engine {info.name!r}", extra=info.extra),
            )
            for info in infos
        ),
        key=lambda entry: entry.name,
    )


def commands(found: Registry | None = None) -> list[InventoryEntry]:
    """Return every subcommand, by name; its module is loaded."""
    infos = (found or registry()).commands.values()
    return sorted(
        (
            InventoryEntry(
                info.name,
                info.summary,
                problem=_problem(info.command, owner=f"command {info.name!r}", extra=info.extra),
            )
            for info in infos
        ),
        key=lambda entry: entry.name,
    )


def broken_plugins(found: Registry | None = None) -> dict[str, str]:
    """Return plugin name -> why it could not be loaded at all."""
    broken = (found or registry()).broken
    return {name: f"{type(error).__name__}: {error}" for name, error in sorted(broken.items())}


def _problem(*targets: str, owner: str, extra: str = "") -> str:
    for target in filter(None, targets):
        try:
            load(target, owner=owner, extra=extra)
        except TransportError as error:
            return str(error)
    return ""

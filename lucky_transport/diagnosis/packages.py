"""What is installed: transports, engines and commands, each loaded to find out whether it can be used.

And checks of it against what the metadata of this distribution requires: versions, extras, plugins.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from importlib import metadata

from lucky_transport.diagnosis.check import Check, CheckStatus, Roots
from lucky_transport.errors import TransportError
from lucky_transport.foreign_code import import_problem
from lucky_transport.hookspecs import CommandInfo, EngineInfo, TransportInfo
from lucky_transport.registry import Registry, load, registry
from lucky_transport.version import install_command

DISTRIBUTION = "lucky-transport"

#: Extras that stand for several others, or are for work on this project.
_COLLECTIONS = ("all", "dev", "docs", "migration")


_ABSENT = " is not installed"

#: Packages that are done without where their import fails: what says so elsewhere is a line of a log at most.
_DONE_WITHOUT = {
    "grpcio-health-checking": "grpc_health.v1.health",
    "grpcio-reflection": "grpc_reflection.v1alpha.reflection",
    "prometheus-client": "prometheus_client",
}


@dataclass(frozen=True, slots=True)
class Requirement:
    """One line of this distribution's metadata: `name[extras]>=at_least,<below; extra == "extra"`."""

    name: str
    extras: tuple[str, ...] = ()
    at_least: str = ""
    extra: str = ""
    below: str = ""

    @classmethod
    def parse(cls, line: str) -> Requirement:
        """Return the requirement of a line; raises ValueError for a form that pyproject.toml of this project lacks."""
        found = _LINE.fullmatch(line.strip())
        if found is None:
            raise ValueError(f"requirement {line!r}: expected name[extras]>=version,<version; extra == 'name'")
        extras = tuple(one.strip() for one in (found["extras"] or "").split(",") if one.strip())
        bounds = dict(_BOUND.findall(found["bounds"]))
        return cls(found["name"], extras, bounds.get(">=", ""), found["extra"] or "", bounds.get("<", ""))


_BOUND = re.compile(r"(>=|<)\s*([\w.]+)")
_LINE = re.compile(
    rf"""(?P<name>[\w.-]+)\s*(\[(?P<extras>[^]]*)\])?\s*(?P<bounds>({_BOUND.pattern}\s*,?\s*)*)"""
    r"""\s*(;\s*extra\s*==\s*["'](?P<extra>[\w-]+)["'])?"""
)


def _canonical(name: str) -> str:
    """Return a distribution's name as package indexes compare it."""
    return re.sub(r"[-_.]+", "-", name).lower()


def _release(version: str) -> tuple[int, ...]:
    """Return the numbers a version begins with, without trailing zeros; a pre-release counts as its release."""
    numbers = re.match(r"(?:\d+!)?(\d+(?:\.\d+)*)", version)
    release = [int(part) for part in numbers[1].split(".")] if numbers else []
    while release and not release[-1]:
        release.pop()
    return tuple(release)


def requirements() -> dict[str, list[Requirement]]:
    """Return extra -> what it requires ("" = what is always needed), from the installed metadata.

    An extra that refers to other extras of ours requires what they require.
    """
    extras: list[str] = metadata.metadata(DISTRIBUTION).get_all("Provides-Extra") or []
    found: dict[str, list[Requirement]] = {extra: [] for extra in ("", *extras)}
    for line in metadata.requires(DISTRIBUTION) or []:
        one = Requirement.parse(line)
        found[one.extra].append(one)
    return {extra: _flattened(extra, found, frozenset()) for extra in found}


def _flattened(extra: str, found: dict[str, list[Requirement]], within: frozenset[str]) -> list[Requirement]:
    """Return what `extra` requires, with references to our own extras replaced by what those require.

    within: the extras that refer to this one; a circle among them adds nothing.
    """
    flat: list[Requirement] = []
    for one in found.get(extra, []):
        if _canonical(one.name) != DISTRIBUTION:
            flat.append(one)
            continue
        for other in sorted(set(one.extras) - within - {extra}):
            flat += _flattened(other, found, within | {extra})
    return flat


def _unmet(requirement: Requirement) -> str:
    """Return why `requirement` is not met, "" when it is."""
    try:
        version = metadata.version(requirement.name)
    except metadata.PackageNotFoundError:
        return f"{requirement.name}{_ABSENT}"
    if _release(version) < _release(requirement.at_least):
        return f"{requirement.name} {version} is installed, needed is >={requirement.at_least}"
    if requirement.below and _release(version) >= _release(requirement.below):
        return f"{requirement.name} {version} is installed, needed is <{requirement.below}"
    why = import_problem(_DONE_WITHOUT.get(requirement.name, __name__))
    return f"{requirement.name} {version} cannot be imported: {why}" if why else ""


def versions(roots: Roots) -> Check:
    """Versions of this package, of what it always needs and of the extras' packages that are there."""
    needed = requirements()
    problems = [problem for one in needed[""] if (problem := _unmet(one))]
    named = [one.name for extra, ones in needed.items() if extra not in _COLLECTIONS for one in ones]
    seen = [f"{DISTRIBUTION} {metadata.version(DISTRIBUTION)}"]
    for name in dict.fromkeys(named):
        try:
            seen.append(f"{name} {metadata.version(name)}")
        except metadata.PackageNotFoundError:
            continue
    if not problems:
        return Check("packages", CheckStatus.OK, ", ".join(seen))
    return Check("packages", CheckStatus.FAIL, "; ".join(problems), f"pip install --upgrade {DISTRIBUTION}")


def extras(roots: Roots) -> Check:
    """Which extras are installed. One that is not there was not asked for; one that is too old or too new is a loss."""
    complete: list[str] = []
    absent: list[str] = []
    wrong: dict[str, str] = {}
    for extra, ones in requirements().items():
        if not extra or extra in _COLLECTIONS:
            continue
        problems = [problem for one in ones if (problem := _unmet(one))]
        if any(not problem.endswith(_ABSENT) for problem in problems):
            wrong[extra] = "; ".join(problems)
        else:
            (absent if problems else complete).append(extra)
    seen = f"installed: {', '.join(complete) or 'none'}"
    if absent:
        seen += f"; not installed: {', '.join(absent)} ({install_command('EXTRA')} brings one)"
    if not wrong:
        return Check("extras", CheckStatus.OK, seen)
    found = ", ".join(f"{extra} ({why})" for extra, why in wrong.items())
    return Check("extras", CheckStatus.WARN, f"{seen}; wrong: {found}", install_command(",".join(wrong)))


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


def failed_plugins(found: Registry | None = None) -> dict[str, str]:
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


def broken_plugins(roots: Roots, found: Registry | None = None) -> Check:
    """Plugins whose import fails for another reason than a missing extra."""
    lacking = {extra for extra, ones in requirements().items() if any(_unmet(one) for one in ones)}
    broken = dict(failed_plugins(found))
    working: list[str] = []
    for items in (transports, engines, commands):
        for item in items(found):
            if item.loadable:
                working.append(item.name)
            elif item.extra not in lacking:
                broken[item.name] = item.problem
    if not broken:
        return Check("plugins", CheckStatus.OK, f"usable: {', '.join(working)}")
    seen = "; ".join(why if name in why else f"{name}: {why}" for name, why in broken.items())
    return Check("plugins", CheckStatus.FAIL, seen, "mend or uninstall what failed; the others work without it")

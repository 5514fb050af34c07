"""Checks of what is installed: versions, extras, plugins.

Rule 1: versions are read from installed metadata and compared with what our own metadata asks for; no number is
        repeated here.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import metadata

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from lucky_transport import inventory
from lucky_transport.diagnosis.check import Check, Roots, Verdict
from lucky_transport.registry import Registry

__all__ = ["DISTRIBUTION", "broken_plugins", "extras", "requirements", "versions"]

DISTRIBUTION = "lucky-transport"

#: Extras that a user chooses among; `all` is their sum and `dev` is for work on this project.
_COLLECTIONS = ("all", "dev")


def requirements() -> dict[str, list[Requirement]]:
    """Return extra -> what it requires ("" = what is always needed), from the installed metadata.

    An extra that refers to other extras of ours requires what they require.
    """
    extras: list[str] = metadata.metadata(DISTRIBUTION).get_all("Provides-Extra") or []
    found: dict[str, list[Requirement]] = {extra: [] for extra in ("", *extras)}
    for line in metadata.requires(DISTRIBUTION) or []:
        one = Requirement(line)
        if one.marker is None:
            found[""].append(one)
            continue
        for extra in extras:
            if one.marker.evaluate({"extra": extra}) and not one.marker.evaluate({"extra": ""}):
                found[extra].append(one)
    return {extra: _flattened(extra, found, frozenset()) for extra in found}


def _flattened(extra: str, found: dict[str, list[Requirement]], within: frozenset[str]) -> list[Requirement]:
    """Return what `extra` requires, with references to our own extras replaced by what those require.

    within: the extras that refer to this one; a circle among them adds nothing.
    """
    flat: list[Requirement] = []
    for one in found.get(extra, []):
        if canonicalize_name(one.name) != DISTRIBUTION:
            flat.append(one)
            continue
        for other in sorted(one.extras - within - {extra}):
            flat += _flattened(other, found, within | {extra})
    return flat


def _problem(requirement: Requirement) -> str:
    """Return why `requirement` is not met, "" when it is."""
    try:
        version = metadata.version(requirement.name)
    except metadata.PackageNotFoundError:
        return f"{requirement.name} is not installed"
    if not requirement.specifier.contains(version, prereleases=True):
        return f"{requirement.name} {version} is installed, needed is {requirement.specifier}"
    return ""


def versions(roots: Roots) -> Check:
    """Versions of this package, of what it always needs and of the extras' packages that are there."""
    needed = requirements()
    problems = [problem for one in needed[""] if (problem := _problem(one))]
    named = [one.name for extra, ones in needed.items() if extra not in _COLLECTIONS for one in ones]
    seen = [f"{DISTRIBUTION} {metadata.version(DISTRIBUTION)}"]
    for name in dict.fromkeys(named):
        try:
            seen.append(f"{name} {metadata.version(name)}")
        except metadata.PackageNotFoundError:
            continue
    if not problems:
        return Check("packages", Verdict.OK, ", ".join(seen))
    return Check("packages", Verdict.FAIL, "; ".join(problems), f"pip install --upgrade {DISTRIBUTION}")


def extras(roots: Roots) -> Check:
    """Which extras are installed; a missing one is no fault, its transports or engines are just not there."""
    complete: list[str] = []
    missing: dict[str, str] = {}
    for extra, ones in requirements().items():
        if not extra or extra in _COLLECTIONS:
            continue
        problems = [problem for one in ones if (problem := _problem(one))]
        if problems:
            missing[extra] = "; ".join(problems)
        else:
            complete.append(extra)
    seen = f"installed: {', '.join(complete) or 'none'}"
    if not missing:
        return Check("extras", Verdict.OK, seen)
    lacking = ", ".join(f"{extra} ({why})" for extra, why in missing.items())
    command = f"pip install '{DISTRIBUTION}[{','.join(missing)}]'"
    return Check("extras", Verdict.WARN, f"{seen}; missing: {lacking}", f"if you need them: {command}")


def broken_plugins(roots: Roots, found: Registry | None = None) -> Check:
    """Plugins whose import fails for another reason than a missing extra."""
    lacking = {extra for extra, ones in requirements().items() if any(_problem(one) for one in ones)}
    broken = dict(inventory.broken_plugins(found))
    loaders: tuple[Callable[[Registry | None], list[inventory.Item]], ...] = (
        inventory.transports,
        inventory.engines,
        inventory.commands,
    )
    working: list[str] = []
    for items in loaders:
        for item in items(found):
            if item.loadable:
                working.append(item.name)
            elif item.extra not in lacking:
                broken[item.name] = item.problem
    if not broken:
        return Check("plugins", Verdict.OK, f"usable: {', '.join(working)}")
    seen = "; ".join(why if name in why else f"{name}: {why}" for name, why in broken.items())
    return Check("plugins", Verdict.FAIL, seen, "mend or uninstall what failed; the others work without it")

"""The entry points of a group, read from the files of the installed distributions.

They are those of `importlib.metadata.entry_points`. That reads every group of every distribution and imports the
parser of emails, which takes a quarter as long again as all else that `lucky-transport --help` or the launcher does.
What lies in zip files, or is found by finders of others, is left to it.
"""

from __future__ import annotations

import importlib
import os
import re
import sys
from collections.abc import Iterable, Iterator
from functools import reduce
from importlib.machinery import PathFinder
from typing import NamedTuple

#: The names of folders with metadata: `name-version.dist-info`, of older installs `name.egg-info`.
_METADATA = re.compile(r"(?P<name>[^-]+).*\.(?:dist|egg)-info")


class EntryPoint(NamedTuple):
    """An object that a distribution offers by name."""

    name: str
    value: str

    def load(self) -> object:
        """Import the object. Raises whatever its module raises."""
        module, _, attributes = self.value.partition("[")[0].strip().partition(":")
        return reduce(getattr, filter(None, attributes.split(".")), importlib.import_module(module))


def entry_points(group: str) -> list[EntryPoint]:
    """Return the entry points of a group; of a distribution that is on the path twice, those of the first one."""
    if _has_other_finders() or any(map(os.path.isfile, sys.path)):
        from importlib import metadata

        return [EntryPoint(point.name, point.value) for point in metadata.entry_points(group=group)]
    return [point for folder in _metadata_folders(sys.path) for point in _read(folder, group)]


def _has_other_finders() -> bool:
    """True where more than the path is asked for distributions."""
    return any(hasattr(finder, "find_distributions") and finder is not PathFinder for finder in sys.meta_path)


def _metadata_folders(path: Iterable[str]) -> Iterator[str]:
    seen: set[str] = set()
    for place in path:
        try:
            names = os.listdir(place or ".")
        except OSError:
            continue
        for name in names:
            if found := _METADATA.fullmatch(name):
                distribution = re.sub(r"[-_.]+", "_", found["name"]).lower()
                if distribution not in seen:
                    seen.add(distribution)
                    yield os.path.join(place, name)


def _read(folder: str, group: str) -> Iterator[EntryPoint]:
    try:
        with open(os.path.join(folder, "entry_points.txt"), encoding="utf-8") as file:
            text = file.read()
    except (OSError, ValueError):
        return
    section = ""
    for line in map(str.strip, text.splitlines()):
        if line.startswith("["):
            section = line.strip("[]").strip()
        elif section == group and "=" in line and not line.startswith("#"):
            name, _, value = line.partition("=")
            yield EntryPoint(name.strip(), value.strip())

"""What a project asks an installer for: pyproject.toml, Pipfile, requirements, setup.cfg, environment.yml.

Lock files are not read: they follow from these. In TOML every list and every table of dependencies counts, whichever
tool they are for.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from typing import Any

from lucky_transport_migration.scan.api_levels import GrpcUse
from lucky_transport_migration.scan.source import Unreadable
from lucky_transport_migration.scan.words import requirement_name

__all__ = ["is_list_of_requirements", "is_toml", "places_in_list", "places_in_toml", "requirement_of_line"]

_TOML = re.compile(r"pyproject\.toml|Pipfile")
_LISTS = re.compile(
    r"(.*requirements.*|constraints.*)\.(txt|in)|setup\.cfg|((conda|environment).*|.*[-_]env(ironment)?)\.ya?ml", re.I
)
_TABLES = re.compile(r"(.*-)?(dependencies|packages)")
_LINE = re.compile(r"\s*(-\s+)?(?P<quote>[\"']?)(?P<what>.*?)(?P=quote)\s*((?<!\S)#.*|\s--.*)?")
_CONDA_VERSION = re.compile(r"(?<![<>=!~])=(?!=).*")


def is_toml(name: str) -> bool:
    """True for a file of that name, or in that folder, which holds requirements as TOML."""
    return bool(_TOML.fullmatch(name.rpartition("/")[2]))


def is_list_of_requirements(name: str) -> bool:
    """True for a file that holds one requirement a line."""
    folder, _, last = name.rpartition("/")
    in_folder = folder.rpartition("/")[2] == "requirements" and last.endswith((".txt", ".in"))
    return in_folder or bool(_LISTS.fullmatch(last))


def requirement_of_line(line: str) -> str | None:
    """Return which distribution of gRPC's world a line is for, None for any other."""
    match = _LINE.fullmatch(line)
    if match is None:
        return None
    return requirement_name(match["what"]) or requirement_name(_CONDA_VERSION.sub("", match["what"]))


def places_in_list(text: str) -> list[GrpcUse]:
    """Return the requirements of gRPC in a file that has one a line."""
    lines = enumerate(text.splitlines(), start=1)
    return [GrpcUse(number, "dependency", name) for number, line in lines if (name := requirement_of_line(line))]


def places_in_toml(text: str) -> list[GrpcUse]:
    """Return the requirements of gRPC in a TOML file. Raises Unreadable."""
    try:
        table = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise Unreadable(f"is no TOML: {error}", getattr(error, "lineno", 1)) from error
    except RecursionError as error:
        raise Unreadable("nests too deeply for TOML") from error
    lines = text.splitlines()
    found: list[GrpcUse] = []
    for wanted, name in _requirements(table):
        taken = [place.line for place in found if place.symbol == name]
        found.append(GrpcUse(_line_of(wanted, lines, taken), "dependency", name))
    return sorted(found)


def _requirements(table: dict[str, Any], *, of_names: bool = False) -> Iterator[tuple[str, str]]:
    """Yield (as it is written, distribution) of every requirement in a table; `of_names`: its keys are such."""
    for key, value in table.items():
        if of_names and (name := requirement_name(key)) is not None:
            yield key, name
        elif isinstance(value, dict):
            yield from _requirements(value, of_names=bool(_TABLES.fullmatch(key)))
        elif isinstance(value, list):
            for one in value:
                if isinstance(one, str) and (name := requirement_name(one)) is not None:
                    yield one, name
                elif isinstance(one, dict):
                    yield from _requirements(one)


def _line_of(wanted: str, lines: list[str], taken: list[int]) -> int:
    whole = re.compile(rf"(?<![\w.-]){re.escape(wanted)}(?![\w.-])")
    for number, line in enumerate(lines, start=1):
        if number not in taken and whole.search(line.partition("#")[0]):
            return number
    return 1

"""What a project asks an installer for: found in its lists of requirements, removed where nothing needs it any more.

Lock files are not read: they follow from these.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import tomlkit
from tomlkit.exceptions import TOMLKitError

from lucky_transport_migration.scan.findings import GrpcUse, ScanResult
from lucky_transport_migration.scan.known import LUCKYROBOTS, PORT
from lucky_transport_migration.scan.source import Unreadable
from lucky_transport_migration.scan.texts import requirement_name

__all__ = [
    "is_list_of_requirements",
    "is_toml",
    "places_in_list",
    "places_in_toml",
    "rewrite_requirements",
    "rewrite_stages",
    "unneeded",
]

_TOML = re.compile(r"pyproject\.toml|Pipfile")
_LISTS = re.compile(
    r"(.*requirements.*|constraints.*)\.(txt|in)|setup\.cfg|((conda|environment).*|.*[-_]env(ironment)?)\.ya?ml", re.I
)
_TABLES = re.compile(r"(.*-)?(dependencies|packages)")
_LINE = re.compile(r"\s*(-\s+)?(?P<quote>[\"']?)(?P<what>.*?)(?P=quote)\s*((?<!\S)#.*|\s--.*)?")
_CONDA_VERSION = re.compile(r"(?<![<>=!~])=(?!=).*")

_OURS = "lucky-transport"
_BY_NAME = re.compile(r"^\s*lucky[-_.]transport\b", re.IGNORECASE)
_REQUIREMENT = re.compile(r"^(\s*(?:-\s+)?)(.*?)(\s*)$", re.DOTALL)
_OUR_WORD = re.compile(r"(?i)[\"']lucky[-_.]transport\b|^\s*lucky[-_.]transport\s*=", re.MULTILINE)
_CODE = {"import", "channel", "stub", "server", "servicer"}
_REPLACED = {LUCKYROBOTS, "grpcio"}
_TOOLS = {"grpcio-tools", "mypy-grpc"}
_EXTRAS = {f"{_OURS}[grpc]": _OURS, f"{_OURS}[all]": f"{_OURS}[shm,mujoco,migration]"}
_COMPLETE = "complete"


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
    for entry in _entries(table):
        taken = [place.line for place in found if place.symbol == entry.name]
        found.append(GrpcUse(_line_of(entry.text, lines, taken), "dependency", entry.name))
    return sorted(found)


@dataclass(frozen=True, slots=True)
class _Entry:
    """One requirement in TOML: `text` as it is written, `name` of the distribution; it is `holder[key]`, or the key."""

    holder: Any
    key: Any
    text: str
    name: str


def _entries(table: Any, *, of_names: bool = False) -> Iterator[_Entry]:
    """Yield every requirement of gRPC in a table and all below it; `of_names`: its keys are distributions."""
    for key, value in table.items():
        if of_names and (name := requirement_name(key)) is not None:
            yield _Entry(table, key, key, name)
        elif isinstance(value, dict):
            yield from _entries(value, of_names=bool(_TABLES.fullmatch(key)))
        elif isinstance(value, list):
            for index, one in enumerate(value):
                if isinstance(one, str) and (name := requirement_name(one)) is not None:
                    yield _Entry(value, index, one, name)
                elif isinstance(one, dict):
                    yield from _entries(one)


def _line_of(wanted: str, lines: list[str], taken: list[int]) -> int:
    whole = re.compile(rf"(?<![\w.-]){re.escape(wanted)}(?![\w.-])")
    for number, line in enumerate(lines, start=1):
        if number not in taken and whole.search(line.partition("#")[0]):
            return number
    return 1


def unneeded(result: ScanResult) -> Callable[[str], bool]:
    """Return what tells whether a distribution (as `requirement_name` calls it) is of no more use to a code base."""
    code = [one for one in result.findings if one.kind in _CODE and one.symbol != f"port {PORT}"]
    uses_luckyrobots = any(one.symbol.partition(".")[0] == LUCKYROBOTS for one in code)
    uses_grpc = any(one.symbol.partition(".")[0] != LUCKYROBOTS for one in code)
    uses_grpc = uses_grpc or bool(result.generated_stubs or result.unread)
    generates = any(one.kind == "build" and "grpc" in one.symbol for one in result.findings)

    def is_unneeded(name: str) -> bool:
        if name == LUCKYROBOTS:
            return not (uses_luckyrobots or result.unread)
        if "[" in name and name not in _EXTRAS:
            return False
        return not uses_grpc and not (name in _TOOLS and generates)

    return is_unneeded


def rewrite_requirements(name: str, content: bytes, is_unneeded: Callable[[str], bool]) -> bytes:
    """Return the content of the file of that name without what is of no more use; unchanged where there is nothing."""
    if not (is_toml(name) or is_list_of_requirements(name)):
        return content
    try:
        text = content.decode()
        return (_rewrite_toml(text, is_unneeded) if is_toml(name) else _rewrite_lines(text, is_unneeded)).encode()
    except (UnicodeDecodeError, TOMLKitError, RecursionError):
        return content


def _rewrite_lines(text: str, is_unneeded: Callable[[str], bool]) -> str:
    kept: list[str] = []
    has_ours = any(_BY_NAME.match(line.lstrip(" -\"'")) for line in text.splitlines())
    for line in text.splitlines(keepends=True):
        name = requirement_of_line(line)
        if name is None or not is_unneeded(name):
            kept.append(line)
            continue
        if name in _EXTRAS:
            kept.append(re.sub(r"(?i)lucky[-_.]transport\s*\[[^]]*\]", _EXTRAS[name], line))
        elif not has_ours and name in _REPLACED:
            has_ours = True
            kept.append(_REQUIREMENT.sub(lambda match: f"{match[1]}{_OURS}{match[3]}", line))
    return "".join(kept)


def _rewrite_toml(text: str, is_unneeded: Callable[[str], bool]) -> str:
    document = tomlkit.parse(text)
    has_ours = bool(_OUR_WORD.search(text))
    gone: list[_Entry] = []
    for entry in [one for one in _entries(document) if is_unneeded(one.name)]:
        in_list = isinstance(entry.holder, list)
        if in_list and entry.name in _EXTRAS:
            entry.holder[entry.key] = _EXTRAS[entry.name]
            continue
        takes_its_place = not has_ours and entry.name in _REPLACED
        has_ours |= takes_its_place
        if in_list and takes_its_place:
            entry.holder[entry.key] = _OURS
            continue
        gone.append(entry)
        if takes_its_place:
            entry.holder[_OURS] = "*"
    for entry in reversed(gone):  # from the end of each list on, so that the indexes before it hold
        del entry.holder[entry.key]
    return document.as_string()


def rewrite_stages(name: str, content: bytes) -> bytes:
    """Return the content of the file of that name without gRPC's endpoint; unchanged while a method needs it."""
    if name.rpartition("/")[2] != "lucky_transport.toml":
        return content
    try:
        document = tomlkit.parse(content)
    except (TOMLKitError, UnicodeDecodeError, RecursionError):
        return content
    stages: Any = document.get("stages")
    if not isinstance(stages, dict) or not _are_complete(stages) or "control" not in stages:
        return content
    del stages["control"]
    return document.as_string().encode()


def _are_complete(stages: dict[str, Any]) -> bool:
    methods = stages.get("methods", {})
    return stages.get("default") == _COMPLETE and all(stage == _COMPLETE for stage in methods.values())

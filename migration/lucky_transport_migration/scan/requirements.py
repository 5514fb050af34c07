"""What a project asks an installer for: found in its lists of requirements, removed where nothing needs it any more.

Lock files follow from these: what they hold is found, and not changed.
"""

from __future__ import annotations

import ast
import re
import tomllib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import tomlkit
from tomlkit.exceptions import TOMLKitError

from lucky_transport_migration.scan.findings import GrpcUse, ScanResult
from lucky_transport_migration.scan.known import LUCKYROBOTS, PORT
from lucky_transport_migration.scan.names import Unreadable, parse
from lucky_transport_migration.scan.texts import REQUIREMENT, requirement_name

_TOML = re.compile(r"(pyproject|hatch|pixi|tox)\.toml|Pipfile")
_LISTS = re.compile(
    r"(.*/)?(.*requirements.*|constraints.*)\.(txt|in|lock)|(.*/)?(setup\.cfg|tox\.ini)|(.*/)?requirements/.*\.(txt|in)|"
    r"(.*/)?((conda|environment).*|.*[-_]env(ironment)?|meta|recipe)\.ya?ml",
    re.IGNORECASE,
)
_LOCKS = re.compile(r"(.*/)?((uv|poetry|pdm|pixi|Pipfile)\.lock|pylock.*\.toml|conda-lock.*\.ya?ml)")
_LOCKED = re.compile(r"\s*(-\s+)?(\"?name\"?\s*[=:]\s*\"?(?P<name>[\w.-]+)|\"(?P<key>[\w.-]+)\":\s*\{).*")
_SETUP = re.compile(r"(.*/)?(setup\w*\.py|noxfile\.py)")
_SCRIPT = re.compile(r"(?m)^# /// script$\s(?P<toml>(^#(| .*)$\s)+)^# ///$")

#: Arguments of setup() that hold names of other things.
_NAMES = {"author", "description", "entry_points", "keywords", "name", "packages", "package_data", "py_modules", "url"}

#: Of an .ini file: a section, a key with a value, or a value's next line; and the keys that hold requirements.
_INI = re.compile(r"(?P<section>\[.*)|(?P<key>\w[\w.-]*)\s*[=:](?P<value>.*)|(\s+([\w.{},!-]+:\s)?)(?P<more>.*)|.*")
_INI_KEYS = {"deps", "install_requires", "requires", "setup_requires", "tests_require"}

_TABLES = re.compile(r"(.*-)?(dependencies|packages)")
_ARRAYS = re.compile(r"(.*[-_])?(dependencies|requires|requires-extra|deps|constraints|dependency-groups)")
_LINE = re.compile(r"\s*(-\s+)?(?P<quote>[\"']?)(?P<what>.*?)(?P=quote)\s*((?<!\S)#.*|\s--.*)?")
_CONDA_VERSION = re.compile(r"(?<![<>=!~])=(?!=).*")

_OURS = "lucky-transport"
_BY_NAME = re.compile(r"^\s*lucky[-_.]transport\b", re.IGNORECASE)
_REQUIREMENT = re.compile(r"^(\s*(?:-\s+)?)(.*?)(\s*)$", re.DOTALL)
_OUR_WORD = re.compile(r"(?i)[\"']lucky[-_.]transport\b|^\s*lucky[-_.]transport\s*=", re.MULTILINE)
_CODE = {"import", "channel", "stub", "server", "servicer", "interceptor"}
_REPLACED = {LUCKYROBOTS, "grpcio"}
_TOOLS = {"grpcio-tools", "mypy-grpc"}
_EXTRAS = {f"{_OURS}[grpc]": _OURS, f"{_OURS}[all]": f"{_OURS}[shm,mujoco,migration]"}
_COMPLETE = "complete"


def is_toml(name: str) -> bool:
    """True for a file of that name, or in that folder, which holds requirements as TOML."""
    return bool(_TOML.fullmatch(name.rpartition("/")[2]))


def is_list_of_requirements(name: str, text: str = "") -> bool:
    """True for a file that holds one requirement a line, by its name; of any other .txt by its lines."""
    lines = [line.partition("#")[0].strip(" \t\\") for line in text.splitlines() if name.endswith((".txt", ".in"))]
    lines = [line for line in lines if line and not line.startswith("-")]
    is_read = any(re.search(r"[<>=~!]=|://", line) for line in lines)
    is_read = is_read and all("://" in line or REQUIREMENT.fullmatch(line) for line in lines)
    return is_read or bool(_LISTS.fullmatch(name) or _LOCKS.fullmatch(name))


def requirement_of_line(line: str) -> str | None:
    """Return which distribution of gRPC's world a line is for, None for any other."""
    match = _LINE.fullmatch(line)
    if match is None:
        return None
    return requirement_name(match["what"]) or requirement_name(_CONDA_VERSION.sub("", match["what"]))


def places_in_list(name: str, text: str) -> list[GrpcUse]:
    """Return the requirements of gRPC in a file of that name that has one a line."""
    lines = enumerate(_lines(name, text), start=1)
    return [GrpcUse(number, "dependency", found) for number, line in lines if (found := requirement_of_line(line))]


def _lines(name: str, text: str) -> Iterator[str]:
    """Yield of each line what may be a requirement, "" for what is none in a file of that name."""
    section = key = ""
    for line in text.splitlines():
        if _LOCKS.fullmatch(name):
            match = _LOCKED.fullmatch(line)
            yield (match["name"] or match["key"]) if match else ""
        elif name.endswith((".cfg", ".ini")) and (match := _INI.fullmatch(line)):
            section, key = match["section"] or section, "" if match["section"] else match["key"] or key
            holds = key in _INI_KEYS or section.startswith("[options.extras_require")
            yield (match["value"] or match["more"] or "") if holds else ""
        else:
            yield line


def places_in_python(name: str, text: str) -> Iterator[GrpcUse]:
    """Yield what Python asks an installer for: in a script's metadata (PEP 723), in texts of setup.py and noxfile.py.

    Raises Unreadable.
    """
    if match := _SCRIPT.search(text):
        first = text.count("\n", 0, match.start("toml"))
        found = places_in_toml(re.sub(r"(?m)^# ?", "", match["toml"]))
        yield from (GrpcUse(first + one.line, one.kind, one.symbol) for one in found)
    nodes: list[ast.AST] = [parse(text)] if _SETUP.fullmatch(name) else []
    for node in nodes:  # grows
        nodes += (one for one in ast.iter_child_nodes(node) if not (isinstance(one, ast.keyword) and one.arg in _NAMES))
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            lines = enumerate(node.value.splitlines(), start=node.lineno)
            yield from (GrpcUse(at, "dependency", what) for at, line in lines if (what := requirement_name(line)))


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


def _entries(table: Any, *, of_names: bool = False, of_arrays: bool = False) -> Iterator[_Entry]:
    """Yield every requirement of gRPC in a table and all below it.

    of_names: its keys are distributions. of_arrays: its arrays hold requirements, whatever their keys.
    """
    for key, value in table.items():
        if of_names and (name := requirement_name(key)) is not None:
            yield _Entry(table, key, key, name)
        elif isinstance(value, dict):
            yield from _entries(
                value, of_names=bool(_TABLES.fullmatch(key)), of_arrays=of_arrays or bool(_ARRAYS.fullmatch(key))
            )
        elif isinstance(value, list):
            for index, one in enumerate(value):
                is_one = isinstance(one, str) and (of_arrays or _ARRAYS.fullmatch(key))
                if is_one and (name := requirement_name(one)) is not None:
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
        if ("[" in name and name not in _EXTRAS) or re.search(r"(?<!^types)-grpc", name.removeprefix("mypy")):
            return False  # others may load it
        return not uses_grpc and not (name in _TOOLS and generates)

    return is_unneeded


def rewrite_requirements(name: str, content: bytes, is_unneeded: Callable[[str], bool]) -> bytes:
    """Return the content of the file of that name without what is of no more use; unchanged where there is nothing."""
    try:
        text = content.decode()
        if is_toml(name):
            return _rewrite_toml(text, is_unneeded).encode()
        if is_list_of_requirements(name, text) and not _LOCKS.fullmatch(name):
            return _rewrite_lines(name, text, is_unneeded).encode()
        return content
    except (UnicodeDecodeError, TOMLKitError, RecursionError):
        return content


def _rewrite_lines(file: str, text: str, is_unneeded: Callable[[str], bool]) -> str:
    kept: list[str] = []
    has_ours = any(_BY_NAME.match(line.lstrip(" -\"'")) for line in text.splitlines())
    goes_on = False
    for line, what in zip(text.splitlines(keepends=True), _lines(file, text), strict=True):
        name = requirement_of_line(line) if what.strip() == line.strip() else None
        if goes_on or name is None or not is_unneeded(name):
            if not goes_on:
                kept.append(line)
            goes_on = goes_on and line.rstrip().endswith("\\")  # hashes of what is gone
            continue
        goes_on = line.rstrip().endswith("\\")
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

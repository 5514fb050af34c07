"""Requirements that are not needed any more are removed; lucky-transport takes their place in the same list.

A requirement goes only when the code, as it will be, neither imports it nor holds generated stubs. Lucky-transport is
put in once a file, for luckyrobots or grpcio itself; order and layout of the rest stay.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import tomlkit
from tomlkit.exceptions import TOMLKitError

from lucky_transport_migration.scan.dependencies import is_list_of_requirements, is_toml, requirement_of_line
from lucky_transport_migration.scan.known import LUCKYROBOTS, PORT
from lucky_transport_migration.scan.outcome import ScanResult
from lucky_transport_migration.scan.words import requirement_name

__all__ = ["rewrite_requirements", "unneeded"]

_OURS = "lucky-transport"
_BY_NAME = re.compile(r"^\s*lucky[-_.]transport\b", re.IGNORECASE)
_REQUIREMENT = re.compile(r"^(\s*(?:-\s+)?)(.*?)(\s*)$", re.DOTALL)
_OUR_WORD = re.compile(r"(?i)[\"']lucky[-_.]transport\b|^\s*lucky[-_.]transport\s*=", re.MULTILINE)
_CODE = {"import", "channel", "stub", "server", "servicer"}
_REPLACED = {LUCKYROBOTS, "grpcio"}
_TOOLS = {"grpcio-tools", "mypy-grpc"}
_EXTRAS = {f"{_OURS}[grpc]": _OURS, f"{_OURS}[all]": f"{_OURS}[shm,mujoco,migration]"}


def unneeded(outcome: ScanResult) -> Callable[[str], bool]:
    """Return what tells whether a distribution (as `requirement_name` calls it) is of no more use to a code base."""
    code = [one for one in outcome.findings if one.kind in _CODE and one.symbol != f"port {PORT}"]
    uses_luckyrobots = any(one.symbol.partition(".")[0] == LUCKYROBOTS for one in code)
    uses_grpc = any(one.symbol.partition(".")[0] != LUCKYROBOTS for one in code)
    uses_grpc = uses_grpc or bool(outcome.generated_stubs or outcome.unread)
    generates = any(one.kind == "build" and "grpc" in one.symbol for one in outcome.findings)

    def is_unneeded(name: str) -> bool:
        if name == LUCKYROBOTS:
            return not (uses_luckyrobots or outcome.unread)
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
    _TomlCleaner(is_unneeded, has_ours=bool(_OUR_WORD.search(text))).clean_table(document)
    return document.as_string()


class _TomlCleaner:
    """Takes out of tables and lists what is of no more use."""

    def __init__(self, is_unneeded: Callable[[str], bool], *, has_ours: bool) -> None:
        self._is_unneeded = is_unneeded
        self._has_ours = has_ours

    def clean_table(self, table: Any, *, of_names: bool = False) -> None:
        """Clean a table and all below it. `of_names`: its keys are distributions."""
        for key, value in list(table.items()):
            name = requirement_name(key) if of_names else None
            if name is not None and self._is_unneeded(name):
                table.remove(key)
                if self._takes_its_place(name):
                    table[_OURS] = "*"
            elif isinstance(value, dict):
                self.clean_table(value, of_names=key.endswith(("dependencies", "packages")))
            elif isinstance(value, list):
                self._clean_list(value)

    def _clean_list(self, items: list[Any]) -> None:
        gone: list[int] = []
        for index, one in enumerate(items):
            if isinstance(one, dict):
                self.clean_table(one)
            name = requirement_name(one) if isinstance(one, str) else None
            if name is None or not self._is_unneeded(name):
                continue
            if name in _EXTRAS:
                items[index] = _EXTRAS[name]
            elif self._takes_its_place(name):
                items[index] = _OURS
            else:
                gone.append(index)
        for index in reversed(gone):
            del items[index]

    def _takes_its_place(self, name: str) -> bool:
        """True, once, when lucky-transport is to stand where `name` stood."""
        if self._has_ours or name not in _REPLACED:
            return False
        self._has_ours = True
        return True

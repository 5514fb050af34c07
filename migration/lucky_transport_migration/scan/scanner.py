"""The scan: every file of a code base, each read by what knows its kind.

A file is never run and never imported; it is read once. A file that may hold gRPC and cannot be understood is named,
with the line; the scan goes on.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path

from lucky_transport.errors import TransportError
from lucky_transport_migration.scan import requirements
from lucky_transport_migration.scan.api_levels import judge
from lucky_transport_migration.scan.findings import Finding, GrpcUse, ScanResult, Unread
from lucky_transport_migration.scan.known import foreign_services, may_mention
from lucky_transport_migration.scan.names import Unreadable
from lucky_transport_migration.scan.python import compiled_uses, places_in
from lucky_transport_migration.scan.texts import is_build_file, places_in_build

_GENERATED = re.compile(r"_pb2(_grpc)?\.pyi?$")
_MAX_BYTES = 4 << 20
_LINK = re.compile(rb"^\s*(?:-r|-c|--requirement|--constraint)[ =]*(\S+)", re.MULTILINE)
_STEPS = re.compile(rb"\.Step\(")
_SHEBANG = re.compile(rb"#!.*python")

#: What others wrote and what tools made is no part of a code base.
_FOREIGN = {
    ".eggs",
    ".git",
    ".hg",
    ".hypothesis",
    ".ipynb_checkpoints",
    ".mypy_cache",
    ".nox",
    ".pytest_cache",
    ".ruff_cache",
    ".svn",
    ".tox",
    "__pycache__",
    "node_modules",
    "site-packages",
}


def scan(root: Path, advance: Callable[[str], None] = lambda _: None) -> ScanResult:
    """Return what of gRPC is left below `root`, or in that one file; `advance` is told the name of each file.

    Raises TransportError, which names the file, for one that cannot be scanned.
    """
    result = ScanResult(root.as_posix())

    def note(error: OSError) -> None:
        name = name_in(root, Path(error.filename))
        result.unread.append(Unread(name, 1, f"is a folder that cannot be listed: {error.strerror}"))

    files = [(name_in(root, path), path) for path in files_of(root, note)]
    result.foreign = foreign_services(_stubs_of(files))
    linked = _linked_lists(dict(files))
    for name, path in files:
        with naming(name):
            result.add(_scan_file(name, path, foreign=result.foreign, linked=linked))
        advance(name)
    result.findings.sort(key=_order)
    result.unmoved.sort()
    return result


def scan_again(result: ScanResult, changed: Mapping[str, bytes]) -> ScanResult:
    """Return what a scan would find if the files of these names held these contents."""
    after = replace(
        result,
        findings=[one for one in result.findings if one.path not in changed],
        unread=[one for one in result.unread if one.path not in changed],
        unmoved=[one for one in result.unmoved if one.path not in changed],
    )
    for name, content in changed.items():
        after.add(_scan_content(name, content, result.foreign))
    after.findings.sort(key=_order)
    after.unmoved.sort()
    return after


def is_python(name: str, content: bytes) -> bool:
    """True for Python source, by its name or by its first line."""
    return name.endswith((".py", ".pyi", ".pyw")) or ("." not in name and bool(_SHEBANG.match(content)))


@contextmanager
def naming(name: str) -> Generator[None]:
    """Raise TransportError, which names the file, where something raises that is no word on its content."""
    try:
        yield
    except Exception as error:
        text = f"{name} cannot be scanned: {type(error).__name__}: {error}"
        raise TransportError(text, hint="report it, with that file") from error


def _order(finding: Finding) -> tuple[str, int]:
    return finding.path, finding.line


def _stubs_of(files: list[tuple[str, Path]]) -> Iterator[bytes]:
    """Yield the contents of generated stubs; `_scan_file` reports what cannot be read."""
    for name, path in files:
        if name.endswith("_pb2_grpc.py"):
            with suppress(OSError, Unreadable):
                yield _read(path, name) or b""


def _linked_lists(files: Mapping[str, Path]) -> frozenset[str]:
    """Return the names of the files that lists of requirements name by -r or -c, and those that these name."""
    lists = [name for name in files if requirements.is_list_of_requirements(name)]
    for name in lists:  # grows
        with suppress(OSError, Unreadable):
            for link in _LINK.findall(_read(files[name], f"requirements/{name}") or b""):
                other = os.path.normpath(os.path.join(os.path.dirname(name), os.fsdecode(link)))
                lists += [other] if other in files and other not in lists else []
    return frozenset(lists)


def _scan_file(name: str, path: Path, *, foreign: frozenset[str], linked: frozenset[str]) -> ScanResult:
    """Return what one file holds. linked: names of lists of requirements."""
    kind = f"requirements/{name}" if name in linked and name.endswith((".txt", ".in")) else name
    if _GENERATED.search(name):
        return ScanResult(name, files=1, generated=[name])
    try:
        content = _read(path, kind)
    except Unreadable as error:
        return ScanResult(name, unread=[Unread(name, error.line, str(error))])
    found = ScanResult(name)
    if content is not None:
        found = _scan_content(name, content, foreign, kind)
        found.files = 1
    return found


def _scan_content(name: str, content: bytes, foreign: frozenset[str], kind: str = "") -> ScanResult:
    unmoved = compiled_uses(name, content) if is_python(name, content) else []
    if not may_mention(content):
        return ScanResult(name, unmoved=unmoved)
    try:
        places = _places(kind or name, content)
    except Unreadable as error:
        return ScanResult(name, unread=[Unread(name, error.line, str(error))])
    findings = judge(name, places, steps=bool(_STEPS.search(content)), foreign=foreign)
    return ScanResult(name, findings=findings, unmoved=unmoved)


def _is_of_interest(name: str, content: bytes = b"") -> bool:
    last = name.rpartition("/")[2]
    is_list = requirements.is_list_of_requirements(name, content.decode(errors="replace"))
    by_name = requirements.is_toml(name) or is_list or is_build_file(name)
    return by_name or last.endswith((".py", ".pyi", ".pyw", ".ipynb")) or "." not in last


def _read(path: Path, name: str) -> bytes | None:
    """Return a file's content; None for one that is of no interest. Raises Unreadable."""
    is_text = name.endswith((".txt", ".in"))  # a list of requirements may have any name
    if not (is_text or _is_of_interest(name)):
        return None
    try:
        with path.open("rb") as file:
            content = file.read(_MAX_BYTES + 1)
    except OSError as error:
        raise Unreadable(f"cannot be read: {error.strerror or error}") from error
    if is_text and not _is_of_interest(name, content if may_mention(content) else b""):
        return None
    if len(content) <= _MAX_BYTES:
        return content
    if may_mention(content):
        raise Unreadable(f"is longer than {_MAX_BYTES >> 20} MiB")
    return None


def _places(name: str, content: bytes) -> list[GrpcUse]:
    """Return what a file holds. Raises Unreadable."""
    last = name.rpartition("/")[2]
    text = content.decode("utf-8", errors="replace")
    if is_python(last, content):
        return sorted({*places_in(content), *requirements.places_in_python(name, text)})
    if last.endswith(".ipynb"):
        raise Unreadable("is a notebook, which may hold gRPC and is not read: export it as .py and scan that")
    if requirements.is_toml(name):
        return requirements.places_in_toml(text)
    if requirements.is_list_of_requirements(name, text):
        return requirements.places_in_list(name, text)
    return places_in_build(name, text) if is_build_file(name) else []


def files_of(root: Path, on_error: Callable[[OSError], object] = lambda _: None) -> Iterator[Path]:
    """Yield every regular file below `root` (or `root` itself), folder by folder, in the order of their names.

    `on_error` is told of a folder that cannot be listed. What was asked for by name is read wherever it lies.
    """
    if not root.is_dir():
        if _is_file(root):
            yield root
        return
    here = root.resolve()
    for folder, folders, names in os.walk(root, onerror=on_error):
        folders[:] = sorted(name for name in folders if not _is_foreign(Path(folder, name)))
        for path in (Path(folder, name) for name in sorted(names)):
            if _is_file(path) and not (path.is_symlink() and path.resolve().is_relative_to(here)):
                yield path


def name_in(root: Path, path: Path) -> str:
    """Return how a file below `root` is called in a report."""
    return path.name if path == root else path.relative_to(root).as_posix()


def _is_foreign(folder: Path) -> bool:
    return folder.name in _FOREIGN or folder.name.endswith(".egg-info") or (folder / "pyvenv.cfg").is_file()


def _is_file(path: Path) -> bool:
    """True for a regular file; not for a pipe, which would be waited for, nor for a broken link."""
    try:
        return stat.S_ISREG(path.stat().st_mode)
    except OSError:
        return False

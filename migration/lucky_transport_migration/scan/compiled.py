"""Uses of packages that have a gRPC of their own in their wheel: shown, and never counted as something to move."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from lucky_transport.other_grpc import COMPILED, COMPILED_USES, why_unmoved
from lucky_transport_migration.scan.findings import Unmoved
from lucky_transport_migration.scan.names import Use, dotted_name, imported, uses_in
from lucky_transport_migration.scan.source import Unreadable, parse

_NAMES = {*COMPILED, *(name.partition(".")[0] for name in COMPILED_USES)}
_TRACE = re.compile(rb"\b(%s)\b" % "|".join(_NAMES).encode())


def compiled_uses(path: str, content: bytes) -> list[Unmoved]:
    """Return what a Python file imports of such packages, and where it makes connections by them."""
    if not _TRACE.search(content):
        return []
    try:
        found = {(getattr(use.node, "lineno", 1), name) for use in uses_in(parse(content)) for name in _of(use)}
    except Unreadable:
        return []  # `scan` says so where the file may hold gRPC
    return [Unmoved(path, line, name, why_unmoved(name)) for line, name in sorted(found)]


def _of(use: Use) -> Iterator[str]:
    """Yield the names of the table that a node imports, or that it calls something of."""
    if isinstance(use.node, ast.Import | ast.ImportFrom):
        for name in imported(use.node):
            yield from {top for top in [name.partition(".")[0]] if top in COMPILED}
    elif isinstance(use.node, ast.Call):
        for name in use.scope.meanings(dotted_name(use.node.func)):
            yield from (known for known in COMPILED_USES if name == known or name.startswith(f"{known}."))

"""What names in a syntax tree mean, as Python's imports resolve them.

A name that was imported in several ways (try and except) means all of them. A relative import counts by what follows
the dots: ".protos.echo_pb2_grpc" is "protos.echo_pb2_grpc", and never "grpc" itself.
"""

from __future__ import annotations

from collections.abc import Collection

import libcst as cst
from libcst.helpers import get_full_name_for_node
from libcst.metadata import QualifiedNameSource, Scope

__all__ = ["imported_module", "imported_names", "qualified_names"]

_RELATIVE = "."


def qualified_names(scope: Scope | None, node: cst.CSTNode) -> list[str]:
    """Return the qualified names of an expression that leads to an import, sorted; none for all others."""
    if scope is None:
        return []
    try:
        names: Collection[object] = scope.get_qualified_names_for(node)
    except RecursionError:
        return []
    imported = {name.name for name in names if getattr(name, "source", None) is QualifiedNameSource.IMPORT}
    return sorted(map(_below_the_dots, imported))


def imported_module(node: cst.ImportFrom) -> str:
    """Return the module that names are imported from; one that is relative never passes for a top-level module."""
    module = "" if node.module is None else get_full_name_for_node(node.module) or ""
    return _below_the_dots("." * len(node.relative) + module)


def imported_names(node: cst.Import | cst.ImportFrom) -> list[str]:
    """Return the qualified names that a statement imports, in its order; "module.*" for a star."""
    prefix = f"{imported_module(node).rstrip('.')}." if isinstance(node, cst.ImportFrom) else ""
    if isinstance(node.names, cst.ImportStar):
        return [f"{prefix}*"]
    return [prefix + alias.evaluated_name for alias in node.names]


def _below_the_dots(name: str) -> str:
    """Return a relative name under a package without a name, an absolute one as it is."""
    return name if not name.startswith(".") else _RELATIVE + name.lstrip(".")

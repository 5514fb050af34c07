"""Python source as LibCST sees it, for rewrites: a concrete syntax tree, which keeps every byte, and what the names in
it mean as imports resolve them.
"""

from __future__ import annotations

from typing import Any

import libcst as cst
from libcst.helpers import get_full_name_for_node
from libcst.metadata import QualifiedNameSource, Scope, ScopeProvider

from lucky_transport_migration.scan.source import Unreadable, parse


def parse_concrete(source: str | bytes) -> cst.Module:
    """Return the concrete syntax tree of `source`. Raises Unreadable."""
    parse(source)  # what Python refuses must not reach LibCST: its parser overruns the stack on deep nesting
    try:
        return cst.parse_module(source)
    except cst.ParserSyntaxError as error:
        raise Unreadable("is Python that LibCST cannot read", error.editor_line) from error
    except (RecursionError, SyntaxError, UnicodeError, LookupError) as error:  # it looks for the encoding by itself
        raise Unreadable(f"is Python that LibCST cannot read: {type(error).__name__}") from error


def meanings(visitor: cst.MetadataDependent, node: cst.CSTNode, *, of_builtins: bool = False) -> list[str]:
    """Return the qualified names of an expression that leads to an import, sorted; none for all others.

    of_builtins: those of Python's own functions too, "builtins.len".

    A name that was imported in several ways (try and except) means all of them. A relative import counts by what
    follows the dots: "..protos.echo_pb2_grpc" is ".protos.echo_pb2_grpc", and never "grpc" itself.
    """
    # QualifiedNameProvider calls the same function, after one more walk through the whole tree: half as slow again.
    scope = visitor.get_metadata(ScopeProvider, node, None)
    try:
        names: Any = scope.get_qualified_names_for(node) if isinstance(scope, Scope) else ()
    except RecursionError:
        return []
    sources = {QualifiedNameSource.IMPORT, *([QualifiedNameSource.BUILTIN] if of_builtins else [])}
    return sorted({_below_the_dots(one.name) for one in names if one.source in sources})


def imported(node: cst.Import | cst.ImportFrom) -> list[str]:
    """Return the qualified names that a statement imports, in its order; "module.*" for a star."""
    prefix = ""
    if isinstance(node, cst.ImportFrom):
        module = "" if node.module is None else get_full_name_for_node(node.module) or ""
        prefix = f"{_below_the_dots('.' * len(node.relative) + module).rstrip('.')}."
    if isinstance(node.names, cst.ImportStar):
        return [f"{prefix}*"]
    return [prefix + alias.evaluated_name for alias in node.names]


def _below_the_dots(name: str) -> str:
    return name if not name.startswith(".") else f".{name.lstrip('.')}"

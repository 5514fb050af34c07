"""A module that is being rewritten: rules note what is to change, `finish` changes all of it at once.

What no rule touched keeps its very bytes. An import goes when rules rewrote all uses of the name, and it had some; what
takes its place stands where it stood, so that a name is known wherever the old one was.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import libcst as cst
from libcst.metadata import (
    Assignment,
    BaseAssignment,
    ImportAssignment,
    MetadataWrapper,
    ParentNodeProvider,
    PositionProvider,
    Scope,
    ScopeProvider,
)

from lucky_transport_migration.scan.fix.imports import Import, import_lines
from lucky_transport_migration.scan.names import qualified_names
from lucky_transport_migration.scan.source import parse

__all__ = ["Draft"]

Edited = cst.CSTNode | cst.RemovalSentinel | cst.FlattenSentinel[Any]
Edit = Callable[[cst.CSTNode], Edited]


@dataclass
class _Uses:
    """What rules did with the imports of one statement: names to take out, lines to put in."""

    gone: set[str] = field(default_factory=set[str])
    added: list[str] = field(default_factory=list[str])


class Draft:
    """The syntax tree of one file, with what rules decided about it. Raises Unreadable."""

    def __init__(self, source: bytes) -> None:
        wrapper = MetadataWrapper(parse(source), unsafe_skip_copy=True)
        self.module = wrapper.module
        self.refused: list[tuple[int, str]] = []
        known = wrapper.resolve_many([ScopeProvider, PositionProvider, ParentNodeProvider])
        self._scopes: Mapping[cst.CSTNode, Any] = known[ScopeProvider]
        self._positions: Mapping[cst.CSTNode, Any] = known[PositionProvider]
        self._parents: Mapping[cst.CSTNode, Any] = known[ParentNodeProvider]
        self._edits: dict[cst.CSTNode, Edit] = {}
        self._needs: dict[cst.CSTNode, str] = {}  # a node whose name was rewritten -> the import it needs instead
        self._moved: dict[tuple[cst.CSTNode, str], str] = {}

    # -- what rules ask

    def nodes(self, kind: type[cst.CSTNode]) -> list[cst.CSTNode]:
        """Return all nodes of a kind, in the order of the file."""
        found = [node for node in self._parents if isinstance(node, kind)]
        return sorted(found, key=self._place)

    def calls(self) -> list[cst.Call]:
        """Return all calls, in the order of the file."""
        return [node for node in self.nodes(cst.Call) if isinstance(node, cst.Call)]

    def names(self, node: cst.CSTNode) -> list[str]:
        """Return what an expression means, as `qualified_names` does."""
        return qualified_names(self._scopes.get(node), node)

    def line(self, node: cst.CSTNode) -> int:
        """Return the line a node starts in."""
        return self._place(node)[0]

    def parent(self, node: cst.CSTNode) -> cst.CSTNode | None:
        """Return the node right above."""
        return self._parents.get(node)

    def assignments_of(self, name: cst.Name) -> list[Assignment]:
        """Return all assignments, with their uses, of a name where it is assigned."""
        scope = self._scopes.get(name)
        found = scope[name.value] if isinstance(scope, Scope) else ()
        return [one for one in found if isinstance(one, Assignment)]

    def bindings_of(self, name: cst.Name) -> list[BaseAssignment]:
        """Return everything that binds a name where it is used: assignments, parameters, imports, loops."""
        scope = self._scopes.get(name)
        return list(scope[name.value]) if isinstance(scope, Scope) else []

    def imports(self) -> Iterator[ImportAssignment]:
        """Yield every name that an import binds, in any scope."""
        for scope in dict.fromkeys(scope for scope in self._scopes.values() if scope is not None):
            for assignment in scope.assignments:
                if isinstance(assignment, ImportAssignment):
                    yield assignment

    # -- what rules decide

    def refuse(self, node: cst.CSTNode, why: str) -> None:
        """Leave a place to a person."""
        self.refused.append((self.line(node), why))

    def edit(self, node: cst.CSTNode, change: Edit) -> None:
        """Have `change` applied to the node, whose parts have been changed by then."""
        self._edits[node] = change

    def rename(self, expression: cst.BaseExpression, name: str, needs: str) -> None:
        """Have a dotted name, which leads to an import, replaced by another, which needs the import `needs`."""
        new = cst.parse_expression(name)
        self.edit(expression, lambda _: new)
        self._needs[expression] = needs

    def move_import(self, statement: cst.ImportFrom, name: str, line: str) -> None:
        """Have one imported name taken out of a statement, and `line` put in its place; its uses stay."""
        self._moved[statement, name] = line

    # -- all at once

    def finish(self) -> bytes:
        """Return the source with all changes made; the very source where there are none."""
        for line, uses in self._lines_of_imports().items():
            self._edits[line] = lambda updated, uses=uses: import_lines(updated, uses.gone, uses.added)
        if not self._edits:
            return self.module.bytes
        changed = self.module.visit(_Rewriter(self._edits))
        assert isinstance(changed, cst.Module)
        return changed.bytes

    def _lines_of_imports(self) -> dict[cst.SimpleStatementLine, _Uses]:
        """Return the lines in which names are taken out or put in; each new import once a block."""
        lines: dict[cst.SimpleStatementLine, _Uses] = {}
        for assignment in self.imports():
            line = self._parents.get(assignment.node)
            added, is_gone = self._fate_of(assignment)
            if isinstance(line, cst.SimpleStatementLine) and (added or is_gone):
                uses = lines.setdefault(line, _Uses())
                uses.added += added
                uses.gone |= {assignment.name} if is_gone else set()
        said: dict[cst.CSTNode, list[str]] = {}
        for line in sorted(lines, key=self._place):
            there = said.setdefault(self._parents[line], _imports_in(self._parents[line]))
            lines[line].added = [one for one in dict.fromkeys(lines[line].added) if one not in there]
            there += lines[line].added
        return lines

    def _fate_of(self, assignment: ImportAssignment) -> tuple[list[str], bool]:
        """Return the imports that an imported name makes room for, and whether it goes itself."""
        moved = self._moved.get((assignment.node, assignment.name))
        if moved is not None:
            return [moved], True
        needs = [self._need_of(access.node) for access in assignment.references]
        return sorted({need for need in needs if need}), bool(needs) and all(needs)

    def _need_of(self, node: cst.CSTNode | None) -> str:
        """Return what the expression that a name is part of needs after its change, "" when it does not change."""
        while node is not None:
            if node in self._needs:
                return self._needs[node]
            node = self._parents.get(node) if isinstance(node, cst.Name | cst.Attribute) else None
        return ""

    def _place(self, node: cst.CSTNode) -> tuple[int, int]:
        start = self._positions[node].start
        return start.line, start.column


def _imports_in(block: cst.CSTNode) -> list[str]:
    """Return the import statements that stand in a block, as text."""
    lines = [line for line in block.children if isinstance(line, cst.SimpleStatementLine)]
    return [cst.Module([]).code_for_node(one) for line in lines for one in line.body if isinstance(one, Import)]


class _Rewriter(cst.CSTTransformer):
    """Applies edits by the identity of nodes."""

    def __init__(self, edits: dict[cst.CSTNode, Edit]) -> None:
        super().__init__()
        self._edits = edits

    def on_leave(self, original_node: cst.CSTNode, updated_node: cst.CSTNode) -> Edited:  # pyright: ignore[reportIncompatibleMethodOverride]
        # Reason: LibCST's own annotation does not know that an edit may give a node of another kind.
        change = self._edits.get(original_node)
        return updated_node if change is None else change(updated_node)

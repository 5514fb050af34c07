"""One file's rewrite as a LibCST codemod: rules look at the whole file and note what is to change, then all of it
changes at once. What no rule touches keeps its very bytes. What names mean is asked of its imports, as LibCST resolves
them.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

import libcst as cst
from libcst.codemod import CodemodContext, VisitorBasedCodemodCommand
from libcst.helpers import get_full_name_for_node
from libcst.metadata import (
    BaseAssignment,
    CodeRange,
    ImportAssignment,
    ParentNodeProvider,
    PositionProvider,
    QualifiedNameSource,
    Scope,
    ScopeProvider,
)

from lucky_transport_migration.scan.names import Unreadable, parse

Edited = cst.CSTNode | cst.RemovalSentinel | cst.FlattenSentinel[Any]
Edit = Callable[[Any], Edited]
Rule = Callable[["EngineCodemod"], None]
Node = TypeVar("Node", bound=cst.CSTNode)


@dataclass
class _ImportLine:
    """What rules did with the imports of one line: names to take out, statements to put in."""

    gone: set[str] = field(default_factory=set[str])
    added: list[str] = field(default_factory=list[str])


class EngineCodemod(VisitorBasedCodemodCommand):
    """Applies rules to one module; `refused` lists (line, why) of what they leave to a person."""

    DESCRIPTION = "Moves channels, servers, envs and clients of the engine from gRPC to lucky_transport."
    METADATA_DEPENDENCIES = (ScopeProvider, PositionProvider, ParentNodeProvider)

    def __init__(self, context: CodemodContext, rules: Sequence[Rule]) -> None:
        super().__init__(context)
        self.refused: list[tuple[int, str]] = []
        self._rules = rules
        self._root: cst.Module
        self._nodes: dict[type, list[Any]] = {}
        self._values: list[tuple[cst.BaseExpression, list[str]]] | None = None
        self._edits: dict[cst.CSTNode, Edit] = {}
        self._needs: dict[cst.CSTNode, str] = {}  # a node whose name was rewritten -> the import it needs instead
        self._moved: dict[tuple[cst.CSTNode, str], str] = {}

    def transform_module_impl(self, tree: cst.Module) -> cst.Module:
        self._root = tree
        for rule in self._rules:
            rule(self)
        for line, change in self._import_lines().items():
            self._edits[line] = lambda updated, change=change: _rewritten(updated, change)
        return super().transform_module_impl(tree) if self._edits else tree

    def on_leave(self, original_node: cst.CSTNode, updated_node: cst.CSTNode) -> Any:
        change = self._edits.get(original_node)
        return updated_node if change is None else change(updated_node)

    # -- what rules ask

    def nodes(self, kind: type[Node]) -> list[Node]:
        """Return all nodes of a kind, in the order of the file."""
        if kind not in self._nodes:
            found = [node for node in self.metadata[ParentNodeProvider] if isinstance(node, kind)]
            self._nodes[kind] = sorted(found, key=self._place)
        return self._nodes[kind]

    def calls_of(self, *names: str) -> Iterator[tuple[cst.Call, str]]:
        """Yield every call of one of these qualified names, with the name."""
        for call in self.nodes(cst.Call):
            found = self.names(call.func)
            if len(found) == 1 and found[0] in names:
                yield call, found[0]

    def values_of(self, is_meant: Callable[[str], bool]) -> Iterator[tuple[cst.BaseExpression, str]]:
        """Yield every use of a qualified name as a value, with the name: not as what is called, as part of a longer
        name, as a base class or as a type.
        """
        if self._values is None:
            self._values = sorted(self._find_values(), key=lambda found: self._place(found[0]))
        yield from ((node, names[0]) for node, names in self._values if all(map(is_meant, names)))

    def _find_values(self) -> Iterator[tuple[cst.BaseExpression, list[str]]]:
        imports = [one for kind in (cst.Import, cst.ImportFrom) for one in self.nodes(kind)]
        named = [one.names for one in imports if not isinstance(one.names, cst.ImportStar)]
        roots = {bound_name(alias).partition(".")[0] for names in named for alias in names}
        for node in self.metadata[ParentNodeProvider]:
            root = node
            while isinstance(root, cst.Attribute):
                root = root.value
            # Most names lead to no import; to ask for the meaning of each would take longer than all else.
            is_imported = isinstance(root, cst.Name) and root.value in roots
            if not (is_imported and isinstance(node, cst.Name | cst.Attribute) and self._is_value(node)):
                continue
            if names := self.names(node):
                yield node, names

    def _is_value(self, node: cst.CSTNode) -> bool:
        parent = self.parent(node)
        if isinstance(parent, cst.Arg):
            call = self.parent(parent)
            return isinstance(call, cst.Call) and self.code(call.func) not in ("isinstance", "issubclass")
        if isinstance(parent, cst.Attribute | cst.Subscript | cst.Index):
            return False
        is_called = isinstance(parent, cst.Call) and parent.func is node
        return not (is_called or self._is_in_annotation(node))

    def _is_in_annotation(self, node: cst.CSTNode) -> bool:
        above: cst.CSTNode | None = node
        while isinstance(above, cst.BaseExpression):
            above = self.parent(above)
        return isinstance(above, cst.Annotation)

    def names(self, node: cst.CSTNode, *, of_builtins: bool = False) -> list[str]:
        """Return the qualified names of an expression that leads to an import, or a builtin too; see `meanings`."""
        return meanings(self, node, of_builtins=of_builtins)

    def code(self, node: cst.CSTNode) -> str:
        """Return an expression as the program spells it."""
        return self._root.code_for_node(node)

    def parent(self, node: cst.CSTNode) -> cst.CSTNode | None:
        """Return the node right above."""
        found = self.get_metadata(ParentNodeProvider, node, None)
        return found if isinstance(found, cst.CSTNode) else None

    def bindings_of(self, name: cst.Name) -> list[BaseAssignment]:
        """Return everything that binds a name where it stands: assignments, parameters, imports, loops."""
        scope = self.get_metadata(ScopeProvider, name, None)
        return list(scope[name.value]) if isinstance(scope, Scope) else []

    # -- what rules decide

    def refuse(self, node: cst.CSTNode, why: str) -> None:
        """Leave a place to a person."""
        self.refused.append((self._place(node)[0], why))

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

    # -- imports
    #
    # LibCST's AddImportsVisitor puts an import at the top of the module and its RemoveImportsVisitor drops the comments
    # of a removed one. Here an import goes when rules rewrote all its uses, and the new one stands where it stood: in
    # its function or `try`, behind what it relies on, below its comments.

    def _import_lines(self) -> dict[cst.SimpleStatementLine, _ImportLine]:
        """Return the lines in which names are taken out or put in; each new import once a block."""
        lines: dict[cst.SimpleStatementLine, _ImportLine] = {}
        for assignment in self._imports():
            line = self.parent(assignment.node)
            added, is_gone = self._fate_of(assignment)
            if isinstance(line, cst.SimpleStatementLine) and (added or is_gone):
                change = lines.setdefault(line, _ImportLine())
                change.added += added
                change.gone |= {assignment.name} if is_gone else set()
        present: dict[cst.CSTNode | None, list[str]] = {}
        for line in sorted(lines, key=self._place):
            block = self.parent(line)
            there = present.setdefault(block, _imports_in(block))
            lines[line].added = [one for one in dict.fromkeys(lines[line].added) if one not in there]
            there += lines[line].added
        return lines

    def _imports(self) -> Iterator[ImportAssignment]:
        """Yield every name that an import binds, in any scope."""
        for scope in dict.fromkeys(self.metadata[ScopeProvider].values()):
            for assignment in scope.assignments if isinstance(scope, Scope) else ():
                if isinstance(assignment, ImportAssignment):
                    yield assignment

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
            node = self.parent(node) if isinstance(node, cst.Name | cst.Attribute) else None
        return ""

    def _place(self, node: cst.CSTNode) -> tuple[int, int]:
        where = self.get_metadata(PositionProvider, node)
        assert isinstance(where, CodeRange)
        return where.start.line, where.start.column


def _imports_in(block: cst.CSTNode | None) -> list[str]:
    """Return the import statements that stand in a block, as text."""
    lines = [line for line in block.children if isinstance(line, cst.SimpleStatementLine)] if block else []
    statements = [one for line in lines for one in line.body if isinstance(one, cst.Import | cst.ImportFrom)]
    return [cst.Module([]).code_for_node(one) for one in statements]


def _rewritten(line: cst.SimpleStatementLine, change: _ImportLine) -> Edited:
    """Return a line of imports with a change made; its comments stay with the first of what takes its place."""
    kept = [small for statement in line.body if (small := _without(statement, change.gone)) is not None]
    new = [cst.ensure_type(cst.parse_statement(text), cst.SimpleStatementLine) for text in change.added]
    if kept:
        kept[-1] = kept[-1].with_changes(semicolon=cst.MaybeSentinel.DEFAULT)
        return cst.FlattenSentinel([line.with_changes(body=kept), *new])
    if not new:
        return cst.RemoveFromParent()
    dress = {"leading_lines": line.leading_lines, "trailing_whitespace": line.trailing_whitespace}
    return cst.FlattenSentinel([new[0].with_changes(**dress), *new[1:]])


def _without(statement: cst.BaseSmallStatement, gone: set[str]) -> cst.BaseSmallStatement | None:
    """Return a statement without the imported names `gone`, None when nothing is left of it."""
    if not isinstance(statement, cst.Import | cst.ImportFrom) or isinstance(statement.names, cst.ImportStar):
        return statement
    names = [alias for alias in statement.names if bound_name(alias) not in gone]
    if len(names) == len(statement.names):
        return statement
    if not names:
        return None
    names[-1] = names[-1].with_changes(comma=statement.names[-1].comma)
    return statement.with_changes(names=names)


def bound_name(alias: cst.ImportAlias) -> str:
    """Return the name by which a file knows what it imports: "grpc.aio" for `import grpc.aio`."""
    return alias.evaluated_alias or alias.evaluated_name


# -- arguments of calls


def has_stars(call: cst.Call) -> bool:
    """True when arguments come from a list or a mapping (`*args`, `**options`)."""
    return any(one.star for one in call.args)


def text_node(text: str) -> cst.SimpleString:
    """Return the literal of a text, in double quotes."""
    return cst.SimpleString(json.dumps(text))


def keyword_argument(name: str, value: cst.BaseExpression) -> cst.Arg:
    """Return `name=value`."""
    tight = cst.AssignEqual(cst.SimpleWhitespace(""), cst.SimpleWhitespace(""))
    return cst.Arg(value, keyword=cst.Name(name), equal=tight)


def with_arguments(call: cst.Call, arguments: list[cst.Arg]) -> cst.Call:
    """Return a call with other arguments, laid out as it is: the commas between them, and the one behind the last."""
    if arguments and call.args:
        first, last = call.args[0], call.args[-1]
        between = first.comma if first is not last else cst.MaybeSentinel.DEFAULT
        kept = [one.with_changes(comma=between) if one is last else one for one in arguments[:-1]]
        arguments = [*kept, arguments[-1].with_changes(comma=last.comma)]
    return call.with_changes(args=arguments)


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

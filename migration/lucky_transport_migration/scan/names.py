"""What the names in Python source mean as its imports resolve them, by the scopes of the language.

Read from the syntax tree of Python itself, which takes a fortieth of the time of a tree that keeps every byte. Rewrites
need such a tree and ask LibCST the same questions (`codemod.meanings`).
"""

from __future__ import annotations

import ast
import warnings
from collections.abc import Iterator
from dataclasses import dataclass, field

#: What opens a scope: the kind of it, and the fields that stand in it.
_FUNCTION = ("function", ("args", "body"))
_SCOPES = {
    ast.FunctionDef: _FUNCTION,
    ast.AsyncFunctionDef: _FUNCTION,
    ast.Lambda: _FUNCTION,
    ast.ClassDef: ("class", ("body",)),
    ast.ListComp: ("comprehension", ("elt", "generators")),
    ast.SetComp: ("comprehension", ("elt", "generators")),
    ast.GeneratorExp: ("comprehension", ("elt", "generators")),
    ast.DictComp: ("comprehension", ("key", "value", "generators")),
}
_DEFAULTS = ("defaults", "kw_defaults")  # of parameters: they are evaluated outside
_IN_ANNOTATIONS = ("annotation", "returns")


@dataclass(eq=False, slots=True)
class Scope:
    """Where names are bound: a module, a class, a function or a comprehension."""

    kind: str
    parent: Scope | None = None
    #: The qualified names that imports give to a name; "" for anything else that binds it.
    bound: dict[str, set[str]] = field(default_factory=dict[str, set[str]])
    elsewhere: dict[str, Scope] = field(default_factory=dict[str, "Scope"])  # names declared global or nonlocal

    def bind(self, name: str, meaning: str = "") -> None:
        """Note that a statement binds a name here, or where the name is declared to belong."""
        self.elsewhere.get(name, self).bound.setdefault(name, set()).add(meaning)

    def declare(self, node: ast.Global | ast.Nonlocal) -> None:
        """Note that names belong to the module or to an enclosing function."""
        for name in node.names:
            self.elsewhere[name] = self._outermost() if isinstance(node, ast.Global) else self._enclosing(name)

    def meanings(self, name: str) -> list[str]:
        """Return what a dotted name means where it leads to an import, sorted; none for all others.

        A name that is imported in several ways (try and except) means all of them.
        """
        first, dot, rest = name.partition(".")
        found = self._found(first)
        return sorted(f"{meaning}{dot}{rest}" for meaning in found if meaning)

    def _found(self, name: str) -> set[str]:
        scope: Scope | None = self
        while scope is not None:
            if name in scope.elsewhere:
                return scope.elsewhere[name].bound.get(name, set())
            if name in scope.bound and (scope is self or scope.kind != "class"):
                return scope.bound[name]
            scope = scope.parent
        return set()

    def _outermost(self) -> Scope:
        return self if self.parent is None else self.parent._outermost()

    def _enclosing(self, name: str) -> Scope:
        scope = self.parent
        while scope is not None and not (scope.kind != "class" and name in scope.bound):
            scope = scope.parent
        return scope or self._outermost()


@dataclass(eq=False, slots=True)
class Use:
    """A node of the tree, the scope it stands in, and the use right above it.

    in_annotation: it says what type something has, and is not evaluated for its value.
    """

    node: ast.AST
    scope: Scope
    parent: Use | None
    in_annotation: bool

    @property
    def meanings(self) -> list[str]:
        """What the expression means where it leads to an import, sorted; none for all others."""
        name = dotted_name(self.node)
        return self.scope.meanings(name) if name else []


def uses_in(tree: ast.AST) -> list[Use]:
    """Return all nodes of a module in the order of the source, docstrings and other texts without use left out."""
    uses: list[Use] = []
    stack = [Use(tree, Scope("module"), None, in_annotation=False)]
    while stack:  # not by recursion: a tree may be deeper than Python's own stack
        use = stack.pop()
        uses.append(use)
        _bind(use)
        stack += list(_children(use))[::-1]
    return uses


def imported(node: ast.Import | ast.ImportFrom) -> list[str]:
    """Return the qualified names that a statement imports, in its order; "module.*" for a star.

    A relative import counts by what follows the dots: "..protos.echo_pb2_grpc" is ".protos.echo_pb2_grpc", and never
    "grpc" itself.
    """
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    prefix = f"{'.' if node.level else ''}{node.module or ''}".rstrip(".")
    return [f"{prefix}.{alias.name}" for alias in node.names]


def dotted_name(node: ast.AST) -> str:
    """Return the names and dots of an expression, without its arguments and subscripts; "" for any other."""
    parts: list[str] = []
    while True:
        match node:
            case ast.Name():
                return ".".join([node.id, *reversed(parts)])
            case ast.Attribute():
                parts.append(node.attr)
                node = node.value
            case ast.Subscript():  # Base[Argument]
                node = node.value
            case ast.Call():  # stubs().EchoStub, with a function that imports them
                node = node.func
            case _:
                return ""


def _bind(use: Use) -> None:
    """Note what a node binds in the scope it stands in."""
    node, scope = use.node, use.scope
    match node:
        case ast.Name(ctx=ast.Store() | ast.Del()):
            _bind_name(node, use)
        case ast.arg(arg=name) | ast.ExceptHandler(name=str(name)) | ast.MatchMapping(rest=str(name)):
            scope.bind(name)
        case ast.MatchAs(name=str(name)) | ast.MatchStar(name=str(name)):
            scope.bind(name)
        case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
            scope.bind(node.name)
        case ast.Global() | ast.Nonlocal():
            scope.declare(node)
        case ast.Import() | ast.ImportFrom():
            for alias, name in zip(node.names, imported(node), strict=True):
                if alias.asname is None and isinstance(node, ast.Import):
                    name = name.partition(".")[0]  # `import a.b` binds a
                scope.bind(alias.asname or alias.name.partition(".")[0], name)
        case _:
            pass


def _bind_name(node: ast.Name, use: Use) -> None:
    scope = use.scope
    if use.parent is not None and isinstance(use.parent.node, ast.NamedExpr):
        while scope.kind == "comprehension" and scope.parent is not None:  # `:=` binds outside
            scope = scope.parent
    scope.bind(node.id)


def _children(use: Use) -> Iterator[Use]:
    """Yield the nodes right below, in the order of the source, each with its scope."""
    node = use.node
    kind, fields = _SCOPES.get(type(node), ("", ()))
    inside = Scope(kind, use.scope) if kind else use.scope
    for name in node._fields:
        value = getattr(node, name, None)
        scope = inside if not kind or name in fields else use.scope
        if name in _DEFAULTS and isinstance(node, ast.arguments) and use.scope.parent is not None:
            scope = use.scope.parent
        in_annotation = use.in_annotation or name in _IN_ANNOTATIONS
        for child in value if isinstance(value, list) else (value,):
            if isinstance(child, ast.AST) and not isinstance(child, ast.expr_context) and not _is_text_alone(child):
                yield Use(child, scope, use, in_annotation)


def _is_text_alone(node: ast.AST) -> bool:
    """True for a docstring, or a text that stands for a comment."""
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)


_FLAGS = ast.PyCF_ONLY_AST | ast.PyCF_ALLOW_TOP_LEVEL_AWAIT  # exported notebooks await at the top


class Unreadable(Exception):
    """A file that cannot be understood; `line` is where, 1 when unknown."""

    def __init__(self, why: str, line: int = 1) -> None:
        super().__init__(why)
        self.line = line


def parse(source: str | bytes) -> ast.Module:
    """Return the syntax tree of `source`. Raises Unreadable, which says what is wrong and in which line."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # an invalid escape in a user's file does not matter here
            return compile(source, "<source>", "exec", flags=_FLAGS, dont_inherit=True)
    except SyntaxError as error:
        raise Unreadable(f"is no Python 3: {error.msg}", error.lineno or 1) from error
    except (RecursionError, MemoryError) as error:
        raise Unreadable("nests too deeply for Python") from error
    except ValueError as error:  # a zero byte, a lone surrogate
        raise Unreadable(f"is no Python 3: {error}") from error

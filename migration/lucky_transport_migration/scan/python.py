"""gRPC in Python source, found in its syntax tree. Generated messages (`*_pb2`) are Protobuf, which may stay; stubs
(`*_pb2_grpc`) may not.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from lucky_transport.other_grpc import COMPILED, COMPILED_USES, why_unmoved
from lucky_transport_migration.scan.findings import GrpcUse, Kind, Unmoved
from lucky_transport_migration.scan.known import (
    BASES,
    CHANNELS,
    DROP_INS,
    LUCKYROBOTS,
    LUCKYROBOTS_CLASSES,
    PORT,
    PORT_BINDERS,
    SERVERS,
    is_grpc_module,
    is_stub_module,
    luckyrobots_class,
    may_mention,
)
from lucky_transport_migration.scan.names import Scope, Unreadable, Use, dotted_name, imported, parse, uses_in
from lucky_transport_migration.scan.texts import place_of_text

_IMPORTERS = {"import_module", "__import__", "importorskip", "find_spec"}
_PROTOC = "grpc_tools.protoc"
_STUB = re.compile(r"(^|\.)[A-Z]\w*Stub$")
_VERSION_QUERIES = {"distribution", "files", "get", "metadata", "requires", "version"}
_TYPE_CHECKS = {"isinstance", "issubclass"}


def places_in(source: str | bytes) -> list[GrpcUse]:
    """Return what of gRPC a module holds, by line. Raises Unreadable."""
    tree = parse(source)
    lines = (source.encode("utf-8", "replace") if isinstance(source, str) else source).splitlines()
    found = dict[GrpcUse, None]()
    parts = set[Use]()  # what stands inside a call that was found is part of it
    for use in uses_in(tree):
        if use.parent in parts:
            parts.add(use)
        is_call = isinstance(use.node, ast.Call)
        if use not in parts or not isinstance(use.node, ast.Constant | ast.JoinedStr):
            places = [GrpcUse(getattr(use.node, "lineno", 1), kind, symbol) for kind, symbol in _meanings(use, lines)]
            found.update(dict.fromkeys(places))
            if places and is_call:
                parts.add(use)
    return sorted(found)


def _meanings(use: Use, lines: list[bytes]) -> Iterator[tuple[Kind, str]]:
    """Yield what a node is of gRPC, told by itself."""
    match use.node:
        case ast.Import() | ast.ImportFrom():
            for name in imported(use.node):
                if _is_imported_grpc(name):
                    yield "import", name.removesuffix(".*")
        case ast.Call():
            yield from _meanings_of_call(use, use.node, lines)
        case ast.ClassDef():
            for name in [name for base in use.node.bases for name in use.scope.meanings(dotted_name(base))]:
                if (kind := _kind_of_base(name)) is not None:
                    yield kind, name
        case ast.Name() | ast.Attribute() if _is_value(use):
            for name in use.scope.meanings(dotted_name(use.node)):
                if (kind := _kind_of_callable(name)) is not None:
                    yield kind, name
        case ast.Constant(value=str(text)) if not _is_in_text(use) and _is_spelt(use.node, lines):
            for kind, symbol in _place_of_text(text):
                if not _only_compares(use, text, kind):
                    yield kind, symbol
        case ast.JoinedStr(values=parts) if not _is_in_text(use) and _is_spelt(use.node, lines):
            yield from _place_of_text(_known_part(parts))
        case ast.Constant(value=int(number)) if number == PORT and _is_spelt(use.node, lines):
            yield "channel", f"port {PORT}"
        case _:
            pass


def _is_value(use: Use) -> bool:
    """True for a name that is passed on, assigned or returned: not called, not part of a longer name, and no type."""
    if use.parent is None or use.in_annotation:
        return False
    match use.parent.node:
        case ast.Attribute() | ast.Subscript() | ast.ClassDef():
            return False
        case ast.Call(func=function):
            return use.node is not function and dotted_name(function) not in _TYPE_CHECKS
        case ast.Tuple():
            return _is_value(use.parent)
        case _:
            return True


def _is_in_text(use: Use) -> bool:
    """True for a part of an f-string, or of how one of its values is formatted."""
    return use.parent is not None and (
        isinstance(use.parent.node, ast.JoinedStr)
        or (isinstance(use.parent.node, ast.FormattedValue) and isinstance(use.node, ast.JoinedStr))
    )


def _known_part(parts: list[ast.expr]) -> str:
    """Return the end of an f-string, or where that is a value its beginning, with braces for the rest."""
    match parts:
        case [ast.Constant(value=str(text))]:
            return text
        case [*_, ast.Constant(value=str(text))]:
            return f"{{}}{text}"
        case [ast.Constant(value=str(text)), *_]:
            return f"{text}{{}}"
        case _:
            return ""


def _only_compares(use: Use, text: str, kind: Kind) -> bool:
    """True where a text asks about something and is not used itself: a table of versions, a test for a prefix."""
    parent = None if use.parent is None else use.parent.node
    if kind == "channel" and text.endswith("://"):
        return not (isinstance(parent, ast.BinOp) and parent.left is use.node)  # "grpc://" + host
    match parent:
        case ast.Dict(keys=keys):
            return kind == "dependency" and use.node in keys
        case ast.Subscript() | ast.Compare():
            return kind == "dependency"
        case ast.Call(func=function):
            return kind == "dependency" and _last_name(function) in _VERSION_QUERIES
        case _:
            return False


def _is_spelt(node: ast.expr, lines: list[bytes]) -> bool:
    """True when a literal's own lines show a trace: what escapes and other bases spell is not looked for."""
    return may_mention(b"".join(lines[node.lineno - 1 : node.end_lineno]))


def _place_of_text(text: str) -> Iterator[tuple[Kind, str]]:
    if (found := place_of_text(text)) is not None:
        yield found


def _meanings_of_call(use: Use, node: ast.Call, lines: list[bytes]) -> Iterator[tuple[Kind, str]]:
    names = _names_called(use.scope, node.func, lines)
    found: list[tuple[Kind, str]] = [(kind, name) for name in names if (kind := _kind_of_call(name, node)) is not None]
    yield from found
    for name in _names_by_text(use.scope, node, lines):
        if (kind := _kind_of_callable(name)) is not None:
            yield kind, name
    if not found and (not names or names[0].rpartition(".")[2] in _IMPORTERS):
        yield from _by_method_name(node, lines)


def _names_called(scope: Scope, function: ast.expr, lines: list[bytes]) -> list[str]:
    named = _names_by_text(scope, function, lines) if isinstance(function, ast.Call) else []
    return named or scope.meanings(dotted_name(function))


def _names_by_text(scope: Scope, node: ast.Call, lines: list[bytes]) -> list[str]:
    """Return what a call is told by a module and a text: `getattr(grpc, "server")`, `patch.object(grpc, "server")`."""
    if len(node.args) < 2 or not (last := _text(node.args[1], lines)):
        return []
    return [f"{name}.{last}" for name in scope.meanings(dotted_name(node.args[0]))]


def _is_imported_grpc(name: str) -> bool:
    top = name.partition(".")[0]
    return is_grpc_module(name) or is_stub_module(name) or top in (LUCKYROBOTS, DROP_INS)


def _kind_of_call(name: str, node: ast.Call) -> Kind | None:
    """Return what calling the imported `name` makes, None for nothing of gRPC."""
    if (kind := _kind_of_callable(name)) is not None:
        return kind
    if name.startswith(f"{_PROTOC}."):
        return "build"
    return "stub" if _STUB.search(name) and _takes_a_channel(node) else None


def _kind_of_callable(name: str) -> Kind | None:
    """Return what the imported `name` makes wherever it is called in the end, None for nothing of gRPC."""
    if name in CHANNELS or luckyrobots_class(name) in LUCKYROBOTS_CLASSES:
        return "channel"
    if name in SERVERS:
        return "server"
    if re.search(r"(^|\.)add_\w+Servicer_to_server$", name):
        return "servicer"
    return "stub" if _STUB.search(name) and is_stub_module(name) else None


def _takes_a_channel(node: ast.Call) -> bool:
    """True when the only argument is a channel by its name: stubs that a package exports again."""
    argument = node.args[0] if node.args else node.keywords[0].value if node.keywords else None
    return len(node.args) + len(node.keywords) == 1 and "channel" in _last_name(argument).lower()


def _last_name(node: ast.AST | None) -> str:
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""


def _kind_of_base(name: str) -> Kind | None:
    """Return what deriving from the imported `name` makes, None for nothing of gRPC."""
    if re.search(r"(^|\.)[A-Z]\w*Servicer$", name):
        return "servicer"
    if _STUB.search(name):
        return "stub"
    if (match := BASES.fullmatch(name)) is not None:
        return next(kind for kind in ("servicer", "interceptor", "server", "channel") if match[kind])
    return "channel" if luckyrobots_class(name) in LUCKYROBOTS_CLASSES else None


def _by_method_name(node: ast.Call, lines: list[bytes]) -> Iterator[tuple[Kind, str]]:
    """Yield what a call means by the last part of its name alone."""
    name = _last_name(node.func)
    if isinstance(node.func, ast.Attribute) and name in PORT_BINDERS:
        yield "server", name
    module = _text(node.args[0], lines) if node.args and name in _IMPORTERS else ""
    if _is_imported_grpc(module):
        yield "import", module


def _text(node: ast.expr, lines: list[bytes]) -> str:
    """Return the text that a literal spells, "" for any other expression."""
    match node:
        case ast.Constant(value=str(text)) if _is_spelt(node, lines):
            return text
        case _:
            return ""


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

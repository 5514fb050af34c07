"""gRPC in Python source, found in its syntax tree. Generated messages (`*_pb2`) are Protobuf, which may stay; stubs
(`*_pb2_grpc`) may not.
"""

# ruff: noqa: N802
# Reason: LibCST finds what visits a node by these names.

from __future__ import annotations

import re

import libcst as cst
from libcst.metadata import CodeRange, MetadataWrapper, PositionProvider, ScopeProvider

from lucky_transport_migration.scan.findings import GrpcUse, Kind
from lucky_transport_migration.scan.known import (
    CHANNELS,
    DROP_INS,
    INTERCEPTORS,
    LUCKYROBOTS,
    PORT,
    PORT_BINDERS,
    SERVERS,
    is_grpc_module,
    is_stub_module,
    luckyrobots_class,
)
from lucky_transport_migration.scan.source import imported, meanings
from lucky_transport_migration.scan.texts import place_of_text

__all__ = ["may_mention", "places_in"]

#: A file without any of these words has nothing to find, and is not parsed.
_WORDS = re.compile(rb"grpc|luckyrobots|_pb2|lucky_transport_stubs|lucky[-_.]transport\s*\[|\b50_?051\b", re.IGNORECASE)

_IMPORTERS = {"import_module", "__import__", "importorskip", "find_spec"}
_PROTOC = "grpc_tools.protoc"


def may_mention(source: bytes) -> bool:
    """True when it is worth parsing `source`."""
    return bool(_WORDS.search(source))


def places_in(module: cst.Module) -> list[GrpcUse]:
    """Return what of gRPC a module holds, by line."""
    finder = _Finder()
    MetadataWrapper(module, unsafe_skip_copy=True).visit(finder)  # a parsed tree holds no node twice
    return sorted(dict.fromkeys(finder.places))


class _Finder(cst.CSTVisitor):
    METADATA_DEPENDENCIES = (ScopeProvider, PositionProvider)

    def __init__(self) -> None:
        super().__init__()
        self.places: list[GrpcUse] = []
        self._found_calls: list[cst.Call] = []  # what stands inside a call that was found is part of it

    def visit_Import(self, node: cst.Import) -> None:
        self._note_imports(node)

    def visit_ImportFrom(self, node: cst.ImportFrom) -> None:
        self._note_imports(node)

    def visit_Call(self, node: cst.Call) -> None:
        before = len(self.places)
        for kind, symbol in self._meanings(node):
            self._note(node, kind, symbol)
        if len(self.places) > before:
            self._found_calls.append(node)

    def leave_Call(self, original_node: cst.Call) -> None:
        if self._found_calls and self._found_calls[-1] is original_node:
            self._found_calls.pop()

    def visit_ClassDef(self, node: cst.ClassDef) -> None:
        for base in node.bases:
            for name in self._names(base.value):
                if (kind := _kind_of_base(name)) is not None:
                    self._note(node.name, kind, name)

    def visit_Expr(self, node: cst.Expr) -> bool:
        return not isinstance(node.value, cst.SimpleString | cst.ConcatenatedString)  # a docstring or a comment

    def visit_SimpleString(self, node: cst.SimpleString) -> None:
        value = node.evaluated_value
        if not self._found_calls and isinstance(value, str):
            self._note_text(node, value)

    def visit_FormattedString(self, node: cst.FormattedString) -> None:
        last = node.parts[-1] if node.parts else None
        if not self._found_calls and isinstance(last, cst.FormattedStringText):
            self._note_text(node, f"{{}}{last.value}" if len(node.parts) > 1 else last.value)

    def visit_Integer(self, node: cst.Integer) -> None:
        if not self._found_calls and node.evaluated_value == PORT:
            self._note(node, "channel", f"port {PORT}")

    def _note(self, node: cst.CSTNode, kind: Kind, symbol: str) -> None:
        where = self.get_metadata(PositionProvider, node)
        assert isinstance(where, CodeRange)
        self.places.append(GrpcUse(where.start.line, kind, symbol))

    def _note_text(self, node: cst.CSTNode, text: str) -> None:
        if (found := place_of_text(text)) is not None:
            self._note(node, *found)

    def _note_imports(self, node: cst.Import | cst.ImportFrom) -> None:
        for name in imported(node):
            if _is_imported_grpc(name):
                self._note(node, "import", name.removesuffix(".*"))

    def _names(self, node: cst.CSTNode) -> list[str]:
        return meanings(self, node)

    def _meanings(self, node: cst.Call) -> list[tuple[Kind, str]]:
        names = self._names(node.func)
        found: list[tuple[Kind, str]] = [(kind, name) for name in names if (kind := _kind_of_call(name, node))]
        if found or (names and not _is_importer(names[0])):
            return found
        return _by_method_name(node)


def _is_imported_grpc(name: str) -> bool:
    top = name.partition(".")[0]
    return is_grpc_module(name) or is_stub_module(name) or top in (LUCKYROBOTS, DROP_INS)


def _kind_of_call(name: str, node: cst.Call) -> Kind | None:
    """Return what calling the imported `name` makes, None for nothing of gRPC."""
    last = name.rpartition(".")[2]
    if name in CHANNELS or luckyrobots_class(name) in ("LuckyEnv", "PolicyEnv", "LuckyEngineClient", "Session"):
        return "channel"
    if luckyrobots_class(name) == "AsyncSession":
        return "channel"
    if name in SERVERS:
        return "server"
    if name.startswith(f"{_PROTOC}."):
        return "build"
    if re.fullmatch(r"add_\w+Servicer_to_server", last):
        return "servicer"
    is_stub = re.fullmatch(r"[A-Z]\w*Stub", last)
    return "stub" if is_stub and (is_stub_module(name) or _takes_a_channel(node)) else None


def _takes_a_channel(node: cst.Call) -> bool:
    """True when the only argument is a channel by its name: stubs that a package exports again."""
    if len(node.args) != 1:
        return False
    argument = node.args[0].value
    name = argument.attr if isinstance(argument, cst.Attribute) else argument
    return isinstance(name, cst.Name) and "channel" in name.value.lower()


def _kind_of_base(name: str) -> Kind | None:
    """Return what deriving from the imported `name` makes, None for nothing of gRPC."""
    if name == "grpc.GenericRpcHandler" or re.search(r"(^|\.)[A-Z]\w*Servicer$", name):
        return "servicer"
    if (match := INTERCEPTORS.fullmatch(name)) is not None:
        return "channel" if match["end"] == "Client" else "server"
    return "channel" if luckyrobots_class(name) in ("LuckyEnv", "PolicyEnv", "LuckyEngineClient") else None


def _is_importer(name: str) -> bool:
    return name.rpartition(".")[2] in _IMPORTERS


def _by_method_name(node: cst.Call) -> list[tuple[Kind, str]]:
    """Return what a call means by the last part of its name alone."""
    function = node.func
    name = function.attr if isinstance(function, cst.Attribute) else function
    if not isinstance(name, cst.Name):
        return []
    if isinstance(function, cst.Attribute) and name.value in PORT_BINDERS:
        return [("server", name.value)]
    argument = node.args[0].value if node.args else None
    value = argument.evaluated_value if isinstance(argument, cst.SimpleString) else None
    if name.value in _IMPORTERS and isinstance(value, str) and _is_imported_grpc(value):
        return [("import", value)]
    return []

"""Which targets of gRPC are the engine's: port 50051 of this host, and those that the user names.

A target counts only when its text is known, because a rewrite of another service's channel would break a program.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable

import libcst as cst
from libcst.metadata import Assignment

from lucky_transport_migration.scan.codemod import EngineCodemod
from lucky_transport_migration.scan.known import PORT

__all__ = ["Targets", "folded"]

_THIS_HOST = re.compile(r"localhost|127\.0\.0\.1|0\.0\.0\.0|\[?::1?\]?")
_SCHEME = re.compile(r"dns:///|ipv4:|ipv6:")
_DEEPEST = 20

#: What an expression is known to be.
Constant = str | int


class Targets:
    """The engine's targets; named: those that the user gives, as "host:port", "unix:/path" or as the program spells
    them: "localhost:port", "arguments.address".
    """

    def __init__(self, named: Iterable[str] = ()) -> None:
        self._named = {_bare(one) for one in named}

    def why_not(self, codemod: EngineCodemod, target: cst.BaseExpression) -> str:
        """Return why a target is left alone, "" when it is the engine's."""
        text = folded(codemod, target)
        if not isinstance(text, str):
            return self._why_not_spelt("its target is not a constant", codemod.code(target))
        return self._why_not(text)

    def why_not_at(
        self, codemod: EngineCodemod, host: cst.BaseExpression | None, port: cst.BaseExpression | None
    ) -> str:
        """Return the same of a host and a port; None for one that is not given, which is this host, port 50051."""
        known = [
            default if node is None else folded(codemod, node) for node, default in ((host, "localhost"), (port, PORT))
        ]
        if None in known:
            spelt = [
                one if one is not None or node is None else codemod.code(node)
                for one, node in zip(known, (host, port), strict=True)
            ]
            return self._why_not_spelt("its host and port are not constants", f"{spelt[0]}:{spelt[1]}")
        name = f"[{known[0]}]" if ":" in str(known[0]) and not str(known[0]).startswith("[") else known[0]
        return self._why_not(f"{name}:{known[1]}")

    def _why_not_spelt(self, why: str, spelt: str) -> str:
        """Return the same of what is not known: the user may name it as the program spells it."""
        if spelt in self._named:
            return ""
        return f"{why}, so it is not known to be the engine's; if it is, say so with --target {shlex.quote(spelt)}"

    def _why_not(self, text: str) -> str:
        bare = _bare(text)
        host, _, port = bare.rpartition(":")
        if bare in self._named or (port == str(PORT) and _THIS_HOST.fullmatch(host)):
            return ""
        return (
            f"{text} is not known to be the engine: only port {PORT} of this host is; if it is, say so with "
            f"--target {text}"
        )


def folded(codemod: EngineCodemod, node: cst.BaseExpression, depth: int = 0) -> Constant | None:
    """Return the text or number that an expression is known to be, None when it is not.

    Known are literals, names that are assigned once to a constant, and `+`, f-strings, `%` and `format` of constants.
    """
    if depth > _DEEPEST:
        return None
    match node:
        case cst.Integer():
            return node.evaluated_value
        case cst.SimpleString() | cst.ConcatenatedString(left=cst.SimpleString(), right=cst.SimpleString()):
            value = node.evaluated_value
            return value if isinstance(value, str) else None
        case cst.FormattedString():
            return _joined(codemod, node.parts, depth)
        case cst.ConcatenatedString():
            return _added(codemod, node.left, node.right, depth)
        case cst.BinaryOperation(operator=cst.Add()):
            return _added(codemod, node.left, node.right, depth)
        case cst.BinaryOperation(operator=cst.Modulo()):
            return _formatted(codemod, node, depth)
        case cst.Call(func=cst.Name("str"), args=[cst.Arg(star="", keyword=None) as only]):
            value = folded(codemod, only.value, depth + 1)
            return None if value is None else str(value)
        case cst.Call(func=cst.Attribute(attr=cst.Name("format"))):
            return _filled(codemod, node, depth)
        case cst.Name():
            value = _value_of(codemod, node)
            return None if value is None else folded(codemod, value, depth + 1)
        case _:
            return None


def _value_of(codemod: EngineCodemod, name: cst.Name) -> cst.BaseExpression | None:
    """Return what a name is assigned, if that is once, by a plain assignment."""
    found = codemod.bindings_of(name)
    if len(found) != 1 or not isinstance(found[0], Assignment):
        return None
    match codemod.parent(found[0].node), codemod.parent(codemod.parent(found[0].node) or found[0].node):
        case cst.AssignTarget(), cst.Assign() as statement if len(statement.targets) == 1:
            return statement.value
        case cst.AnnAssign() as statement, _ if statement.target is found[0].node:
            return statement.value
        case _:
            return None


def _added(codemod: EngineCodemod, left: cst.BaseExpression, right: cst.BaseExpression, depth: int) -> Constant | None:
    one, other = folded(codemod, left, depth + 1), folded(codemod, right, depth + 1)
    if isinstance(one, str) and isinstance(other, str):
        return one + other
    return one + other if isinstance(one, int) and isinstance(other, int) else None


def _joined(codemod: EngineCodemod, parts: Iterable[cst.BaseFormattedStringContent], depth: int) -> str | None:
    texts: list[str] = []
    for part in parts:
        if isinstance(part, cst.FormattedStringText):
            if "\\" in part.value:
                return None
            texts.append(part.value.replace("{{", "{").replace("}}", "}"))
            continue
        is_plain = isinstance(part, cst.FormattedStringExpression) and not (part.conversion or part.format_spec)
        value = folded(codemod, part.expression, depth + 1) if is_plain else None  # pyright: ignore[reportAttributeAccessIssue]
        if value is None:
            return None
        texts.append(str(value))
    return "".join(texts)


def _formatted(codemod: EngineCodemod, node: cst.BinaryOperation, depth: int) -> str | None:
    """Return what `"..." % ...` is."""
    text = folded(codemod, node.left, depth + 1)
    given = [one.value for one in node.right.elements] if isinstance(node.right, cst.Tuple) else [node.right]
    values = [folded(codemod, one, depth + 1) for one in given]
    if not isinstance(text, str) or None in values:
        return None
    try:
        return text % tuple(values)
    except (TypeError, ValueError):
        return None


def _filled(codemod: EngineCodemod, call: cst.Call, depth: int) -> str | None:
    """Return what `"...".format(...)` is."""
    text = folded(codemod, cst.ensure_type(call.func, cst.Attribute).value, depth + 1)
    if not isinstance(text, str) or any(one.star for one in call.args):
        return None
    values = [(one.keyword.value if one.keyword else "", folded(codemod, one.value, depth + 1)) for one in call.args]
    if any(value is None for _, value in values):
        return None
    try:
        return text.format(*(value for name, value in values if not name), **{n: v for n, v in values if n})
    except (IndexError, KeyError, ValueError, AttributeError):
        return None


def _bare(target: str) -> str:
    """Return a target without the scheme that says how to resolve it."""
    return _SCHEME.sub("", target, count=1) if _SCHEME.match(target) else target

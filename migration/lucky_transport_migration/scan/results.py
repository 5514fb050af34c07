"""What a program does with the results of a rewritten call: gRPC answers with messages of Protobuf, a typed call with
dataclasses. Reading fields and lists is alike in both; everything else stands in the way of a rewrite.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Literal

import libcst as cst
from libcst.metadata import Assignment, BaseAssignment, ClassScope

from lucky_transport.messages.fields import fields_of
from lucky_transport.messages.methods import Method
from lucky_transport_migration.scan.codemod import EngineCodemod

#: Functions that only read a list, item by item, and give something of their own.
_READERS = {
    *(f"builtins.{name}" for name in ("all", "any", "enumerate", "len", "list", "map", "max", "min", "reversed")),
    *(f"builtins.{name}" for name in ("set", "sorted", "sum", "tuple", "zip")),
    "numpy.array",
    "numpy.asarray",
}
_LIST_METHODS = {"count", "index"}
_DIFFERENCE = "a typed call gives dataclasses and lists, not Protobuf's"


@dataclass(frozen=True, slots=True)
class Obstacle:
    """A place that no rule rewrites, and why."""

    node: cst.CSTNode
    why: str


@dataclass(frozen=True, slots=True)
class _Value:
    """One message, or a list or a stream of them; message: None for values that are Python's own in both."""

    message: type | None
    shape: Literal["one", "list", "stream"] = "one"

    @property
    def is_plain_list(self) -> bool:
        return self.message is None and self.shape == "list"

    def __str__(self) -> str:
        name = "values" if self.message is None else self.message.__name__
        return name if self.shape == "one" else f"a {self.shape} of {name}"


class ResultUses:
    """Follows results through one file, from the call to the last use of the names that hold them."""

    def __init__(self, codemod: EngineCodemod) -> None:
        self._codemod = codemod
        self._held: dict[BaseAssignment, _Value] = {}

    def obstacles(self, call: cst.Call, method: Method) -> list[Obstacle]:
        """Return what is done with the result of `call` that cannot be done once it is a call of `method`."""
        return list(self._uses(call, _Value(method.response, "one" if method.stream is None else "stream")))

    def obstacles_of_names(self) -> list[Obstacle]:
        """Return, when all calls were followed, the names that hold something else as well."""
        return [
            Obstacle(assignment.node, f"{assignment.name} is bound to something else too")
            for assignment, value in self._held.items()
            if isinstance(assignment, Assignment)
            and any(self._held.get(other) != value for other in assignment.scope[assignment.name])
        ]

    def _uses(self, node: cst.CSTNode, value: _Value) -> Iterator[Obstacle]:
        """Yield the obstacles among what is done with an expression, told by the node right above it."""
        if value == _Value(None):
            return
        parent = self._codemod.parent(node)
        match parent:
            case cst.Expr() | cst.Del(target=cst.Name()):
                return
            case cst.Attribute() if parent.value is node:
                yield from self._attribute(parent, value)
                return
            case cst.Subscript() if parent.value is node and value.shape == "list":
                is_slice = any(isinstance(one.slice, cst.Slice) for one in parent.slice)
                yield from self._part(parent, value if is_slice else replace(value, shape="one"))
                return
            case cst.Arg():
                yield from self._argument(parent, value)
                return
            case cst.For() | cst.CompFor() if parent.iter is node and value.shape != "one" and not parent.asynchronous:
                yield from self._name(parent.target, replace(value, shape="one"))
                return
            case cst.Assign(targets=[cst.AssignTarget(target=target)]) if parent.value is node:
                yield from self._name(target, value)
                return
            case cst.AnnAssign() if parent.value is node:
                yield from self._name(parent.target, value)
                return
            case cst.NamedExpr() if parent.value is node:
                yield from self._name(parent.target, value)
                yield from self._uses(parent, value)
                return
            case cst.If() | cst.While() | cst.IfExp() | cst.CompIf() | cst.UnaryOperation(operator=cst.Not()):
                if value.shape == "list" and getattr(parent, "test", node) is node:
                    return  # an empty list is false in both; an unset message is not
            case cst.Comparison() | cst.ComparisonTarget() | cst.StarredElement():
                if value.is_plain_list:
                    return
            case _:
                pass
        yield Obstacle(node, f"no rule knows what is done with {value}; {_DIFFERENCE}")

    def _attribute(self, node: cst.Attribute, value: _Value) -> Iterator[Obstacle]:
        name = node.attr.value
        if value.message is None or value.shape != "one":
            if value.shape != "list" or name not in _LIST_METHODS:
                yield Obstacle(node, f"no rule knows {name}() of {value}; {_DIFFERENCE}")
            return
        field = next((one for one in fields_of(value.message) if one.name == name), None)
        if field is None or field.shape == "map":
            yield Obstacle(node, f"{name} is no field of {value}; {_DIFFERENCE}")
        else:
            yield from self._part(node, _Value(field.message, "list" if field.shape == "list" else "one"))

    def _part(self, node: cst.Attribute | cst.Subscript, value: _Value) -> Iterator[Obstacle]:
        """Yield the obstacles of a field or an item, which may be read and not changed."""
        parent = self._codemod.parent(node)
        if isinstance(parent, cst.AssignTarget | cst.Del) or getattr(parent, "target", None) is node:
            yield Obstacle(node, f"{self._codemod.code(node)} is changed; {_DIFFERENCE}")
        else:
            yield from self._uses(node, value)

    def _argument(self, argument: cst.Arg, value: _Value) -> Iterator[Obstacle]:
        call = self._codemod.parent(argument)
        assert isinstance(call, cst.Call | cst.ClassDef)
        names = self._codemod.names(call.func, of_builtins=True) if isinstance(call, cst.Call) else []
        if isinstance(call, cst.Call) and names == ["builtins.next"] and value.shape == "stream":
            yield from self._uses(call, replace(value, shape="one"))
        elif (value.is_plain_list and (argument.star == "*" or (names and set(names) <= _READERS))) or (
            value.shape == "list" and names == ["builtins.len"]
        ):
            return
        else:
            what = self._codemod.code(call.func) if isinstance(call, cst.Call) else "a class"
            yield Obstacle(argument, f"{value} is passed to {what}; {_DIFFERENCE}")

    def _name(self, target: cst.CSTNode, value: _Value) -> Iterator[Obstacle]:
        """Yield the obstacles of a name that is bound to a value."""
        if value == _Value(None):
            return
        bound = self._codemod.bindings_of(target) if isinstance(target, cst.Name) else []
        mine = next((one for one in bound if isinstance(one, Assignment) and one.node is target), None)
        if mine is None:
            yield Obstacle(target, f"no rule knows what is done with {value}; {_DIFFERENCE}")
        elif isinstance(mine.scope, ClassScope):
            yield Obstacle(target, f"{mine.name} is an attribute of a class, whose uses are not seen here")
        elif mine not in self._held:
            self._held[mine] = value
            for access in mine.references:
                yield from self._uses(access.node, value)

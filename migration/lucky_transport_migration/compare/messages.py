"""Where two messages first differ: every field by its rule, numbers in the width they have on the wire.

A list's order counts, a map's does not. Absent and empty are told apart where the wire does.

Answers that came as a program's own bytes become messages first: LuckyEngine's of the core by the gRPC plugin, those of
other services of protobuf by their description. Where neither is there, or does not know the bytes, they stay bytes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lucky_transport.messages.fields import Field
from lucky_transport.messages.methods import BY_NAME, Method
from lucky_transport.registry import load
from lucky_transport_migration.catalogue.service_method import ServiceMethod
from lucky_transport_migration.compare.arrays import first_unequal_number
from lucky_transport_migration.compare.difference import Difference
from lucky_transport_migration.compare.message_fields import name_of, unknown_fields, value_of
from lucky_transport_migration.compare.rules import ComparisonRules, Rule

_DTYPES = {
    "f32": np.float32,
    "f64": np.float64,
    "i32": np.int64,
    "i64": np.int64,
    "u32": np.int64,
    "u64": np.uint64,
}


def first_unequal(
    message: type[Any], left: Any, right: Any, rules: ComparisonRules | None = None, *, streamed: bool = False
) -> Difference | None:
    """Return where two messages of that class first differ, in the order of their fields; None if nowhere.

    Without rules those count that the project has by itself. streamed: they are items of a stream.
    """
    walk = _Walk(rules or ComparisonRules(), streamed)
    try:
        return next(walk.messages(message, left, right, "", name_of(message)), None)
    except (TypeError, ValueError, OverflowError, AttributeError):  # a value of a kind that no wire carries there
        return None if repr(left) == repr(right) else Difference("item", "", repr(left), repr(right))


def first_unequal_byte(left: Any, right: Any, rule: Rule, path: str = "") -> Difference | None:
    """Return where two byte strings first differ, None if nowhere; each byte is a number to the rule."""
    if len(left) != len(right):
        return Difference("item", f"len({path})", len(left), len(right))
    if left == right:
        return None
    at = first_unequal_number(np.frombuffer(left, np.uint8), np.frombuffer(right, np.uint8), rule)
    return None if at is None else Difference("item", f"{path}[{at[0]}]", left[at[0]], right[at[0]])


class _Walk:
    """One walk through both messages. `path` is where a report says it is, `place` where the rules look."""

    def __init__(self, rules: ComparisonRules, streamed: bool) -> None:
        self._rules = rules
        self._streamed = streamed

    def messages(self, message: type[Any], left: Any, right: Any, path: str, place: str) -> Iterator[Difference]:
        if type(left) is not message or type(right) is not message:
            if left is not right:
                yield Difference("item", path, left, right)
            return
        for field, inner, rule in self._rules.fields(message, place):
            where = f"{path}.{field.name}" if path else field.name
            x, y = value_of(left, field), value_of(right, field)
            if not rule.skips(self._streamed):
                yield from self._field(field, x, y, where, inner, rule)
            elif rule.presence and bool(x) != bool(y):
                yield Difference("item", where, x, y)
        if (x := unknown_fields(left)) != (y := unknown_fields(right)):
            where = f"{path or 'response'} (extensions, and fields that its description lacks)"
            yield Difference("item", where, repr(x), repr(y))

    def _field(self, field: Field, left: Any, right: Any, path: str, place: str, rule: Rule) -> Iterator[Difference]:
        if field.shape == "list":
            yield from self._lists(field, left, right, path, place, rule)
        elif field.shape == "map":
            for key in sorted({*left, *right}):
                where = f"{path}[{key!r}]"
                if key not in left or key not in right:
                    yield Difference("item", where, left.get(key, "absent"), right.get(key, "absent"))
                else:
                    yield from self._one(field, left[key], right[key], where, place, rule)
        else:
            yield from self._one(field, left, right, path, place, rule)

    def _lists(self, field: Field, left: Any, right: Any, path: str, place: str, rule: Rule) -> Iterator[Difference]:
        if len(left) != len(right):
            yield Difference("item", f"len({path})", len(left), len(right))
        elif field.kind in (_DTYPES if rule.tolerant else ("f32", "f64")):
            at = first_unequal_number(_array(field, left), _array(field, right), rule)
            if at is not None:
                yield Difference("item", f"{path}[{at[0]}]", left[at[0]], right[at[0]])
        else:
            for index, (x, y) in enumerate(zip(left, right, strict=True)):
                yield from self._one(field, x, y, f"{path}[{index}]", place, rule)

    def _one(self, field: Field, left: Any, right: Any, path: str, place: str, rule: Rule) -> Iterator[Difference]:
        if field.message is not None:
            yield from self.messages(field.message, left, right, path, place)
        elif left is None or right is None:
            if left is not right:
                yield Difference("item", path, left, right)
        elif field.kind == "bytes":
            found = first_unequal_byte(bytes(left), bytes(right), rule, path)
            if found is not None:
                yield found
        elif field.kind in (_DTYPES if rule.tolerant else ("f32", "f64")):
            if first_unequal_number(_array(field, [left]), _array(field, [right]), rule) is not None:
                yield Difference("item", path, left, right)
        elif type(left) is not type(right) or left != right:
            yield Difference("item", path, left, right)


def _array(field: Field, values: Any) -> NDArray[Any]:
    """Return numbers as the wire carries them."""
    with np.errstate(over="ignore"):
        return np.array(values, _DTYPES[field.kind])


def as_message(method: Method | ServiceMethod | None, item: Any) -> Any:
    """Return the message that `item` is or holds; `item` itself where that is not known."""
    if method is None or not isinstance(item, bytes):
        return item
    row = BY_NAME.get(method.name)
    if row is None:
        return item if method.response is None else _parsed(method.response, item)
    response_in = _response_in()
    try:
        return item if response_in is None else response_in(row, item)
    except ValueError:
        return item


def _parsed(response: Any, item: bytes) -> Any:
    from google.protobuf.message import DecodeError

    try:
        return response.FromString(item)
    except DecodeError:
        return item


@cache
def _response_in() -> Callable[[Method, bytes], Any] | None:
    try:
        return load("lucky_transport_grpc.codec:response_in", owner="evidence", extra="grpc")
    except ImportError:
        return None

"""Random messages for Hypothesis, derived from the same fields as the codecs.

    @given(message=messages(AgentSchema))
    def test_my_peer_understands_it(message): ...

Every value that a field's type can carry may turn up: NaN, infinities, -0.0, the ends of each integer range, text of
any script, with zeros in it. Maps are in the order of their keys, as they come off the wire; so `repr` compares
messages, which unlike `==` takes NaN for NaN and tells -0.0 from 0.0. Of fields of which one counts, at most one is
given: Protobuf cannot carry two. Enums are members or, as from a newer peer, numbers that are none.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Any, TypeVar, cast

from hypothesis import strategies as st

from lucky_transport.messages.fields import Field, fields_of, member
from lucky_transport.messages.methods import METHODS
from lucky_transport.messages.scalars import is_struct, one_of_fields

__all__ = ["any_message", "message_classes", "messages"]

M = TypeVar("M")

_KINDS: dict[str, st.SearchStrategy[Any]] = {
    "f32": st.floats(width=32),
    "f64": st.floats(),
    "i32": st.integers(-(2**31), 2**31 - 1),
    "u32": st.integers(0, 2**32 - 1),
    "u64": st.integers(0, 2**64 - 1),
    "bool": st.booleans(),
    "str": st.text(max_size=12),
    "bytes": st.binary(max_size=12),
}


def message_classes() -> tuple[type[Any], ...]:
    """Return every class that travels: the requests and responses of all methods and what they contain."""
    found: dict[type[Any], None] = {}

    def visit(cls: type[Any]) -> None:
        if cls not in found:
            found[cls] = None
            for field in fields_of(cls):
                if field.message is not None:
                    visit(field.message)

    for method in METHODS:
        visit(method.request)
        visit(method.response)
    return tuple(found)


def messages(cls: type[M]) -> st.SearchStrategy[M]:
    """Return a strategy for messages of that class."""
    rivals = one_of_fields(cls)
    values = {field.name: _values(field) for field in fields_of(cls)}
    common = {name: value for name, value in values.items() if name not in rivals}
    choices = [{**common, name: values[name]} for name in rivals] or [common]
    return st.one_of([st.builds(cls, **choice) for choice in choices])


def any_message() -> st.SearchStrategy[Any]:
    """Return a strategy for messages of any class that travels; structs come inside others only."""
    return st.sampled_from([cls for cls in message_classes() if not is_struct(cls)]).flatmap(messages)


def _values(field: Field) -> st.SearchStrategy[Any]:
    one: st.SearchStrategy[Any]
    if field.message is None:
        one = _KINDS[field.kind] if field.enum is None else _members(field.enum, field.kind)
    else:
        cls = cast("type[Any]", field.message)
        one = st.deferred(lambda: messages(cls))
    if field.shape == "list":
        return st.lists(one, max_size=3)
    if field.shape == "map":
        return st.dictionaries(_KINDS["str"], one, max_size=3).map(lambda values: dict(sorted(values.items())))
    return st.none() | one if field.optional or field.kind in ("message", "struct") else one


def _members(enum: type[IntEnum], kind: str) -> st.SearchStrategy[int]:
    return st.sampled_from(enum) | _KINDS[kind].map(lambda value: member(enum, value))

"""Random messages for Hypothesis, derived from the same fields as the codecs.

    @given(message=messages(AgentSchema))
    def test_my_peer_understands_it(message): ...

Every value that a field's type can carry may turn up: NaN, infinities, -0.0, the ends of each integer range, text of
any script, with zeros in it. Maps are in the order of their keys, as they come off the wire; so `repr` compares
messages, which unlike `==` takes NaN for NaN and tells -0.0 from 0.0. Of fields of which one counts, at most one is
given: Protobuf cannot carry two. Enums are members or, as from a newer peer, numbers that are none.
"""

from dataclasses import dataclass, field
from enum import IntEnum
from typing import Annotated, Any, TypeVar, cast

from hypothesis import strategies as st

from lucky_transport.messages.fields import Field, fields_of, member
from lucky_transport.messages.methods import METHODS
from lucky_transport.messages.scalars import F32, F64, I32, U32, U64, is_struct, one_of_fields
from lucky_transport.messages.scalars import struct as in_place

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


class Colour(IntEnum):
    """An enum."""

    RED = 0
    BLUE = 1


@in_place
@dataclass(slots=True)
class Point:
    """A struct of one width."""

    x: F32 = 0.0
    y: F32 = 0.0


@in_place
@dataclass(slots=True)
class Mixed:
    """A struct with gaps between its fields and after them."""

    flag: bool = False
    wide: F64 = 0.0
    count: I32 = 0


@dataclass(slots=True)
class Leaf:
    """The smallest table, aligned to 8."""

    id: U64 = 0
    name: str = ""


@dataclass(slots=True)
class Everything:
    """Each sort of field that there is."""

    flag: bool = False
    small: I32 = 0
    count: U32 = 0
    big: U64 = 0
    ratio: F32 = 0.0
    exact: F64 = 0.0
    colour: Annotated[Colour, "i32"] = Colour.RED
    maybe: F32 | None = None
    perhaps: bool | None = None
    name: str = ""
    raw: bytes = b""
    point: Point | None = None
    mixed: Mixed | None = None
    leaf: Leaf | None = None
    flags: list[bool] = field(default_factory=list[bool])
    smalls: list[I32] = field(default_factory=list[I32])
    counts: list[U32] = field(default_factory=list[U32])
    bigs: list[U64] = field(default_factory=list[U64])
    ratios: list[F32] = field(default_factory=list[F32])
    exacts: list[F64] = field(default_factory=list[F64])
    names: list[str] = field(default_factory=list[str])
    points: list[Point] = field(default_factory=list[Point])
    mixeds: list[Mixed] = field(default_factory=list[Mixed])
    leaves: list[Leaf] = field(default_factory=list[Leaf])
    flag_of: dict[str, bool] = field(default_factory=dict[str, bool])
    small_of: dict[str, I32] = field(default_factory=dict[str, I32])
    big_of: dict[str, U64] = field(default_factory=dict[str, U64])
    ratio_of: dict[str, F32] = field(default_factory=dict[str, F32])
    exact_of: dict[str, F64] = field(default_factory=dict[str, F64])
    name_of: dict[str, str] = field(default_factory=dict[str, str])
    leaf_of: dict[str, Leaf] = field(default_factory=dict[str, Leaf])
    raws: list[bytes] = field(default_factory=list[bytes])
    colours: list[Annotated[Colour, "i32"]] = field(default_factory=list[Colour])
    colour_of: dict[str, Annotated[Colour, "i32"]] = field(default_factory=dict[str, Colour])
    raw_of: dict[str, bytes] = field(default_factory=dict[str, bytes])
    point_of: dict[str, Point] = field(default_factory=dict[str, Point])

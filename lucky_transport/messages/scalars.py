"""What message classes are written with: scalar types of fixed width, marks for the codecs, and empty defaults."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any, TypeVar, cast

F32 = Annotated[float, "f32"]
F64 = Annotated[float, "f64"]
I32 = Annotated[int, "i32"]
U32 = Annotated[int, "u32"]
U64 = Annotated[int, "u64"]
#: Bytes that an engine may hand out in memory of its own, and a client may see in the engine's.
Buffer = Annotated[bytes | bytearray | memoryview, "bytes"]

M = TypeVar("M", bound=type)

_STRUCT = "__lucky_struct__"
_ONE_OF = "__lucky_one_of__"


def struct(cls: M) -> M:
    """Mark a message class, all of whose fields are scalars, as a FlatBuffers struct: in place, all fields present.

    A struct's fields can never be changed, not even appended to. Protobuf carries it as an ordinary message.
    """
    setattr(cls, _STRUCT, True)
    return cls


def is_struct(cls: type) -> bool:
    """True for a message class marked with `struct`."""
    return bool(getattr(cls, _STRUCT, False))


def one_of(*names: str) -> Callable[[M], M]:
    """Mark fields of a message class of which one counts: the first one given (not None, not empty).

    FlatBuffers carries whatever is given, Protobuf the one that counts only.
    """

    def mark(cls: M) -> M:
        setattr(cls, _ONE_OF, names)
        return cls

    return mark


def one_of_fields(cls: type) -> tuple[str, ...]:
    """The names given to `one_of`, () for a class without that mark."""
    return cast("tuple[str, ...]", getattr(cls, _ONE_OF, ()))


# A message is made for every item of a stream, and `list[str]()` takes five times as long as these: it also looks for
# an `__orig_class__` to set.


def no_items() -> list[Any]:
    """Return the default of a list."""
    return []


def no_entries() -> dict[Any, Any]:
    """Return the default of a map."""
    return {}

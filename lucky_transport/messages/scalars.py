"""Scalar types of fixed width, as annotations from which the codecs derive their wire types."""

from __future__ import annotations

from typing import Annotated, TypeVar

__all__ = ["F32", "F64", "I32", "U32", "U64", "is_struct", "struct"]

F32 = Annotated[float, "f32"]
F64 = Annotated[float, "f64"]
I32 = Annotated[int, "i32"]
U32 = Annotated[int, "u32"]
U64 = Annotated[int, "u64"]

M = TypeVar("M", bound=type)

_STRUCT = "__lucky_struct__"


def struct(cls: M) -> M:
    """Mark a message class, all of whose fields are scalars, as a FlatBuffers struct: in place, all fields present.

    A struct's fields can never be changed, not even appended to. Protobuf carries it as an ordinary message.
    """
    setattr(cls, _STRUCT, True)
    return cls


def is_struct(cls: type) -> bool:
    """True for a message class marked with `struct`."""
    return bool(getattr(cls, _STRUCT, False))

"""Scalar types of fixed width, as annotations from which the codecs derive their wire types."""

from __future__ import annotations

from typing import Annotated

__all__ = ["F32", "I32", "U32", "U64"]

F32 = Annotated[float, "f32"]
I32 = Annotated[int, "i32"]
U32 = Annotated[int, "u32"]
U64 = Annotated[int, "u64"]

"""The values of fields that programs get wrong, by kind, and random ones beside them.

Kinds are those of `lucky_transport.messages.fields`, and i64. A field of a service's request gets each of its cases
before anything random, so that no value is left to luck.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Mapping
from random import Random
from typing import Any

#: Bytes of values that are large.
SIZES = (2**16 + 1, 2**20 + 1)


def _of_bits(pattern: int, code: str = "d") -> float:
    """Return the float with these bits: a NaN keeps its payload so."""
    return struct.unpack(f"<{code}", struct.pack("<Q" if code == "d" else "<I", pattern))[0]


#: The number above 2**53 and that above 2**24 are the first that a double and a float lose.
CASES: Mapping[str, tuple[Any, ...]] = {
    "bool": (False, True),
    "i32": (0, 1, -1, 2**31 - 1, -(2**31), 2**24 + 1, 300),
    "u32": (0, 1, 2**32 - 1, 2**31, 2**24 + 1, 300),
    "i64": (0, 1, -1, 2**63 - 1, -(2**63), 2**53 + 1, -(2**53) - 1, 0x123456789ABCDEF1, 2**31),
    "u64": (0, 1, 2**64 - 1, 2**63, 2**53 + 1, 0x123456789ABCDEF1, 2**32),
    "f64": (
        *(0.0, -0.0, 1.5, 0.1, -1e308, math.inf, -math.inf, math.nan, _of_bits(0x7FF8_0000_DEAD_BEEF)),
        *(math.ulp(0.0), -2.5e-310, _of_bits(0x7FEF_FFFF_FFFF_FFFF)),
    ),
    "f32": (
        *(0.0, -0.0, 1.5, _of_bits(0x3DCCCCCD, "f"), math.inf, -math.inf, math.nan, _of_bits(0x7FC12345, "f")),
        *(2.0**-149, -(2.0**-140), _of_bits(0x7F7F_FFFF, "f")),
    ),
    "str": (
        *("", "a", "A", " padded\t", "a\r\nb\n", "e\u0301 \u212b", "\ufb01 \u0130", "\0a\0"),
        *("Zoë 机器人 👾", "\ufeff\u00a0x", "%s%n%41%zz{}\\", '{"a": [1, null]}'),
    ),
    "bytes": (b"", b"\0", b"\xff\xfe", bytes(range(256)), b" a\r\n", b"e\xcc\x81"),
}

#: A bound of the bits, and whether there are numbers below zero.
_WHOLE = {"i32": (32, True), "u32": (32, False), "i64": (64, True), "u64": (64, False)}
_LETTERS = "aAzZ09 _-./\t\u0301éß\u0130Ж中👾\0"


def plain_value(kind: str, number: int) -> Any:
    """Return what a program would send, another value for another number."""
    match kind:
        case "bool":
            return number % 2 == 1
        case "str":
            return f"{'cab'[number % 3]}{number}"
        case "bytes":
            return bytes([number % 256, 1])
        case "f32" | "f64":
            return number + 0.5
        case _:
            return number


def long_value(kind: str, size: int) -> Any:
    """Return text or bytes of that size, in which neighbours differ."""
    whole = bytes(range(1, 128)) * (size // 127 + 1)
    return whole[:size] if kind == "bytes" else whole[:size].decode()


def near_texts(text: str) -> tuple[str, ...]:
    """Return texts that are almost this one."""
    return (text[:-1], text.upper(), f"{text}0", f"{text}\0", text * 500)


def drawn_value(random: Random, kind: str) -> Any:
    """Return any value, of few bits as often as of many."""
    if kind in _WHOLE:
        bits, is_signed = _WHOLE[kind]
        value = random.getrandbits(random.randint(1, bits - is_signed))
        return ~value if is_signed and random.random() < 0.5 else value
    if kind in ("f32", "f64"):
        is_wide = kind == "f64"
        return _of_bits(random.getrandbits(64 if is_wide else 32), "d" if is_wide else "f")
    if kind == "bool":
        return random.random() < 0.5
    most = random.randrange(40)
    return random.randbytes(most) if kind == "bytes" else "".join(random.choices(_LETTERS, k=most))

"""Requests of any message, of this package's classes or protobuf's: those of a table of cases, and random ones.

The table gives each field of a message each of its cases (`CASES`), so that no value is left to luck: unset beside its
default, ends of numbers, large texts and lists, unknown numbers of enums. In a random message each field has what a
program would send, or one of its cases, or any other value. Timestamps and durations stay within what protobuf allows.
Messages share what they hold.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache
from random import Random
from typing import Any, NamedTuple

from lucky_transport.messages.fields import fields_of
from lucky_transport.messages.scalars import one_of_fields
from lucky_transport_migration.catalogue.descriptors import class_of
from lucky_transport_migration.compare.message_fields import is_repeated, kind_of, map_value, name_of

#: Bytes of values that are large.
SIZES = (2**14 + 1, 2**16 + 1, 2**20 + 1)


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
        return _of_bits(random.getrandbits(64)) if kind == "f64" else _of_bits(random.getrandbits(32), "f")
    if kind == "bool":
        return random.random() < 0.5
    most = random.randrange(40)
    return random.randbytes(most) if kind == "bytes" else "".join(random.choices(_LETTERS, k=most))


_DEEPEST = 3
_GROUPS = 4
_MANY = 100


class _Field(NamedTuple):
    """A field of a message. kind, message, numbers: of one item, whose enum has these numbers. key: the kind of a map's
    keys. rivals: the name of those of which one is set.
    """

    name: str
    full_name: str
    kind: str
    shape: str
    message: Any
    numbers: tuple[int, ...] = ()
    rivals: str = ""
    is_closed: bool = False
    is_required: bool = False
    key: str = "str"


@cache
def _fields_of(message: Any) -> Sequence[_Field]:
    if hasattr(message, "DESCRIPTOR"):
        return [_described(field) for field in message.DESCRIPTOR.fields]
    rivals, name = one_of_fields(message), message.__name__
    return [
        _Field(
            *(one.name, f"{name}.{one.name}", one.kind, one.shape, one.message),
            numbers=tuple(one.enum or ()),
            rivals="one" if one.name in rivals else "",
        )
        for one in fields_of(message)
    ]


def _described(field: Any) -> _Field:
    entry = map_value(field)
    item = entry or field
    return _Field(
        *(field.name, item.full_name, kind_of(item), "map" if entry else "list" if is_repeated(field) else "one"),
        item.message_type and class_of(item.message_type),
        numbers=tuple(one.number for one in getattr(item.enum_type, "values", ())),
        rivals=getattr(field.containing_oneof, "name", ""),
        is_closed=getattr(item.enum_type, "is_closed", False),
        is_required=field.is_required if hasattr(field, "is_required") else field.label == field.LABEL_REQUIRED,
        key=kind_of(field.message_type.fields_by_name["key"]) if entry else "",
    )


def _made(kind: Any, values: Mapping[str, Any]) -> Any:
    return kind(**{name: value for name, value in values.items() if value is not None})


def _shaped(field: _Field, items: Sequence[Any], numbers: Iterable[int] = range(2**31)) -> Any:
    """Return the value of a field that has these items; of a map under keys of these numbers."""
    if field.shape == "map":
        return {plain_value(field.key, number): item for number, item in zip(numbers, items, strict=False)}
    return items if field.shape == "list" else items[0]


class RequestTable:
    """The cases of messages. A case is a field's value, None for unset.

    named: the values that a field of this full name often has. fitting: by name, the values that fields of a message
    have together. held: protobuf's messages that an Any holds, beside an empty one.
    """

    def __init__(
        self,
        named: Callable[[str], Sequence[Any]],
        fitting: Callable[[Any, Random], Mapping[str, Any]] = lambda *_: {},
        held: Sequence[Any] = (),
    ) -> None:
        self._named = named
        self._held = held
        self._fitting = fitting
        self._cases = cache(self._cases_of)
        self.together = cache(self._together)

    def _together(self, kind: Any, depth: int = 0) -> list[Any]:
        """Return messages all of whose fields have a case at once, until each had all of its own."""
        if name_of(kind) in WELL_KNOWN:
            return WELL_KNOWN[name_of(kind)](kind, self._held)
        cases = {field.name: self._cases(field, depth) for field in _fields_of(kind)}
        most = max(map(len, cases.values()), default=0)
        return [_made(kind, {name: found[at % len(found)] for name, found in cases.items()}) for at in range(most)]

    def empty(self, kind: Any) -> Any:
        """Return a message with no field but those that it has to have."""
        required = [field for field in _fields_of(kind) if field.is_required]
        return _made(kind, {field.name: self._several(field, (1,), 0) for field in required})

    def plain(self, kind: Any, number: int, depth: int = 0) -> Any:
        """Return a message with a value in each field that a program would send."""
        if name_of(kind) in WELL_KNOWN:
            return self.together(kind)[-1]
        fields = [field for field in _fields_of(kind) if _is_within(field, depth)]
        return _made(kind, {field.name: self._several(field, (number,), depth) for field in fields})

    def extended(self, kind: Any) -> Iterator[Any]:
        """Yield messages of protobuf's with one extension each, of those that are declared where they are."""
        for field in kind.DESCRIPTOR.file.pool.FindAllExtensions(kind.DESCRIPTOR):
            message, value = self.plain(kind, 1), self._several(_described(field), (1,), 0)
            if is_repeated(field):
                message.Extensions[field].extend(value)
            elif field.message_type is not None:
                message.Extensions[field].CopyFrom(value)
            else:
                message.Extensions[field] = value
            yield message

    def large(self, kind: Any) -> Iterator[Any]:
        """Yield messages of protobuf's one of whose fields is large, in all sizes."""
        for at, field in enumerate(_fields_of(kind)):
            for number, value in enumerate(self._large(kind, field, 0)):
                yield self._with(kind, at + number, {field.name: value})

    def in_groups(self, kind: Any) -> Iterator[Any]:
        """Yield messages some of whose fields have a case, no two of one oneof, until each had all of its own."""
        fields = _fields_of(kind)
        groups = max(_GROUPS, len([one for one in fields if one.rivals]))  # those of a oneof follow each other
        for first in range(min(groups, len(fields))):
            cases = [(field.name, self._cases(field, 0)) for field in fields[first::groups]]
            for number in range(max(len(found) for _, found in cases)):
                chosen = {name: found[(at + number) % len(found)] for at, (name, found) in enumerate(cases)}
                yield self._with(kind, first + number, chosen)

    def random(self, kind: Any, random: Random, unusual: float, depth: int = 0) -> Any:
        """Return a message with random fields. unusual: the share of those that have what programs get wrong."""
        if name_of(kind) in WELL_KNOWN:
            return random.choice(self.together(kind))
        fields, fitting = _fields_of(kind), self._fitting(kind, random)
        rivals = [field for field in fields if field.rivals]
        chosen = {field.rivals: field for field in random.sample(rivals, len(rivals))}
        values: dict[str, Any] = {}
        for field in fields:
            if random.random() < unusual:
                values[field.name] = self._unusual(field, random)
            elif field.name in fitting:
                values[field.name] = fitting[field.name]
            elif chosen.get(field.rivals, field) is field and _is_within(field, depth):
                most = 1 if field.shape == "one" else random.randrange(4)
                values[field.name] = _shaped(field, [self._usual(field, random, unusual, depth) for _ in range(most)])
        return _made(kind, values)

    def _unusual(self, field: _Field, random: Random) -> Any:
        """Return a value that programs get wrong: none, any, or one of the cases."""
        way = random.randrange(4)
        if way == 0 and not field.is_required:
            return None
        if way == 1 and field.message is None and not field.numbers:
            return _shaped(field, [drawn_value(random, field.kind) for _ in range(random.randint(1, 4))])
        named = self._named(field.full_name)
        return random.choice([one for one in self._cases(field, 0) if one not in named] or named)

    def _usual(self, field: _Field, random: Random, unusual: float, depth: int) -> Any:
        """Return an item that a program would send, but for unusual fields within."""
        if choice := self._named(field.full_name) or field.numbers:
            return random.choice(choice)
        if field.message is not None:
            return self.random(field.message, random, unusual, depth + 1)
        return plain_value(field.kind, random.randrange(13))

    def _with(self, kind: Any, number: int, chosen: Mapping[str, Any]) -> Any:
        """Return a message with these cases; the other fields are plain in every second one, and else unset."""
        others = [field for field in _fields_of(kind) if field.name not in chosen]
        plain = [one for one in others if number % 2 or one.is_required or self._named(one.full_name)]
        return _made(kind, {**{field.name: self._several(field, (number,), 0) for field in plain}, **chosen})

    def _cases_of(self, field: _Field, depth: int) -> list[Any]:
        """Return the values of a field, small ones."""
        items = self._items(field, depth)
        if field.shape == "one":
            return items if field.is_required else [None, *items]
        each = items if depth == 0 or field.message is None else items[:3]
        if field.shape == "map":
            each = {key: items[at % len(items)] for at, key in enumerate(CASES[field.key])}
        many = [self._several(field, range(_MANY), depth)] if depth == 0 else []
        return [None, each, _shaped(field, items[:1] * 7), self._several(field, (3, 1, 2), depth), *many]

    def _items(self, field: _Field, depth: int) -> list[Any]:
        """Return the cases of one item of a field."""
        named = list(self._named(field.full_name))
        if (kind := field.message) is not None:
            return [*named, self.empty(kind), *(self.together(kind, depth + 1) if depth < _DEEPEST - 1 else ())]
        if field.numbers:
            unknown = () if field.is_closed else (max(field.numbers) + 1, 2**31 - 1, -1)
            return [*named, *field.numbers, *unknown]
        return [*named, *(near_texts(named[-1]) if named and field.kind == "str" else ()), *CASES[field.kind]]

    def _several(self, field: _Field, numbers: Sequence[int], depth: int) -> Any:
        """Return a plain value of a field, with as many items as there are numbers where it takes several."""
        if choice := self._named(field.full_name) or field.numbers:
            items = [choice[number % len(choice)] for number in numbers]
        elif field.message is not None:
            items = [self.plain(field.message, number, depth + 1) for number in numbers]
        else:
            items = [plain_value(field.kind, number) for number in numbers]
        return _shaped(field, items, numbers)

    def _large(self, kind: Any, field: _Field, depth: int) -> Iterator[Any]:
        """Yield values of a field of all sizes; of a message, values in which one of its own fields is large."""
        if field.shape != "one" and field.key != "bool":
            several = self._several(field, range(1000, 1000 + _MANY), depth)
            items = list(several.values()) if field.shape == "map" else several
            size = _made(kind, {field.name: several}).ByteSize() - 8  # a head of its own is in the size
            for times in (wanted // max(size, 1) + 1 for wanted in SIZES):
                yield _shaped(field, items * times, range(1000, 2**31))
        elif field.message is not None:
            inner = _fields_of(field.message) if depth < 1 and name_of(field.message) not in WELL_KNOWN else ()
            for one in inner:
                for value in self._large(field.message, one, depth + 1):
                    yield _shaped(field, [self._with(field.message, 0, {one.name: value})])
        elif field.kind in ("str", "bytes"):
            yield from (_shaped(field, [long_value(field.kind, size)]) for size in SIZES)


def _is_within(field: _Field, depth: int) -> bool:
    """Return whether a message at that depth has the field when it is no case."""
    return field.message is None or depth < _DEEPEST - 1 or field.is_required


_MOMENTS = ((0, 0), (0, 1), (-62_135_596_800, 0), (253_402_300_799, 999_999_999), (-1, 999_999_999), (1, 500_000_000))
_SPANS = ((0, 0), (0, -1), (-315_576_000_000, -999_999_999), (315_576_000_000, 0), (2**31, 1), (1, 500_000_000))


def _timed(kind: Any, ends: Iterable[tuple[int, int]]) -> list[Any]:
    return [kind(seconds=seconds, nanos=nanos) for seconds, nanos in ends]


def _packed(kind: Any, held: Sequence[Any]) -> list[Any]:
    from google.protobuf.empty_pb2 import Empty

    made = [kind() for _ in range(len(held) + 3)]
    for one, message in zip(made[1:], [Empty(), Empty(), *held], strict=True):
        one.Pack(message, deterministic=True)
    made[1].type_url = made[1].type_url.replace("type.googleapis.com", "types.example.com/own")
    return made


#: By name: the cases of a message, of which an Any alone holds others.
WELL_KNOWN: Mapping[str, Callable[[Any, Sequence[Any]], list[Any]]] = {
    "google.protobuf.Timestamp": lambda kind, _: _timed(kind, _MOMENTS),
    "google.protobuf.Duration": lambda kind, _: _timed(kind, _SPANS),
    "google.protobuf.FieldMask": lambda kind, _: [kind(), kind(paths=["b.c", "a"]), kind(paths=["a"])],
    "google.protobuf.Any": _packed,
}

"""Calls of any service, made from the descriptors of its messages: those of a table of cases, then random ones.

The table gives each field of a request each of its cases (`value_cases`): unset beside its default, ends of numbers,
large texts and lists, unknown fields and numbers of enums. First all fields have a case at once, then each large value
stands alone, then the fields have their cases in a few groups, so that a server which refuses one value hides no other.
Metadata, deadlines and the number of requests of a stream go through cases as well. Timestamps and durations stay
within what protobuf allows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import cache
from random import Random
from typing import Any

from lucky_transport.call import Metadata
from lucky_transport_migration.catalogue.descriptors import class_of
from lucky_transport_migration.catalogue.service_method import ServiceMethod
from lucky_transport_migration.compare.message_fields import is_repeated, kind_of, map_value
from lucky_transport_migration.parity.field_values import FieldValues
from lucky_transport_migration.parity.service_call import ServiceCall
from lucky_transport_migration.parity.value_cases import CASES, SIZES, drawn_value, long_value, plain_value

__all__ = ["NOT_DRAWN", "DrawnCalls"]

#: What no run draws, with the reasons.
NOT_DRAWN: Mapping[str, str] = {
    "requests above 1 MiB, messages nested more than three deep, other numbers of closed enums": "none is drawn",
    "calls of different methods at once, and more than two clients": "none are made",
}

_DEEPEST = 3
_GROUPS = 4
_MANY = 100
#: How many requests a stream has.
_STREAMS = (0, 1, 3, 5, _MANY)
_METADATA: tuple[Metadata, ...] = (
    (("lucky-parity", "a"),),
    (("lucky-parity-bin", b"\x00\xff,"),),
    (("lucky-parity", "b"), ("lucky-other", "c"), ("lucky-parity", "a"), ("lucky-parity", "b")),
    (("lucky-parity", ""),),
    (("lucky-parity", "0123456789abcdef" * 200),),
)
#: Coprime in number with the metadata, so that each meets each.
_DEADLINES = ("", "none", "", "short", "", "long", "")


class DrawnCalls:
    """Calls of a method without end, the same ones each time. is_random: the last one was not of the table."""

    def __init__(self, method: ServiceMethod, values: FieldValues, seed: int) -> None:
        self.is_random = False
        self._method = method
        self._table = _Table(values)
        self._seed = f"{seed} {method.name}"

    def __iter__(self) -> Iterator[ServiceCall]:
        random = Random(self._seed)
        self.is_random = False
        for number, messages in enumerate(self._requests(random)):
            metadata = _METADATA[number // 2 % len(_METADATA)] if number % 2 else ()
            leaves = self._method.stream and random.random() < (0.4 if self.is_random else 0.1)
            cancel_after = random.randint(1, 3) if leaves else None
            yield ServiceCall(messages, metadata, cancel_after, deadline=_DEADLINES[number % len(_DEADLINES)])

    def _requests(self, random: Random) -> Iterator[tuple[Any, ...]]:
        """Yield the requests of each call."""
        kind, table, is_stream = self._method.request, self._table, self._method.requests_stream
        if is_stream:
            yield from (tuple(table.plain(kind, at) for at in range(most, 0, -1)) for most in _STREAMS)
        seen: set[int] = set()
        for message in table.messages(kind):
            content = hash(message.SerializeToString(deterministic=True))
            if content not in seen:
                seen.add(content)
                yield (message,)
        self.is_random = True
        while True:
            most = random.randrange(6) if is_stream else 1
            yield tuple(table.random(kind, random) for _ in range(most))


class _Table:
    """The cases of messages. A case of a field is a value that `_put` takes, None for unset."""

    def __init__(self, values: FieldValues) -> None:
        self._values = values
        self._made: dict[tuple[str, int], list[Any]] = {}
        self._cases = cache(self._cases_of)

    def messages(self, kind: Any) -> Iterator[Any]:
        """Yield the requests of the table; several may be equal."""
        fields = list(kind.DESCRIPTOR.fields)
        yield self.empty(kind)
        yield from self.together(kind)
        if kind.DESCRIPTOR.full_name in _WELL_KNOWN:
            return
        for number in range(4):
            message = self.plain(kind, number + 1)
            message.MergeFromString(_unknown(kind.DESCRIPTOR, number))
            yield message
        for at, field in enumerate(fields):
            for number, value in enumerate(self._large(field, 0)):
                yield self._with(kind, at + number, {field: value})
        for first in range(min(_GROUPS, len(fields))):
            cases = {field: self._cases(field, 0) for field in fields[first::_GROUPS]}
            for number in range(max(map(len, cases.values()))):
                chosen = {one: found[(at + number) % len(found)] for at, (one, found) in enumerate(cases.items())}
                yield self._with(kind, first + number, chosen)

    def together(self, kind: Any, depth: int = 0) -> list[Any]:
        """Return messages all of whose fields have a case at once, until each had all of its own."""
        key = kind.DESCRIPTOR.full_name, depth
        if key[0] in _WELL_KNOWN:
            return _WELL_KNOWN[key[0]](kind)
        if key not in self._made:
            cases = {field: self._cases(field, depth) for field in kind.DESCRIPTOR.fields}
            found = self._made[key] = []
            for number in range(max(map(len, cases.values()), default=0)):
                message = kind()
                for field, of_field in cases.items():
                    _put(message, field, of_field[number % len(of_field)])
                found.append(message)
        return self._made[key]

    def empty(self, kind: Any) -> Any:
        """Return a message with no field but those that it has to have."""
        message = kind()
        for field in filter(_is_required, kind.DESCRIPTOR.fields):
            _put(message, field, self._several(field, (1,), 0))
        return message

    def plain(self, kind: Any, number: int, depth: int = 0) -> Any:
        """Return a message with a value in each field that a program would send."""
        if kind.DESCRIPTOR.full_name in _WELL_KNOWN:
            return self.together(kind)[-1]
        message = kind()
        for field in kind.DESCRIPTOR.fields:
            if field.message_type is None or depth < _DEEPEST - 1 or _is_required(field):
                _put(message, field, self._several(field, (number,), depth))
        return message

    def random(self, kind: Any, random: Random) -> Any:
        """Return a message whose fields are random; those that are messages or maps have a random case."""
        if kind.DESCRIPTOR.full_name in _WELL_KNOWN:
            return random.choice(self.together(kind))
        message = kind()
        chosen = [random.choice((None, *one.fields)) for one in kind.DESCRIPTOR.oneofs]
        for field in kind.DESCRIPTOR.fields:
            is_set = field in chosen if field.containing_oneof else random.random() < 0.7
            if not (is_set or _is_required(field)):
                continue
            if field.message_type is None:
                _put(message, field, [self._random_item(field, random) for _ in range(random.randint(1, 4))])
            else:
                _put(message, field, random.choice(self._cases(field, 0)))
        return message

    def _random_item(self, field: Any, random: Random) -> Any:
        if (named := self._values.named(field)) and random.random() < 0.75:
            return random.choice(named)
        if field.enum_type is not None and (field.enum_type.is_closed or random.random() < 0.7):
            return random.choice(field.enum_type.values).number
        return drawn_value(random, kind_of(field))

    def _with(self, kind: Any, number: int, chosen: Mapping[Any, Any]) -> Any:
        """Return a message with these cases; the other fields are plain in every second one, and else unset."""
        message = self.plain(kind, number) if number % 2 else self.empty(kind)
        for field in kind.DESCRIPTOR.fields:
            if field in chosen:
                message.ClearField(field.name)
                _put(message, field, chosen[field])
            elif number % 2 == 0 and self._values.named(field):
                _put(message, field, self._several(field, (number,), 0))
        return message

    def _cases_of(self, field: Any, depth: int) -> list[Any]:
        """Return the values of a field, small ones."""
        items = self._items(_item(field), depth)
        unset = [] if _is_required(field) else [None]
        if not is_repeated(field):
            return unset + [[one] for one in items]
        if _key(field):
            keys = CASES[_key(field)]
            each: Any = {key: items[at % len(items)] for at, key in enumerate(keys)}
        else:
            each = items if depth == 0 or field.message_type is None else items[:3]
        few = self._several(field, (3, 1, 2), depth)
        return [None, each, few, self._several(field, range(_MANY), depth)] if depth == 0 else [None, each, few]

    def _items(self, field: Any, depth: int) -> list[Any]:
        """Return the cases of one item of a field."""
        if field.message_type is not None:
            kind = class_of(field.message_type)
            return [self.empty(kind), *(self.together(kind, depth + 1) if depth < _DEEPEST - 1 else ())]
        found = list(self._values.named(field))
        if field.enum_type is not None:
            found += [one.number for one in field.enum_type.values]
            return found if field.enum_type.is_closed else [*found, max(found) + 1, 2**31 - 1, -1]
        return found + list(CASES[kind_of(field)])

    def _several(self, field: Any, numbers: Any, depth: int) -> Any:
        """Return plain values of a field, as many as there are numbers where it takes several."""
        item = _item(field)
        if item.message_type is not None:
            kind = class_of(item.message_type)
            values = [self.plain(kind, one, depth + 1) for one in numbers]
        else:
            choice = self._values.named(item) or [one.number for one in getattr(item.enum_type, "values", ())]
            values = [choice[one % len(choice)] if choice else plain_value(kind_of(item), one) for one in numbers]
        if not _key(field):
            return values
        return {plain_value(_key(field), one): value for one, value in zip(numbers, values, strict=True)}

    def _large(self, field: Any, depth: int) -> Iterator[Any]:
        """Yield values of a field of all sizes; of a message, values in which one of its own fields is large."""
        item = _item(field)
        if is_repeated(field) and _key(field) != "bool":
            made, several = class_of(field.containing_type)(), self._several(field, range(1000, 1000 + _MANY), depth)
            _put(made, field, several)
            for size in SIZES:
                times = size // max(made.ByteSize() - 8, 1) + 1  # a head of its own is in the size
                if isinstance(several, list):
                    yield several * times
                else:
                    values, key = list(several.values()), _key(field)
                    yield {plain_value(key, at): values[at % _MANY] for at in range(1000, 1000 + _MANY * times)}
        elif item.message_type is not None:
            kind = class_of(item.message_type)
            for inner in kind.DESCRIPTOR.fields if depth < 1 and kind.DESCRIPTOR.full_name not in _WELL_KNOWN else ():
                for value in self._large(inner, depth + 1):
                    message = self.empty(kind)
                    message.ClearField(inner.name)
                    _put(message, inner, value)
                    yield [message]
        elif kind_of(item) in ("str", "bytes"):
            yield from ([long_value(kind_of(item), size)] for size in SIZES)


def _put(message: Any, field: Any, value: Any) -> None:
    """Give a field its values: None for none, a list of one where it takes one, a mapping where it is a map."""
    if value is None:
        return
    held = getattr(message, field.name)
    if isinstance(value, Mapping):
        if _item(field).message_type is None:
            held.update(value)
        else:
            for key, one in value.items():
                held[key].CopyFrom(one)
    elif is_repeated(field):
        held.extend(value)
    elif field.message_type is None:
        setattr(message, field.name, value[0])
    else:
        held.SetInParent()
        held.CopyFrom(value[0])


def _unknown(descriptor: Any, number: int) -> bytes:
    """Return a field that a newer client has, of the wire type that comes next: a number, 64 bits, bytes, 32 bits."""
    taken = max((one.number for one in descriptor.fields), default=0)
    tag = min(taken + 1000, 2**29 - 1) << 3 | (0, 1, 2, 5)[number]
    head = bytearray()
    while tag > 127:
        head.append(tag & 127 | 128)
        tag >>= 7
    return bytes([*head, tag]) + (b"\x07", bytes(range(8)), b"\x03new", b"\x01\x02\x03\x04")[number]


def _item(field: Any) -> Any:
    """Return what describes one value of a field: of a map, its entry's."""
    return map_value(field) or field


def _key(field: Any) -> str:
    """Return the kind of the keys of a map, "" for a field that is none."""
    return kind_of(field.message_type.fields_by_name["key"]) if map_value(field) else ""


def _is_required(field: Any) -> bool:
    return field.is_required if hasattr(field, "is_required") else field.label == field.LABEL_REQUIRED


def _moments(kind: Any) -> list[Any]:
    ends = ((0, 0), (0, 1), (-62_135_596_800, 0), (253_402_300_799, 999_999_999), (-1, 999_999_999), (1, 500_000_000))
    return [kind(seconds=seconds, nanos=nanos) for seconds, nanos in ends]


def _spans(kind: Any) -> list[Any]:
    ends = ((0, 0), (0, -1), (-315_576_000_000, -999_999_999), (315_576_000_000, 0), (2**31, 1), (1, 500_000_000))
    return [kind(seconds=seconds, nanos=nanos) for seconds, nanos in ends]


def _anything(kind: Any) -> list[Any]:
    from google.protobuf.empty_pb2 import Empty

    made = kind()
    made.Pack(Empty())
    return [kind(), made]


_WELL_KNOWN: Mapping[str, Callable[[Any], list[Any]]] = {
    "google.protobuf.Timestamp": _moments,
    "google.protobuf.Duration": _spans,
    "google.protobuf.FieldMask": lambda kind: [kind(), kind(paths=["b.c", "a"]), kind(paths=["a"])],
    "google.protobuf.Any": _anything,
}

"""Calls of any service, drawn by hypothesis from the descriptors of its messages.

Fields of every kind are drawn: their ends, NaN and infinities, empty and long text, enums with numbers that the .proto
does not name, optional fields that are absent or have their default, at most one field of a oneof, lists, maps, and
messages in messages to a bound. Timestamps and durations stay within what protobuf allows.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from hypothesis import strategies as st
from hypothesis.strategies import DrawFn

from lucky_transport_migration.catalogue.service_method import ServiceMethod
from lucky_transport_migration.parity.field_values import FieldValues
from lucky_transport_migration.parity.service_call import ServiceCall

__all__ = ["calls"]

_DEEPEST = 3
_MOST_ITEMS = 3
_MOST_MESSAGES = 4
_LONG = 5000


@st.composite
def calls(draw: DrawFn, method: ServiceMethod, values: FieldValues | None = None) -> ServiceCall:
    """Return the strategy of calls of a method, whose messages are known. values: what fields often have, checked."""
    filler = _Filler(draw, values or FieldValues())
    count = draw(st.integers(0, _MOST_MESSAGES)) if method.requests_stream else 1
    messages = tuple(filler.message(method.request) for _ in range(count))
    metadata = draw(st.sampled_from(((), (("lucky-parity", "a"),))))
    cancel_after = draw(st.one_of(st.none(), st.integers(1, _MOST_ITEMS))) if method.stream else None
    return ServiceCall(messages, metadata, cancel_after)


class _Filler:
    """Gives the fields of messages values; `draw` is that of a composite strategy of hypothesis."""

    def __init__(self, draw: DrawFn, values: FieldValues) -> None:
        self._draw = draw
        self._values = values

    def message(self, kind: Any) -> Any:
        """Return a message of that class."""
        made = kind()
        self._fill(made, 0)
        return made

    def _fill(self, message: Any, depth: int) -> None:
        known = _WELL_KNOWN.get(message.DESCRIPTOR.full_name)
        if known is not None:
            known(self._draw, message)
            return
        for oneof in message.DESCRIPTOR.oneofs:
            chosen = self._draw(st.sampled_from((None, *oneof.fields)))
            if chosen is not None:
                self._fill_field(message, chosen, depth)
        for field in message.DESCRIPTOR.fields:
            if field.containing_oneof is None and (_is_required(field) or self._draw(_IS_SET)):
                self._fill_field(message, field, depth)

    def _fill_field(self, message: Any, field: Any, depth: int) -> None:
        is_message = field.message_type is not None
        if is_message and depth >= _DEEPEST and not _is_required(field):
            return
        if not _is_repeated(field):
            if is_message:
                getattr(message, field.name).SetInParent()
                self._fill(getattr(message, field.name), depth + 1)
            else:
                setattr(message, field.name, self._value(field))
            return
        held = getattr(message, field.name)
        for _ in range(self._draw(st.integers(1, _MOST_ITEMS))):
            if is_message and field.message_type.GetOptions().map_entry:
                key, value = (field.message_type.fields_by_name[name] for name in ("key", "value"))
                at = self._value(key)
                if value.message_type is None:
                    held[at] = self._value(value)
                else:
                    self._fill(held[at], depth + 1)
            elif is_message:
                self._fill(held.add(), depth + 1)
            else:
                held.append(self._value(field))

    def _value(self, field: Any) -> Any:
        named = self._values.strategy(field)
        return self._draw(named if named is not None and self._draw(_IS_NAMED) else _scalar(field))


def _scalar(field: Any) -> st.SearchStrategy[Any]:
    if field.enum_type is not None:
        named = st.sampled_from([one.number for one in field.enum_type.values])
        return named if field.enum_type.is_closed else st.one_of(named, _I32)
    return _BYTES if field.type == field.TYPE_BYTES else _SCALARS[field.cpp_type]


def _is_repeated(field: Any) -> bool:
    return field.is_repeated if hasattr(field, "is_repeated") else field.label == field.LABEL_REPEATED


def _is_required(field: Any) -> bool:
    return field.is_required if hasattr(field, "is_required") else field.label == field.LABEL_REQUIRED


def _whole(bits: int, signed: bool) -> st.SearchStrategy[int]:
    low, high = (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1) if signed else (0, 2**bits - 1)
    small = st.integers(max(low, -3), 12)  # counts, sizes and indices are, and others are mostly refused
    return st.one_of(small, small, small, st.integers(low, high), st.sampled_from((low, high)))


_IS_SET = st.sampled_from((False, True, True))
_IS_NAMED = st.sampled_from((True, True, True, False))
_I32 = _whole(32, True)
_UNUSUAL = st.sampled_from((float("nan"), float("inf"), float("-inf"), -0.0))
_TEXT = st.one_of(st.text(st.characters(codec="utf-8"), max_size=12), st.sampled_from(("", "x" * _LONG)))
_BYTES = st.one_of(st.binary(max_size=12), st.just(bytes(_LONG)))

#: By protobuf's C++ type of a field.
_SCALARS: Mapping[int, st.SearchStrategy[Any]] = {
    1: _I32,
    2: _whole(64, True),
    3: _whole(32, False),
    4: _whole(64, False),
    5: st.one_of(st.floats(), _UNUSUAL),
    6: st.one_of(st.floats(width=32), _UNUSUAL),
    7: st.booleans(),
    9: _TEXT,
}


def _moment(draw: DrawFn, message: Any) -> None:
    message.seconds = draw(st.integers(-62_135_596_800, 253_402_300_799))
    message.nanos = draw(st.integers(0, 999_999_999))


def _span(draw: DrawFn, message: Any) -> None:
    seconds = draw(st.integers(-315_576_000_000, 315_576_000_000))
    message.seconds, message.nanos = seconds, draw(st.integers(0, 999_999_999)) * (-1 if seconds < 0 else 1)


def _paths(draw: DrawFn, message: Any) -> None:
    message.paths.extend(draw(st.lists(st.from_regex(r"[a-z]{1,8}(\.[a-z]{1,8})?", fullmatch=True), max_size=3)))


def _any(draw: DrawFn, message: Any) -> None:
    from google.protobuf.empty_pb2 import Empty

    message.Pack(Empty())


_WELL_KNOWN: Mapping[str, Callable[[DrawFn, Any], None]] = {
    "google.protobuf.Timestamp": _moment,
    "google.protobuf.Duration": _span,
    "google.protobuf.FieldMask": _paths,
    "google.protobuf.Any": _any,
}

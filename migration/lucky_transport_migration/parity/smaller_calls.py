"""Calls that are a little simpler than a given one: how a difference is narrowed down to the call that shows it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from lucky_transport_migration.parity.service_call import ServiceCall

#: Of what is this short each part is left out, of what is longer one half or the other.
_SHORT = 8


def smaller(call: ServiceCall, *, requests_stream: bool) -> Iterator[ServiceCall]:
    """Yield calls that lack something of this one, the most first. requests_stream: it may have any number of them."""
    if requests_stream:
        yield from (replace(call, messages=tuple(few)) for few in _fewer(call.messages))
    for plain in ({"metadata": ()}, {"deadline": ""}, {"cancel_after": None}):
        if replace(call, **plain) != call:
            yield replace(call, **plain)
    for at, message in enumerate(call.messages[:_SHORT]):
        for one in _smaller_messages(message):
            yield replace(call, messages=(*call.messages[:at], one, *call.messages[at + 1 :]))


def _fewer(whole: Any) -> Iterator[Any]:
    """Yield parts of a text, bytes or list."""
    half = len(whole) // 2
    if len(whole) > 1:
        yield from (whole[:half], whole[half:])
    if len(whole) <= _SHORT:
        yield from (whole[:at] + whole[at + 1 :] for at in range(len(whole)))


def _smaller_messages(message: Any) -> Iterator[Any]:
    for one in _candidates(message):
        if one.IsInitialized() and one != message:
            yield one


def _candidates(message: Any) -> Iterator[Any]:
    kind = type(message)
    yield kind()
    known = kind.FromString(message.SerializePartialToString())
    known.DiscardUnknownFields()
    yield known
    fields = message.ListFields()
    for field, part in [*((field, None) for field, _ in fields), *(each for one in fields for each in _parts(*one))]:
        made = kind()
        made.CopyFrom(message)
        made.ClearField(field.name)
        made.MergeFrom(kind(**{field.name: part}))
        yield made


def _parts(field: Any, value: Any) -> Iterator[tuple[Any, Any]]:
    """Yield smaller values of a field, each beside the field."""
    if hasattr(value, "items") and field.message_type is not None:  # a map
        parts = map(dict, _fewer(list(value.items())))
    elif isinstance(value, (str, bytes)) or hasattr(value, "extend"):
        parts = _fewer(value if isinstance(value, (str, bytes)) else list(value))
    else:
        parts = _smaller_messages(value) if field.message_type is not None else ()
    return ((field, part) for part in parts)

"""Calls that are a little simpler than a given one: how a difference is narrowed down to the call that shows it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from lucky_transport_migration.parity.service_call import ServiceCall

__all__ = ["smaller"]

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
    def changed(field: Any) -> Any:
        made = type(message)()
        made.CopyFrom(message)
        made.ClearField(field.name)
        return made

    yield type(message)()
    known = type(message)()
    known.CopyFrom(message)
    known.DiscardUnknownFields()
    yield known
    fields = message.ListFields()
    yield from (changed(field) for field, _ in fields)
    for field, value in fields:
        if field.message_type is not None and hasattr(value, "items"):  # a map
            for few in _fewer(list(value)):
                made = changed(field)
                held = getattr(made, field.name)
                for key in few:
                    held[key].CopyFrom(value[key]) if hasattr(value[key], "CopyFrom") else held.update(
                        {key: value[key]}
                    )
                yield made
        elif hasattr(value, "extend"):
            for few in _fewer(list(value)):
                getattr(made := changed(field), field.name).extend(few)
                yield made
        elif field.message_type is not None:
            for one in _smaller_messages(value):
                getattr(made := changed(field), field.name).CopyFrom(one)
                yield made
        elif isinstance(value, (str, bytes)):
            for part in _fewer(value):
                setattr(made := changed(field), field.name, part)
                yield made

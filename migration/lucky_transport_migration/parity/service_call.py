"""One call of any service, drawn or recorded, and the calls a little simpler by which a difference is narrowed down."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from lucky_transport.call import Metadata
from lucky_transport.routing import ChannelOptions
from lucky_transport_migration.compare.difference import short


@dataclass(frozen=True, slots=True)
class ServiceCall:
    """One call. messages: its requests. cancel_after: so many responses, None = it is read to its end. is_late: its
    deadline is over when it is made. timeout_s: seconds that it has, None = as all have. without, answered, channel: as
    in `CallOptions`. deadline: "none", "long" or "short" in place of seconds, of which a short one leaves enough time
    for what the server has answered so far. ahead, ends: as in `ServiceCaller.ask`.
    """

    messages: tuple[Any, ...]
    metadata: Metadata = ()
    cancel_after: int | None = None
    is_late: bool = False
    timeout_s: float | None = None
    without: tuple[str, ...] = ()
    answered: str = ""
    deadline: str = ""
    ahead: int = 0
    ends: str = ""
    channel: ChannelOptions = ()

    @property
    def requests(self) -> list[bytes]:
        """The requests as bytes, the same ones for the same call."""
        return [one.SerializeToString(deterministic=True) for one in self.messages]

    @property
    def text(self) -> str:
        """The call as one line for people."""
        from google.protobuf.text_format import MessageToString

        shown = ", ".join(f"{{{MessageToString(one, as_one_line=True)}}}" for one in self.messages)
        parts = [f"requests [{shown}]" if len(self.messages) != 1 else f"request {shown}"]
        pairs = dict(self.metadata) if len(dict(self.metadata)) == len(self.metadata) else list(self.metadata)
        parts += [f"metadata {pairs}"] if pairs else []
        parts += [] if self.cancel_after is None else [f"cancelled after {self.cancel_after} responses"]
        parts += [f"each request {self.ahead} ahead of the items"] if self.ahead else []
        parts += ["a deadline that is over"] * self.is_late
        parts += [] if self.timeout_s is None else [f"a deadline of {self.timeout_s:g} s"]
        parts += [f"{'no' if self.deadline == 'none' else f'a {self.deadline}'} deadline"] if self.deadline else []
        return short(", ".join(parts))


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
    yield from (one for one in _candidates(message) if one.IsInitialized() and one != message)


def _candidates(message: Any) -> Iterator[Any]:
    kind = type(message)
    yield kind()
    known = kind.FromString(message.SerializePartialToString())
    known.DiscardUnknownFields()
    yield known
    fields = [one for one in message.ListFields() if not one[0].is_extension]
    for field, part in [*((field, None) for field, _ in fields), *(each for one in fields for each in _parts(*one))]:
        made = kind()
        made.CopyFrom(message)
        made.ClearField(field.name)
        made.MergeFrom(kind(**{field.name: part}))
        yield made


def _parts(field: Any, value: Any) -> Iterator[tuple[Any, Any]]:
    """Yield smaller values of a field, each beside the field."""
    if hasattr(value, "ListFields"):  # a message, also one that looks like a map or a list: Struct, ListValue
        parts = _smaller_messages(value)
    elif hasattr(value, "items"):  # a map
        parts = map(dict, _fewer(list(value.items())))
    else:
        parts = _fewer(value if isinstance(value, (str, bytes)) else list(value)) if hasattr(value, "__len__") else ()
    return ((field, part) for part in parts)

"""From the arguments of a call to its request message, and the signature and docstring of a method's function.

    client.scene.list_entities(include_transforms=True)     keywords are the request's fields
    client.agent.get_schema("agent_1")                      the first field may stand alone
    client.camera.stream("front", fps=30)                   of an id and a name: text is the name, a number the id
    client.camera.stream(StreamCameraRequest(...))          or the whole request, alone

Arguments that make no request raise TypeError or ValueError before anything is sent, with the names of the method, the
field and the known fields.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from dataclasses import MISSING, fields, is_dataclass
from typing import Any

from lucky_transport.errors import did_you_mean
from lucky_transport.messages import EntityId
from lucky_transport.messages.fields import Field, fields_of
from lucky_transport.messages.images import holds_images
from lucky_transport.messages.methods import Method
from lucky_transport.messages.scalars import one_of_fields
from lucky_transport.messages.values import Convert, EncodeError, converter

#: The fields of which one says what a request is about.
IDENTIFIER = ("id", "name")

_ALIASES = {"fps": "target_fps"}
#: `timeout_s` is the deadline of the call, so a request's own field of that name has another keyword.
_RENAMED = {"timeout_s": "engine_timeout_s"}

_POSITIONAL, _KEYWORD = inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.KEYWORD_ONLY


def keyword_of(field: Field) -> str:
    """Return the keyword under which a field of a request is given."""
    return _RENAMED.get(field.name, field.name)


class Arguments:
    """How one method is called. `label` is what errors call it, "camera.stream".

    fields: of the request, by keyword. aliases: further keywords -> the field's. has_identifier: one of id and name
    must be given. first: the keyword that the positional argument stands for, "" for none.
    """

    def __init__(self, label: str, method: Method) -> None:
        self.label = label
        self.request: type[Any] = method.request
        self.fields = {keyword_of(field): field for field in fields_of(method.request)}
        self.aliases = {alias: name for alias, name in _ALIASES.items() if name in self.fields}
        self.has_identifier = one_of_fields(method.request) == IDENTIFIER
        self.first = "" if self.has_identifier else next(iter(self.fields), "")
        self._parameters: dict[str, tuple[str, Convert]] = {
            keyword: (field.name, converter(field)) for keyword, field in self.fields.items()
        }
        self._parameters |= {alias: self._parameters[name] for alias, name in self.aliases.items()}
        # most calls give only the field that may stand alone: its converter
        self._lone = self._parameters[self.first][1] if self.first else None

    def build(self, given: tuple[Any, ...], keywords: Mapping[str, Any]) -> Any:
        """Return the request; raises TypeError and ValueError."""
        if len(given) == 1 and not keywords and self._lone and not isinstance(given[0], self.request):
            try:
                return self.request(self._lone(given[0]))
            except EncodeError as error:
                raise error.within(f"{self.label}: {self.first}") from None
        if given:
            first, *others = given
            if isinstance(first, self.request):
                return self._ready(first, others, keywords)
            keywords = self._with_first(first, others, keywords)
        values: dict[str, Any] = {}
        for keyword, value in keywords.items():
            parameter = self._parameters.get(keyword)
            if parameter is None:
                raise self._unknown(keyword)
            name, convert = parameter
            if name in values:
                raise TypeError(f"{self.label}: {keyword!r} and {self._other(keyword)!r} are the same; give one")
            try:
                values[name] = convert(value)
            except EncodeError as error:
                raise error.within(f"{self.label}: {keyword}") from None
        if self.has_identifier and ("id" in values) == ("name" in values):
            raise TypeError(f"{self.label}: expected a name or an id, got {'both' if 'id' in values else 'neither'}")
        return self.request(**values)

    def _ready(self, request: Any, others: Sequence[Any], keywords: Mapping[str, Any]) -> Any:
        if others or keywords:
            surplus = ", ".join([*(repr(one) for one in others), *keywords])
            raise TypeError(f"{self.label}: a whole {self.request.__name__} stands alone; drop {surplus}")
        return request

    def _with_first(self, first: Any, others: Sequence[Any], keywords: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return the keywords with the positional argument among them."""
        if not self.first and not self.has_identifier:
            raise TypeError(f"{self.label} takes no arguments but timeout_s, got {first!r}")
        if others:
            raise TypeError(f"{self.label} takes one argument by position, got {1 + len(others)}; {self._listed()}")
        keyword = self._identify(first) if self.has_identifier else self.first
        if keyword in keywords:
            raise TypeError(f"{self.label}: {keyword!r} is given twice, by position and by keyword")
        return {keyword: first, **keywords}

    def _identify(self, value: Any) -> str:
        if isinstance(value, str):
            return "name"
        if isinstance(value, EntityId) or (hasattr(value, "__index__") and not isinstance(value, bool)):
            return "id"
        raise TypeError(f"{self.label}: expected a name or an id, got {value!r}")

    def _other(self, keyword: str) -> str:
        pairs = self.aliases | {name: alias for alias, name in self.aliases.items()}
        return pairs[keyword]

    def _unknown(self, keyword: str) -> TypeError:
        guess = did_you_mean(keyword, [*self._parameters, "timeout_s"])
        return TypeError(f"{self.label} has no field {keyword!r}; {guess}{self._listed()}")

    def _listed(self) -> str:
        names = [f"{name} (or {alias})" if alias else name for name, alias in self._with_aliases()]
        return f"fields: {', '.join(names)}" if names else "it has none but timeout_s"

    def _with_aliases(self) -> list[tuple[str, str]]:
        back = {name: alias for alias, name in self.aliases.items()}
        return [(name, back.get(name, "")) for name in self.fields]


class _Shown:
    """A default or annotation that shows as its text."""

    def __init__(self, text: str) -> None:
        self._text = text

    def __repr__(self) -> str:
        return self._text


def takes_copy(method: Method) -> bool:
    """True for a stream of images: its caller may ask for views of them, `copy=False`."""
    return method.stream is not None and holds_images(method.response)


def summary(message: type) -> str:
    """Return the first paragraph of a message class's docstring, on one line."""
    return " ".join((inspect.getdoc(message) or "").partition("\n\n")[0].split())


def docstring(method: Method) -> str:
    """Return the docstring of the method's function."""
    parts = [inspect.getdoc(method.request) or ""]
    gives = "Yields" if method.stream is not None else "Returns"
    if is_dataclass(method.response):
        names = ", ".join(field.name for field in fields(method.response))
        parts.append(f"{gives} {method.response.__name__}({names}): {summary(method.response)}")
    if takes_copy(method):
        parts.append("With copy=False images in shared memory are views, valid until the next item is asked for.")
    parts.append(f"This is {method.name[1:]}.")
    return "\n\n".join(part for part in parts if part)


def default_text(request: type[Any], field: Field) -> str:
    """Return the default of a request's field as source text, "..." where it is not a plain value."""
    (found,) = (one for one in fields(request) if one.name == field.name)
    if field.enum is not None:
        return f'"{field.enum(found.default).name.lower()}"'
    if found.default is MISSING:
        return {"list": "()", "map": "{}"}.get(field.shape, "...")
    if isinstance(found.default, str | bytes):  # both are empty wherever they are a default
        return f'{"b" if field.kind == "bytes" else ""}""'
    return repr(found.default)


def signature(method: Method, *, bound: bool = False) -> inspect.Signature:
    """Return what the method's function takes; with `bound` without self, as at a prompt."""
    arguments = Arguments("", method)
    parameters = [] if bound else [inspect.Parameter("self", _POSITIONAL)]
    if arguments.has_identifier:
        parameters.append(inspect.Parameter("name_or_id", _POSITIONAL))
    for keyword, field in arguments.fields.items():
        if arguments.has_identifier and keyword in ("id", "name"):
            continue
        kind = inspect.Parameter.POSITIONAL_OR_KEYWORD if keyword == arguments.first else _KEYWORD
        alias = next((short for short, name in arguments.aliases.items() if name == keyword), keyword)
        default = default_text(arguments.request, field)
        parameters.append(inspect.Parameter(alias, kind, default=_Shown(default)))
    parameters.append(inspect.Parameter("timeout_s", _KEYWORD, default=None))
    if takes_copy(method):
        parameters.append(inspect.Parameter("copy", _KEYWORD, default=True))
    gives = method.response.__name__
    text = gives if method.stream is None else f"stream of {gives}"
    return inspect.Signature(parameters, return_annotation=_Shown(text))

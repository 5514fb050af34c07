"""What `help`, an editor and a prompt show of a method: its signature and its docstring.

Rule 1: everything comes from the method's row and its two message classes.
"""

from __future__ import annotations

import inspect
from dataclasses import MISSING, fields, is_dataclass
from typing import Any

from lucky_transport.client.arguments import Arguments
from lucky_transport.messages.fields import Field
from lucky_transport.messages.images import holds_images
from lucky_transport.messages.methods import Method

__all__ = ["default_text", "docstring", "signature", "summary", "takes_copy"]

_POSITIONAL, _KEYWORD = inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.KEYWORD_ONLY


class _Shown:
    """A default or annotation that shows as its text."""

    def __init__(self, text: str) -> None:
        self._text = text

    def __repr__(self) -> str:
        return self._text


def takes_copy(method: Method) -> bool:
    """True for a stream of pictures: its caller may ask for views of them, `copy=False`."""
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
        parts.append("With copy=False pictures in shared memory are views, valid until the next item is asked for.")
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

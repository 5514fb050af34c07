"""Command-line values that more than one command takes: lists of names and of numbers, JSON options.

A wrong value names the part that is wrong and shows a right one.
"""

from __future__ import annotations

from typing import Any, cast

import click

from lucky_transport.cli.serve import options_of

__all__ = ["JSON_OBJECT", "NAMES", "NUMBERS", "choices"]


class _Names(click.ParamType):
    """A text like grpc,shm becomes ("grpc", "shm")."""

    name = "names"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[str, ...]:
        if isinstance(value, tuple):
            return cast("tuple[str, ...]", value)
        names = tuple(part.strip() for part in str(value).split(","))
        if not all(names):
            self.fail(f"{value!r} has an empty name; write for instance grpc,shm", param, ctx)
        twice = next((name for name in names if names.count(name) > 1), None)
        if twice is not None:
            self.fail(f"{value!r} names {twice!r} twice", param, ctx)
        return names


class _Choices(_Names):
    """As names, but only those of a fixed set."""

    def __init__(self, known: tuple[str, ...]) -> None:
        self._known = known

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[str, ...]:
        names = super().convert(value, param, ctx)
        for name in names:
            if name not in self._known:
                self.fail(f"{name!r} is not one of {', '.join(self._known)}", param, ctx)
        return names


class _Numbers(click.ParamType):
    """A text like 1,64 becomes (1, 64): whole numbers from 1."""

    name = "numbers"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[int, ...]:
        if isinstance(value, tuple):
            return cast("tuple[int, ...]", value)
        numbers: list[int] = []
        for part in str(value).split(","):
            text = part.strip()
            if not text.isdecimal() or int(text) < 1:
                self.fail(f"{text!r} in {value!r} is no whole number from 1; write for instance 1,64,4096", param, ctx)
            if int(text) in numbers:
                self.fail(f"{value!r} names {text} twice", param, ctx)
            numbers.append(int(text))
        return tuple(numbers)


class _JsonObject(click.ParamType):
    """A JSON object becomes a dict."""

    name = "json"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> dict[str, Any]:
        return cast("dict[str, Any]", value) if isinstance(value, dict) else options_of(value)


NAMES = _Names()
NUMBERS = _Numbers()
JSON_OBJECT = _JsonObject()


def choices(*known: str) -> click.ParamType:
    """Return the type of a comma-separated list of some of `known`."""
    return _Choices(known)

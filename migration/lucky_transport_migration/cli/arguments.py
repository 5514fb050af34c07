"""What more than one command takes: lists of names and numbers, JSON, methods, metadata, a folder of evidence.

A wrong value names the part that is wrong and shows a right one.
"""

from __future__ import annotations

import re
from base64 import b64decode
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Any, cast

import click
from click.shell_completion import CompletionItem

from lucky_transport.cli.serve import options_of
from lucky_transport.errors import TransportError

#: A key of metadata that is not gRPC's or HTTP/2's own.
_KEY = re.compile(r"(?!grpc-)(?!(te|content-type|user-agent)$)[a-z0-9_.-]+")


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
                wanted = "no whole number from 1; write for instance 1,64,4096"
                self.fail(f"{text!r} in {value!r} is {wanted}", param, ctx)
            if int(text) in numbers:
                self.fail(f"{value!r} names {text} twice", param, ctx)
            numbers.append(int(text))
        return tuple(numbers)


class _JsonObject(click.ParamType):
    """A JSON object becomes a dict."""

    name = "json"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> dict[str, Any]:
        return cast("dict[str, Any]", value) if isinstance(value, dict) else options_of(value)


class _Metadata(click.ParamType):
    """KEY=VALUE, KEY=@FILE or KEY=$VARIABLE becomes the key and its value. No error shows a value."""

    name = "metadata"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[str, str | bytes]:
        if isinstance(value, tuple):
            return cast("tuple[str, str | bytes]", value)
        key, sign, text = str(value).partition("=")
        if not sign:
            self.fail("write KEY=VALUE, KEY=@FILE or KEY=$VARIABLE, e.g. 'authorization=$TOKEN'", param, ctx)
        if not _KEY.fullmatch(key):
            self.fail(
                f"{key!r} is no key of metadata: lower-case letters, digits and _.-, not as gRPC's own", param, ctx
            )
        is_bytes = key.endswith("-bin")
        if text.startswith("@"):
            try:
                found = Path(text[1:]).read_bytes()
            except OSError as error:
                self.fail(f"{key}: {error}", param, ctx)
            if is_bytes:
                return key, found
            text = found.decode(errors="replace").removesuffix("\n").removesuffix("\r")
        elif text.startswith("$"):
            from lucky_transport.config import environment

            if text[1:] not in environment():
                self.fail(f"{key}: no variable {text[1:]!r} in the environment", param, ctx)
            text = environment()[text[1:]]
        if is_bytes:
            try:
                return key, b64decode(text + "=" * (-len(text) % 4), validate=True)
            except ValueError:
                self.fail(f"{key}: its value is no base64", param, ctx)
        if not (text.isascii() and text.isprintable()):
            self.fail(f"{key}: its value is no printable ASCII; bytes go with a key that ends in -bin", param, ctx)
        return key, text


NAMES = _Names()
METADATA = _Metadata()
NUMBERS = _Numbers()
JSON_OBJECT = _JsonObject()


def choices(*known: str) -> click.ParamType:
    """Return the type of a comma-separated list of some of `known`."""
    return _Choices(known)


def metadata_option(where: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Return the decorator that gives a command `metadata`: pairs of a key and its value; where: they are sent."""
    return click.option(
        "--metadata",
        multiple=True,
        type=METADATA,
        metavar="KEY=VALUE",
        help=f"{where}: metadata that every call has; may be repeated. VALUE is text, @FILE (the file's text) or "
        "$VARIABLE (of the environment); of a key that ends in -bin base64, and of @FILE its bytes. It is shown and "
        "written nowhere.",
    )


def one_pattern(context: click.Context, param: click.Parameter, value: tuple[str, ...]) -> str | None:
    """Return the only pattern that was given, None for none; click would take the last of several."""
    if len(value) > 1:
        raise click.BadParameter(f"{len(value)} patterns; give one that fits all, e.g. '*Service/Get*'")
    return value[0] if value else None


def complete_methods(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Offer the short names of the methods known here, "Service/Method"; full names once one begins with a slash."""
    from lucky_transport.messages.names import short_name
    from lucky_transport_migration.catalogue.catalogue import OWN
    from lucky_transport_migration.stages.stage_plan import StagePlan

    try:
        known = [one.name for one in StagePlan.load(environ={}).catalogue]
    except (TransportError, OSError):  # the command itself says what is wrong with a file
        known = list(OWN)
    names = known if incomplete.startswith("/") else map(short_name, known)
    return [CompletionItem(name) for name in names if name.startswith(incomplete)]


def of_evidence(verb: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Return the decorator that gives a command `folder`, `method` and `since`: what evidence it reads.

    verb: what the command does with the methods. since: a moment as evidence spells it, "" for none.
    """

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        for add in (
            click.option(
                "--since",
                type=click.DateTime(("%Y-%m-%d", "%Y-%m-%dT%H:%M:%S", "%Y-%m-%dT%H:%M:%SZ")),
                callback=_moment,
                help="Pass over what was seen before this moment (UTC), for instance before a fix.",
            ),
            click.option(
                "--method",
                shell_complete=complete_methods,
                default="*",
                help=f"Methods to {verb}: a name or a shell pattern such as 'SceneService/*'.",
            ),
            click.argument("folder", required=False, type=click.Path(exists=True, file_okay=False, path_type=Path)),
        ):
            command = add(command)
        return command

    return decorate


def _moment(ctx: click.Context, param: click.Parameter, value: datetime | None) -> str:
    return "" if value is None else value.strftime("%Y-%m-%dT%H:%M:%S")

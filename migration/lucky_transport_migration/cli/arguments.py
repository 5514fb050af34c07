"""What more than one command takes: lists of names and numbers, JSON, methods, metadata, a folder of evidence.

A wrong value names the part that is wrong and shows a right one.
"""

from __future__ import annotations

import re
from base64 import b64decode
from collections.abc import Callable
from datetime import datetime
from pathlib import Path

import click
from click.shell_completion import CompletionItem
from click.types import FuncParamType

from lucky_transport.cli.serve import options_of
from lucky_transport.errors import TransportError

#: A key of metadata that is not gRPC's or HTTP/2's own.
_KEY = re.compile(r"(?!grpc-)(?!(te|content-type|user-agent)$)[a-z0-9_.-]+")


def names(text: str) -> tuple[str, ...]:
    """Return the names of a text like grpc,shm."""
    found = tuple(part.strip() for part in text.split(","))
    if not all(found):
        raise click.BadParameter(f"{text!r} has an empty name; write for instance grpc,shm")
    _check_once(found, text)
    return found


def numbers(text: str) -> tuple[int, ...]:
    """Return the whole numbers from 1 of a text like 1,64."""
    parts = [part.strip() for part in text.split(",")]
    for part in parts:
        if not part.isdecimal() or int(part) < 1:
            raise click.BadParameter(f"{part!r} in {text!r} is no whole number from 1; write for instance 1,64,4096")
    found = tuple(map(int, parts))
    _check_once(found, text)
    return found


def _check_once(found: tuple[object, ...], text: str) -> None:
    if twice := [one for one in found if found.count(one) > 1]:
        raise click.BadParameter(f"{text!r} names {twice[0]!r} twice")


def metadata(text: str) -> tuple[str, str | bytes]:
    """Return the key and the value of KEY=VALUE, KEY=@FILE or KEY=$VARIABLE. No error shows a value."""
    key, sign, value = text.partition("=")
    if not sign:
        raise click.BadParameter("write KEY=VALUE, KEY=@FILE or KEY=$VARIABLE, e.g. 'authorization=$TOKEN'")
    if not _KEY.fullmatch(key):
        wanted = "lower-case letters, digits and _.-, not as gRPC's own"
        raise click.BadParameter(f"{key!r} is no key of metadata: {wanted}")
    is_bytes = key.endswith("-bin")
    if value.startswith("@"):
        try:
            found = Path(value[1:]).read_bytes()
        except OSError as error:
            raise click.BadParameter(f"{key}: {error}") from error
        if is_bytes:
            return key, found
        value = found.decode(errors="replace").removesuffix("\n").removesuffix("\r")
    elif value.startswith("$"):
        from lucky_transport.config import environment

        if value[1:] not in environment():
            raise click.BadParameter(f"{key}: no variable {value[1:]!r} in the environment")
        value = environment()[value[1:]]
    if is_bytes:
        try:
            return key, b64decode(value + "=" * (-len(value) % 4), validate=True)
        except ValueError:
            raise click.BadParameter(f"{key}: its value is no base64") from None
    if not (value.isascii() and value.isprintable()):
        raise click.BadParameter(f"{key}: its value is no printable ASCII; bytes go with a key that ends in -bin")
    return key, value


NAMES, NUMBERS, JSON_OBJECT, METADATA = map(FuncParamType, (names, numbers, options_of, metadata))
JSON_OBJECT.name = "json"


def choices(*known: str) -> click.ParamType:
    """Return the type of a comma-separated list of some of `known`."""

    def choose(text: str) -> tuple[str, ...]:
        for name in names(text):
            if name not in known:
                raise click.BadParameter(f"{name!r} is not one of {', '.join(known)}")
        return names(text)

    found = FuncParamType(choose)
    found.name = "names"
    return found


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
    from lucky_transport.messages.method import short_name
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

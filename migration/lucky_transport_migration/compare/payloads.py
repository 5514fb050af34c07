"""Answers as messages, where they came as a program's own bytes.

LuckyEngine's become messages of the core by the gRPC plugin, those of other services messages of protobuf by their
description. Where neither is there, or does not know the bytes, they stay what they are.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

from lucky_transport.errors import BrokenPlugin, MissingExtra
from lucky_transport.messages.methods import BY_NAME, Method
from lucky_transport.registry import load
from lucky_transport_migration.catalogue.service_method import ServiceMethod


def as_message(method: Method | ServiceMethod | None, item: Any) -> Any:
    """Return the message that `item` is or holds; `item` itself where that is not known."""
    if method is None or not isinstance(item, bytes):
        return item
    row = BY_NAME.get(method.name)
    if row is None:
        return item if method.response is None else _parsed(method.response, item)
    response_in = _response_in()
    try:
        return item if response_in is None else response_in(row, item)
    except ValueError:
        return item


def _parsed(response: Any, item: bytes) -> Any:
    from google.protobuf.message import DecodeError

    try:
        return response.FromString(item)
    except DecodeError:
        return item


@cache
def _response_in() -> Callable[[Method, bytes], Any] | None:
    try:
        return load("lucky_transport_grpc.codec:response_in", owner="evidence", extra="grpc")
    except (BrokenPlugin, MissingExtra):
        return None

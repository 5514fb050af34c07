"""Answers as messages of the core, where they came as a program's own bytes.

Protobuf is known to the gRPC plugin only; where that is not installed, and where it does not know the bytes, they stay
what they are.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

from lucky_transport.errors import BrokenPlugin, MissingExtra
from lucky_transport.messages.methods import Method
from lucky_transport.registry import load

__all__ = ["as_message"]


def as_message(method: Method | None, item: Any) -> Any:
    """Return the message that `item` is or holds; `item` itself where that is not known."""
    if method is None or not isinstance(item, bytes):
        return item
    response_in = _response_in()
    try:
        return item if response_in is None else response_in(method, item)
    except ValueError:
        return item


@cache
def _response_in() -> Callable[[Method, bytes], Any] | None:
    try:
        return load("lucky_transport_grpc.codec:response_in", owner="evidence", extra="grpc")
    except (BrokenPlugin, MissingExtra):
        return None

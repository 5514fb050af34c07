"""Tells requests apart in evidence, without keeping them."""

from __future__ import annotations

from hashlib import blake2b
from typing import Any

from lucky_transport.codec.flatbuffers import encode

__all__ = ["request_hash"]


def request_hash(request: Any) -> str:
    """Return 16 hex digits that equal requests have in common, "" for one that carries nothing or cannot be known.

    request: a message, bytes, or a list of them where requests are a stream.
    """
    found = blake2b(digest_size=8)
    is_empty = True
    for one in request if isinstance(request, list) else [request]:
        payload = _payload(one)
        is_empty = is_empty and not payload
        found.update(len(payload).to_bytes(8, "little") + payload)
    return "" if is_empty else found.hexdigest()


def _payload(request: Any) -> bytes:
    if request is None or isinstance(request, bytes):
        return request or b""
    try:
        return b"" if request == type(request)() else encode(request)
    except (TypeError, ValueError):  # an engine in this process may be given what no wire could carry
        return b""

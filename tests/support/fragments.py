"""All fragments of a record at once, which the product cuts one by one."""

from __future__ import annotations

from collections.abc import Iterator

from lucky_transport.rpc.outgoing import fragment

__all__ = ["cut"]


def cut(record: bytes, call: int, largest: int, message_bytes: int = 0) -> Iterator[bytes]:
    """Yield the records of `largest` bytes at most that carry an envelope; itself when it is short enough."""
    if len(record) <= largest:
        yield record
        return
    offset = 0
    while offset < len(record):
        piece, size = fragment(record, call, offset, largest, message_bytes)
        yield piece if isinstance(piece, bytes) else b"".join(piece)
        offset += size

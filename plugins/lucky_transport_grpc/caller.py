"""Who makes a call to the server, and what its metadata asks for.

Rule 1: a caller is known by the name it gives itself, else by its address; all legacy clients of one unix socket share
one address and so count as one.
Rule 2: metadata is a peer's word: a value that makes no sense is refused, never guessed at.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from lucky_transport.errors import LocalProtocolError, PeerDied
from lucky_transport_grpc.metadata import AFTER_RESET, BATCH, CLIENT, SEQ, TERMS, WINDOW

__all__ = ["Caller"]


class Caller:
    """One call's context: `key` tells callers apart, `batch` is the size of the batch it belongs to (0: none)."""

    __slots__ = ("_context", "after_reset", "all_terms", "batch", "key", "seq", "timeout_s")

    def __init__(self, context: Any, longest_s: float, *, legacy: bool = False) -> None:
        """`timeout_s` is how long the call may wait: until its deadline, `longest_s` at most.

        `legacy` reads no metadata of ours. Raises LocalProtocolError for metadata that makes no sense.
        """
        given: dict[str, Any] = {}
        if not legacy:
            given = {key: value for key, value in context.invocation_metadata() if key.startswith("lucky-")}
        self._context = context
        self.key: str = given.get(CLIENT) or context.peer()
        self.batch = _count(given, BATCH, WINDOW)
        self.seq = _count(given, SEQ, (1 << 63) - 1)
        self.after_reset = given.get(AFTER_RESET) == "1"
        self.all_terms = given.get(TERMS) == "all"
        self.timeout_s = min(context.time_remaining(), longest_s)

    def on_end(self, callback: Callable[[], None]) -> None:
        """Have `callback` called when the call is over, however it ends; it must not block.

        Raises PeerDied when it is over already.
        """
        if not self._context.add_callback(callback):
            raise PeerDied("the caller has gone", backend="grpc")


def _count(given: dict[str, Any], key: str, largest: int) -> int:
    value = given.get(key)
    if value is None:
        return 0
    if not (isinstance(value, str) and value.isdecimal() and 1 <= int(value) <= largest):
        raise LocalProtocolError(f"metadata {key}: {value!r}", backend="grpc", hint=f"expected 1 to {largest}")
    return int(value)

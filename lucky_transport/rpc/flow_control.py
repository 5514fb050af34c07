"""HTTP/2's flow control for one stream: how many items and bytes may be under way.

An item may be sent while items and bytes are both above zero, however long it is; so an item of any length goes
through, and at most one item is beyond the window.
"""

from __future__ import annotations

from collections.abc import Iterable, Sized
from typing import NamedTuple

from lucky_transport.errors import RemoteProtocolError
from lucky_transport.messages.method import Flow


class WindowSize(NamedTuple):
    """The window at first, and at most later; it is renewed once half of its items or bytes are consumed."""

    items: int
    bytes: int
    most_items: int
    most_bytes: int


#: EVERY is kept fast by many items under way, LATEST fresh by few.
EVERY = WindowSize(items=64, bytes=64 << 10, most_items=2048, most_bytes=1 << 20)
LATEST = WindowSize(items=2, bytes=1 << 30, most_items=2, most_bytes=1 << 30)


def window_of(flow: Flow) -> WindowSize:
    """Return the window of streams with this flow."""
    return LATEST if flow is Flow.LATEST else EVERY


class ReceiveWindow:
    """What the peer may still send, and what was consumed since the last renewal.

    A receiver that keeps up grants more with each renewal, up to the limit: then neither side waits for the other. One
    thread may call `arrived` and another the rest: each field has one writer. A grant that is interrupted between
    `renew` and `renewed` is made again: the peer may then get more, never less.
    """

    __slots__ = (
        "_arrived_bytes",
        "_arrived_items",
        "_granted_bytes",
        "_granted_items",
        "_window",
        "consumed_bytes",
        "consumed_items",
        "window_bytes",
        "window_items",
    )

    def __init__(self, window: WindowSize) -> None:
        self._window = window
        self._granted_items = self.window_items = window.items
        self._granted_bytes = self.window_bytes = window.bytes
        self._arrived_items = self._arrived_bytes = 0
        self.consumed_items = self.consumed_bytes = 0

    def arrived(self, payloads: Iterable[Sized]) -> None:
        """Note these items, all or none. Raises RemoteProtocolError when the window is closed."""
        items, arrived_bytes = self._arrived_items, self._arrived_bytes
        for payload in payloads:
            if items >= self._granted_items or arrived_bytes >= self._granted_bytes:
                left, window = self._granted_items - items, self._granted_bytes - arrived_bytes
                raise RemoteProtocolError(
                    f"a stream item of {len(payload)} bytes without credit ({left} items, {window} bytes left)",
                    hint="the peer is broken or speaks another protocol; connect again",
                )
            items += 1
            arrived_bytes += len(payload)
        self._arrived_items, self._arrived_bytes = items, arrived_bytes

    def consumed(self, length: int) -> bool:
        """Note that an item was taken; True when a grant is due."""
        self.consumed_items += 1
        self.consumed_bytes += length
        return self.is_due

    @property
    def is_due(self) -> bool:
        """True while what was consumed is worth a message."""
        return 2 * self.consumed_items >= self.window_items or 2 * self.consumed_bytes >= self.window_bytes

    def renew(self) -> tuple[int, int]:
        """Return (items, bytes) to grant: what was consumed, and what the window grows by."""
        next_items, next_bytes = self._next_window()
        items = self.consumed_items + next_items - self.window_items
        window = self.consumed_bytes + next_bytes - self.window_bytes
        self._granted_items += items
        self._granted_bytes += window
        return items, window

    def renewed(self) -> None:
        """Note that what `renew` returned was sent. The window grows only here: one that is larger than what the peer
        was granted might never be due.
        """
        self.window_items, self.window_bytes = self._next_window()
        self.consumed_items = self.consumed_bytes = 0

    def _next_window(self) -> tuple[int, int]:
        window = self._window
        return min(2 * self.window_items, window.most_items), min(2 * self.window_bytes, window.most_bytes)


class SendWindow:
    """What the peer granted, and what of it is spent. One thread may call `add` and another `try_spend`."""

    __slots__ = ("granted_bytes", "granted_items", "spent_bytes", "spent_items")

    def __init__(self, items: int = 0, window: int = 0) -> None:
        self.granted_items, self.granted_bytes = items, window
        self.spent_items = self.spent_bytes = 0

    @property
    def is_open(self) -> bool:
        """True while one more item may be sent."""
        return self.granted_items > self.spent_items and self.granted_bytes > self.spent_bytes

    def add(self, items: int, window: int) -> None:
        """Note what was granted in addition."""
        self.granted_items += items
        self.granted_bytes += window

    def try_spend(self, length: int) -> bool:
        """Note one item sent and return True, or False when it may not be sent."""
        if self.granted_items <= self.spent_items or self.granted_bytes <= self.spent_bytes:
            return False
        self.spent_items += 1
        self.spent_bytes += length
        return True

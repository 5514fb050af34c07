"""How coroutines wait for something to change: everyone is woken at each change and looks for himself.

Rule 1: `tell` and `wait` belong to the thread of the loop; `tell` only wakes, nobody runs in it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

__all__ = ["News"]


class News:
    """What one call has to tell to those who wait for it."""

    __slots__ = ("_loop", "_waiters")

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._waiters: list[asyncio.Future[None]] = []

    def tell(self) -> None:
        """Have everyone who waits look again; once the loop is closed nobody does."""
        if self._loop.is_closed():
            return
        waiters, self._waiters = self._waiters, []
        for waiter in waiters:
            if not waiter.done():
                waiter.set_result(None)

    async def wait(self) -> None:
        """Return after the next `tell`."""
        waiter = self._loop.create_future()
        self._waiters.append(waiter)
        await waiter

    async def until(self, is_ready: Callable[[], bool]) -> None:
        """Return once `is_ready()`, which is asked now and after each `tell`."""
        while not is_ready():
            await self.wait()

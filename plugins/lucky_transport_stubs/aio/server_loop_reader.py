"""An event loop that serves a `ServerLoop`: what `ServerThread` is for programs without one.

Everything happens on the loop's thread, a little at a time: no caller can keep the loop from its other work.
"""

from __future__ import annotations

import asyncio

from lucky_transport.errors import ClosedError
from lucky_transport.fork import on_child
from lucky_transport.rpc.event_loop import idle_of
from lucky_transport.shm.listener.server_loop import ServerLoop


class ServerLoopReader:
    """Has `loop` serve `server_loop` from now on."""

    def __init__(self, server_loop: ServerLoop, loop: asyncio.AbstractEventLoop) -> None:
        self._server_loop = server_loop
        self._loop = loop
        self._fd = server_loop.fileno()
        self._next: asyncio.Handle | None = None
        self._looks_soon = False
        self._is_over = False
        on_child(self.close_after_fork)
        loop.add_reader(self._fd, self._look)
        self._look()

    def close(self) -> None:
        """Serve no more; the server_loop is left as it is. Idempotent."""
        self._forget_next()
        if not self._is_over and not self._loop.is_closed():
            self._loop.remove_reader(self._fd)
        self._is_over = True

    def close_after_fork(self) -> None:
        """In a forked child: the loop's descriptors are the parent's too; leave them alone."""
        self._is_over = True

    def expect(self) -> None:
        """A call was answered: where the next one may be there before a sleeping loop wakes, look for it."""
        if not self._is_over and self._server_loop.expect() and not self._looks_soon:
            self._look_soon()

    def _look(self) -> None:
        """Handle what there is, and see to it that this is called again in time."""
        self._forget_next()
        try:
            there_was_something = self._server_loop.look(idle_of(self._loop))
        except ClosedError:  # a forked child: the callers are the parent's
            return
        except BaseException:  # a signal handler's: clients may have been told that they need not wake us
            self._look_soon()
            raise
        if there_was_something:
            self._look_soon()
        elif (patience_ns := self._server_loop.patience_ns) is not None:
            self._next = self._loop.call_later(patience_ns / 1e9, self._look)

    def _look_soon(self) -> None:
        self._forget_next()
        self._next, self._looks_soon = self._loop.call_soon(self._look), True

    def _forget_next(self) -> None:
        self._looks_soon = False
        if self._next is not None:
            self._next.cancel()
            self._next = None

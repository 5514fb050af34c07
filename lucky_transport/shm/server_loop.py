"""Where the calls of all clients of a rendezvous are received.

    reception = ServerLoop(rendezvous, make_calls)
    while ...: reception.serve(timeout_ns)          a thread of its own (`lucky_transport.shm.server_thread`)
    ... or reception.look() whenever its descriptor is readable or `patience_ns` is over, in an event loop

Rule 1: a client that breaks the rules, dies or leaves is forgotten by itself; the others notice nothing.
Rule 2: a client that does not read its answers is put aside until it does.
Rule 3: one thread serves or looks; `interrupt` may be called by any, `close` by any once that thread has ended.
"""

from __future__ import annotations

import itertools
import logging
from collections.abc import Callable

from lucky_transport.errors import PeerDied, TransportError
from lucky_transport.rpc.server import ServerCalls
from lucky_transport.shm.listener import Listener
from lucky_transport.shm.memfd_pipe import MemfdPipe
from lucky_transport.shm.poller import Poller, PollResult

__all__ = ["ServerLoop"]

_log = logging.getLogger("lucky_transport")
_numbers = itertools.count(1)


class ServerLoop:
    """Feeds the calls of everyone who comes to `rendezvous`, which belongs to it from now on.

    make_calls(pipe, caller): how a new client's calls are answered; `caller` is its name, of no other one in this
    process. on_leave(caller): a client has gone; not called for those who are there when it closes.
    """

    def __init__(
        self,
        rendezvous: Listener,
        make_calls: Callable[[MemfdPipe, str], ServerCalls],
        on_leave: Callable[[str], None] = lambda caller: None,
    ) -> None:
        self._rendezvous = rendezvous
        self._make_calls = make_calls
        self._on_leave = on_leave
        self._pipes = Poller(rendezvous)
        self._calls: dict[MemfdPipe, ServerCalls] = {}

    @property
    def open_calls(self) -> int:
        """Calls that are not answered yet, of all clients."""
        return sum(calls.open_calls for calls in tuple(self._calls.values()))

    def serve(self, timeout_ns: int) -> None:
        """Wait until something comes, and handle it. Raises ClosedError."""
        is_answering = any(calls.open_calls for calls in tuple(self._calls.values()))
        self._handle(self._pipes.wait(timeout_ns, oversubscribed=is_answering))

    def look(self) -> bool:
        """Handle what there is now, without waiting; True when there was something: look again. Raises ClosedError."""
        found = self._pipes.look()
        self._handle(found)
        return bool(found)

    def fileno(self) -> int:
        """Return the descriptor that an event loop watches for `look`."""
        return self._pipes.fileno()

    @property
    def patience_ns(self) -> int | None:
        """Nanoseconds until `look` has to be called all the same; None when it need not."""
        return self._pipes.patience_ns

    def interrupt(self) -> None:
        """Make the present `serve` of another thread, or the next one, return at once."""
        self._pipes.interrupt()

    def stop_listening(self) -> None:
        """Let nobody in any more; who is there stays."""
        self._rendezvous.close()

    def close(self, reason: TransportError) -> None:
        """End every call with `reason`, tell all clients that it ends here, and let go of everything; idempotent."""
        while self._calls:
            self._calls.popitem()[1].shut_down(reason)
        self._pipes.close()

    def _handle(self, found: PollResult) -> None:
        for pipe in found.opened:
            self._calls[pipe] = self._make_calls(pipe, f"{pipe.peer} ({next(_numbers)})")
        for pipe in found.ready:
            self._feed(pipe)
        for pipe in found.closed:
            self._forget(pipe, PeerDied(f"{pipe.peer} is gone", backend="shm"))

    def _feed(self, pipe: MemfdPipe) -> None:
        calls = self._calls.get(pipe)
        if calls is None:
            return
        try:
            if not calls.feed():
                self._pipes.throttle(pipe)
        except TransportError as error:
            _log.warning("%s: %s; it is dropped", pipe.peer, error)
            self._forget(pipe, error)

    def _forget(self, pipe: MemfdPipe, error: TransportError) -> None:
        calls = self._calls.pop(pipe, None)
        if calls is not None:
            calls.close(error)
            self._on_leave(calls.peer)
        self._pipes.discard(pipe)

"""A client and a server of calls, joined in memory or by pipes that are given: for tests of calls and for fuzzing.

    with CallPair({"/t/echo": echo}) as pair:
        assert pair.client.unary("/t/echo", b"ping", Deadline(5)) == b"ping"

A handler runs on a thread of its own, as behind a dispatcher; one thread feeds the server. An error that ends the
feeding is kept in `fault`.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from types import TracebackType
from typing import Any, Self

from lucky_transport.errors import TransportError, Unimplemented
from lucky_transport.rpc.client import ClientCalls
from lucky_transport.rpc.server import ServerCalls
from lucky_transport.rpc.server_call import ServerCall
from tests.support.memory_pipe import memory_pipes
from tests.support.waiting import PATIENCE_S

__all__ = ["CallPair"]

_SLICE_NS = 20_000_000


class CallPair:
    """`client`, `server`, and their pipe ends; `open_calls` are the server's calls by number, as they began."""

    def __init__(
        self,
        handlers: Mapping[str, Callable[[ServerCall], None]],
        *,
        capacity: int = 512 << 10,
        max_message_bytes: int = 4 << 20,
        pipes: tuple[Any, Any] | None = None,
    ) -> None:
        self.client_pipe, self.server_pipe = pipes or memory_pipes(capacity)
        self.client = ClientCalls(self.client_pipe, backend="memory", max_message_bytes=max_message_bytes)
        self.server = ServerCalls(self.server_pipe, self._begin, max_message_bytes=max_message_bytes)
        self.fault: TransportError | None = None
        self.begun: list[ServerCall] = []
        self._handlers = handlers
        self._stopping = False
        self._feeding = threading.Event()
        self._feeding.set()
        self._threads: list[threading.Thread] = []
        self._thread = threading.Thread(target=self._feed, daemon=True)
        self._thread.start()

    def pause(self) -> None:
        """Stop reading what the client sends; after at most one slice nothing is read any more."""
        self._feeding.clear()

    def go_on(self) -> None:
        """Read again."""
        self._feeding.set()

    def close(self) -> None:
        """End both sides and all threads; raises TimeoutError when one does not end."""
        self._stopping = True
        self._feeding.set()
        self.client.close()
        self.server.close()
        for thread in (self._thread, *self._threads):
            thread.join(PATIENCE_S)
            if thread.is_alive():
                raise TimeoutError(f"{thread.name} did not end")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _feed(self) -> None:
        try:
            while not self._stopping:
                if self.server_pipe.wait(_SLICE_NS) and self._feeding.wait():
                    self.server.feed()
        except TransportError as error:
            self.fault = error
            self.server.close(error)

    def _begin(self, call: ServerCall) -> None:
        self.begun.append(call)
        handler = self._handlers.get(call.name)
        if handler is None:
            call.fail(Unimplemented(f"no {call.name}"))
            return
        thread = threading.Thread(target=_run, args=(handler, call), name=call.name, daemon=True)
        self._threads.append(thread)
        thread.start()


def _run(handler: Callable[[ServerCall], None], call: ServerCall) -> None:
    try:
        handler(call)
    except TransportError as error:
        if not call.is_ended:
            call.fail(error)

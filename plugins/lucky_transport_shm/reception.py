"""Where an engine answers its command clients: everyone but the one that steps it.

Rule 1: one thread waits for all of them; it answers what is quick itself and leaves the rest to the dispatcher's.
Rule 2: a client that breaks the rules, dies or leaves is forgotten by itself; the others notice nothing.
Rule 3: a client that does not read its answers is put aside until it does.
"""

from __future__ import annotations

import itertools
import logging
import threading

from lucky_transport.calls.server import ServerCalls
from lucky_transport.config import Settings
from lucky_transport.errors import ClosedError, PeerDied, TransportError
from lucky_transport.host.dispatch import Dispatcher
from lucky_transport.host.host import Host
from lucky_transport.shm.image_store import ImageStores
from lucky_transport.shm.pipe_set import PipeSet
from lucky_transport.shm.rendezvous import Rendezvous
from lucky_transport.shm.rendezvous_pipe import RendezvousPipe
from lucky_transport.shm.wait import strategy_code

__all__ = ["Reception"]

_log = logging.getLogger("lucky_transport")
_SLICE_NS = 1_000_000_000
_numbers = itertools.count(1)


class Reception:
    """Serves the rendezvous of segment `name` until `close`. Raises as `Rendezvous` does."""

    def __init__(self, name: str, host: Host, dispatcher: Dispatcher, images: ImageStores, settings: Settings) -> None:
        self._host = host
        self._dispatcher = dispatcher
        self._images = images
        self._max_message_bytes = settings.max_message_bytes
        rendezvous = Rendezvous(name, strategy=strategy_code(settings.wait), native=settings.native)
        self._pipes = PipeSet(rendezvous)
        self._calls: dict[RendezvousPipe, ServerCalls] = {}
        self._closing = False
        self._thread = threading.Thread(target=self._run, name=f"shm commands {name}", daemon=True)
        self._thread.start()

    def close(self, grace_s: float = 1.0) -> None:
        """Tell every client that the engine closes, and let go of all; idempotent."""
        self._closing = True
        self._pipes.interrupt()
        self._thread.join(max(grace_s, 0.2))
        for calls in tuple(self._calls.values()):
            calls.shut_down(ClosedError("the engine is closing", backend="shm"))
        self._pipes.close()

    def _run(self) -> None:
        """Serve until `close`; a bug of ours ends this thread, not the engine."""
        try:
            while not self._closing:
                self._serve()
        except ClosedError:
            return
        except Exception:
            _log.exception("the thread for commands broke; command clients get no answers any more")

    def _serve(self) -> None:
        found = self._pipes.wait(_SLICE_NS)
        for pipe in found.joined:
            self._calls[pipe] = ServerCalls(
                pipe,
                self._dispatcher.begin,
                at_once=self._dispatcher.at_once,
                caller=f"{pipe.peer} ({next(_numbers)})",
                max_message_bytes=self._max_message_bytes,
                between_steps=self._host.between_steps,
                images=self._images.open(),
            )
        for pipe in found.ready:
            self._feed(pipe)
        for pipe in found.left:
            self._forget(pipe, PeerDied(f"{pipe.peer} is gone", backend="shm"))

    def _feed(self, pipe: RendezvousPipe) -> None:
        calls = self._calls.get(pipe)
        if calls is None:
            return
        try:
            if not calls.feed():
                self._pipes.hold(pipe)
        except TransportError as error:
            _log.warning("%s: %s; it is dropped", pipe.peer, error)
            self._forget(pipe, error)

    def _forget(self, pipe: RendezvousPipe, error: TransportError) -> None:
        calls = self._calls.pop(pipe, None)
        if calls is not None:
            calls.close(error)
            self._dispatcher.leave(calls.peer)
        self._pipes.discard(pipe)

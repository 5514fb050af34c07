"""The semaphores by which engine and client take turns, and the one that announces the engine.

    engine                                          client
    create: SERVER 1, CLIENT 0, post LOADING        open, make the blocks, wait CLIENT
    wait SERVER (the first time for nothing)        act, post SERVER
    tick, post CLIENT                               wait CLIENT, read

The engine touches no block before its second wait: only then has the client made them.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable

from lucky_transport.deadline import Deadline
from lucky_transport.errors import Busy, PeerTimeout
from lucky_transport_holodeck import semaphores
from lucky_transport_holodeck.names import Names, pids_mapping
from lucky_transport_holodeck.semaphores import Semaphore

#: How often a client that waits looks whether the engine still lives.
_SLICE_S = 0.05
_TICK_HINT = "recv() again, raise step_timeout_s (LUCKY_STEP_TIMEOUT_S), or restart the engine"

#: The uuids that this very process serves.
_served: set[str] = set()
_served_lock = threading.Lock()


class EngineHandshake:
    """The engine's end. Raises Busy when a living process has the semaphores of that uuid."""

    def __init__(self, names: Names, strategy: str) -> None:
        self.names = names
        self._strategy = strategy
        self._claim()
        with contextlib.ExitStack() as undo:
            undo.callback(self.remove_names)
            self._server, self._client = self._create()
            undo.callback(self._server.close)
            undo.callback(self._client.close)
            self._loading = Semaphore.open_or_create(names.loading)
            undo.pop_all()
        self._is_first = True
        self._knocking, self._is_knocked = threading.Lock(), False

    def _claim(self) -> None:
        others = pids_mapping(Names.file_of(self.names.server))
        with _served_lock:
            if self.names.uuid not in _served and not others:
                _served.add(self.names.uuid)
                return
        who = f"process {others[0]}" if others else "this process"
        raise Busy(
            f"the Holodeck semaphores with the uuid {self.names.uuid!r} are in use by {who}",
            backend="holodeck",
            hint="use another uuid, or end that process",
        )

    def _create(self) -> tuple[Semaphore, Semaphore]:
        with contextlib.ExitStack() as undo:
            server = Semaphore.create(self.names.server, 1, self._strategy)
            undo.callback(server.close)
            client = Semaphore.create(self.names.client, 0, self._strategy)
            undo.pop_all()
        return server, client

    def post_loading(self) -> None:
        """Tell a client that the engine is there."""
        if not self._loading.value:
            self._loading.post()

    def wait(self, timeout_s: float) -> bool:
        """Return True when the client wants a tick, False when it did not within `timeout_s`, or for a `knock`."""
        is_posted = self._server.wait(timeout_s)
        with self._knocking:
            was_knocked, self._is_knocked = self._is_knocked and is_posted, self._is_knocked and not is_posted
        return is_posted and not was_knocked

    def knock(self) -> None:
        """Make the present `wait` of another thread, or the next one, return False."""
        with self._knocking:
            if not self._is_knocked:
                self._is_knocked = True
                self._server.post()

    def is_first(self) -> bool:
        """Return True, once, for the tick in which no block may be touched: the client makes them meanwhile."""
        first, self._is_first = self._is_first, False
        return first

    def post(self) -> None:
        """Tell the client that the tick is done.

        A client that came where another one had just died may have had one post too many and ask ahead. It gets none
        for this tick, and both are in step again.
        """
        with self._knocking:
            asks_ahead = self._server.value > self._is_knocked
        if not asks_ahead:
            self._client.post()

    @property
    def is_client_posted(self) -> bool:
        """True while the client has not taken its last post."""
        return self._client.value > 0

    def post_for_next(self) -> None:
        """Leave the client's semaphore posted, for the next client."""
        if not (self._server.is_current and self._client.is_current):
            self.renew()
        elif not self._client.value:
            self._client.post()

    @property
    def are_names_removed(self) -> bool:
        """True once a client has removed both names on its way out."""
        return not (self._server.is_current or self._client.is_current)

    def renew(self) -> None:
        """Make both semaphores anew, as at the start."""
        with self._knocking:
            self._server.close()
            self._client.close()
            self._server, self._client = self._create()
            self._is_first, self._is_knocked = True, False

    def remove_names(self) -> None:
        """Remove the names; a process that has a semaphore open keeps it."""
        for name in (self.names.server, self.names.client, self.names.loading):
            semaphores.unlink(name)
        with _served_lock:
            _served.discard(self.names.uuid)

    def close(self) -> None:
        """Remove all names and close the semaphores; no thread may be in `wait`."""
        self.remove_names()
        for semaphore in (self._server, self._client, self._loading):
            semaphore.close()


class ClientHandshake:
    """The client's end. `check_engine` raises PeerDied once the engine is gone. Raises NotReachable."""

    def __init__(self, names: Names, strategy: str, check_engine: Callable[[], None]) -> None:
        self._server = Semaphore.open(names.server, strategy)
        self._client = Semaphore.open(names.client, strategy)
        self._check_engine = check_engine

    def post(self) -> None:
        """Have the engine tick."""
        self._server.post()

    def wait(self, deadline: Deadline, hint: str = _TICK_HINT) -> None:
        """Return when the tick is done. Raises PeerTimeout, after which it may still be done, and PeerDied."""
        while not self._client.wait(min(deadline.remaining_s, _SLICE_S)):
            self._check_engine()
            if deadline.expired:
                raise PeerTimeout(
                    f"the Holodeck engine did not answer within {deadline.timeout_s} s",
                    backend="holodeck",
                    hint=hint,
                )

    def leave(self) -> None:
        """Leave the client's semaphore posted, for the next client."""
        self._client.post()

    def close(self) -> None:
        """Close the semaphores; no thread may be in `wait`."""
        self._server.close()
        self._client.close()

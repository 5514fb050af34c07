"""Who acts: the two semaphores on which engine and client take turns, and the one that says the engine is there.

    engine                                      client
    create: SERVER 1, CLIENT 0, LOADING +1      open, make the blocks, take CLIENT
    take SERVER (the first time for nothing)    act, give SERVER
    tick, give CLIENT                           take CLIENT, read

The engine touches no block before it has taken its second turn: only then has the client made them. The client's turn
is given exactly once per tick. A client that took a turn too many (it came where another one had just died) is one
ahead: its next turn is not given, and both are in step again. A client that leaves in order removes the names. The
engine sees that and makes them anew, for the next one.
"""

from __future__ import annotations

import threading
from collections.abc import Callable

from lucky_transport.deadline import Deadline
from lucky_transport.errors import Busy, PeerTimeout
from lucky_transport_holodeck import semaphores
from lucky_transport_holodeck.names import Names
from lucky_transport_holodeck.semaphores import Semaphore
from lucky_transport_holodeck.sharers import sharers

__all__ = ["ClientTurns", "EngineTurns"]

#: How often a client that waits looks whether the engine still lives.
_SLICE_S = 0.05

#: Pairs that this very process serves.
_served: set[str] = set()
_guard = threading.Lock()


class EngineTurns:
    """The engine's side. Raises Busy when a living process has the semaphores of that uuid."""

    def __init__(self, names: Names, wait: str) -> None:
        self.names = names
        self._wait = wait
        self._claim()
        try:
            self._server, self._client = self._create()
            self._loading = Semaphore.open_or_create(names.loading)
        except BaseException:
            self._give_up_claim()
            raise
        self._is_first = True

    def _claim(self) -> None:
        others = sharers(Names.file_of(self.names.server))
        with _guard:
            if self.names.uuid not in _served and not others:
                _served.add(self.names.uuid)
                return
        who = f"process {others[0]}" if others else "this process"
        raise Busy(
            f"the Holodeck semaphores with the uuid {self.names.uuid!r} are in use by {who}",
            backend="holodeck",
            hint="use another uuid, or end that process",
        )

    def _give_up_claim(self) -> None:
        with _guard:
            _served.discard(self.names.uuid)

    def _create(self) -> tuple[Semaphore, Semaphore]:
        server = Semaphore.create(self.names.server, 1, self._wait)
        return server, Semaphore.create(self.names.client, 0, self._wait)

    def announce(self) -> None:
        """Say that the engine is there: clients may come."""
        if not self._loading.value:
            self._loading.give()

    def take(self, timeout_s: float) -> bool:
        """Take the engine's turn; False when it did not come within `timeout_s`."""
        return self._server.take(timeout_s)

    def is_first(self) -> bool:
        """Return True, once, for the turn in which no block may be touched."""
        first, self._is_first = self._is_first, False
        return first

    def give(self) -> None:
        """Give the client its turn, unless it is one ahead."""
        if not self._server.value:
            self._client.give()

    @property
    def lies_there(self) -> bool:
        """True while the client has not taken its turn."""
        return self._client.value > 0

    def offer(self) -> None:
        """Leave the client's semaphore posted, for the next client."""
        if not (self._server.is_current and self._client.is_current):
            self.renew()
        elif not self._client.value:
            self._client.give()

    @property
    def were_removed(self) -> bool:
        """True once a client has removed both names on its way out."""
        return not (self._server.is_current or self._client.is_current)

    def wake(self) -> None:
        """Make a `take` that waits on another thread return."""
        self._server.give()

    def renew(self) -> None:
        """Make both semaphores anew, as at the start."""
        self._server.close()
        self._client.close()
        self._server, self._client = self._create()
        self._is_first = True

    def remove_names(self) -> None:
        """Remove the names; who holds a semaphore keeps it."""
        for name in (self.names.server, self.names.client, self.names.loading):
            semaphores.unlink(name)
        self._give_up_claim()

    def close(self) -> None:
        """Remove all names and let go; no thread may be waiting in `take`."""
        self.remove_names()
        for semaphore in (self._server, self._client, self._loading):
            semaphore.close()


class ClientTurns:
    """The client's side. `check_engine` raises PeerDied once the engine is gone. Raises NotReachable."""

    def __init__(self, names: Names, wait: str, check_engine: Callable[[], None]) -> None:
        self._server = Semaphore.open(names.server, wait)
        self._client = Semaphore.open(names.client, wait)
        self._check_engine = check_engine

    def give(self) -> None:
        """Have the engine tick."""
        self._server.give()

    def take(self, deadline: Deadline) -> None:
        """Return when it is the client's turn. Raises PeerTimeout, after which it may still come, and PeerDied."""
        while not self._client.take(min(deadline.remaining_s, _SLICE_S)):
            self._check_engine()
            if deadline.expired:
                raise PeerTimeout(
                    f"the Holodeck engine did not answer within {deadline.timeout_s} s",
                    backend="holodeck",
                    hint="recv() again, raise step_timeout_s (LUCKY_STEP_TIMEOUT_S), or restart the engine",
                )

    def leave(self) -> None:
        """Leave the client's semaphore posted for the next client."""
        self._client.give()

    def close(self) -> None:
        """Let go of the semaphores; no thread may be waiting in `take`."""
        self._server.close()
        self._client.close()

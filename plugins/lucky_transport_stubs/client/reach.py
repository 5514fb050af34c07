"""How a channel stands, by gRPC's connectivity semantics, and when it tries again to connect; without I/O.

    state               tries        connected   failed              broke   closed
    IDLE                CONNECTING   READY       TRANSIENT_FAILURE           SHUTDOWN
    CONNECTING                       READY       TRANSIENT_FAILURE           SHUTDOWN
    TRANSIENT_FAILURE                READY                                   SHUTDOWN
    READY                                                            IDLE    SHUTDOWN

A channel begins as IDLE and ends as SHUTDOWN.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from lucky_transport.errors import ClosedError, TransportError
from lucky_transport_grpc.runtime import grpc
from lucky_transport_stubs.words.status import CallStatus, Code, error_of, status_of

State = grpc.ChannelConnectivity

#: How calls end that were under way when their channel was closed, and those that a forked child finds under way.
CLOSED = CallStatus(Code.CANCELLED, "Channel closed!")
OF_THE_PARENT = CallStatus(Code.CANCELLED, "Closed on fork: this call belongs to the parent process")

#: What waits for an engine tries again after this time, each time a little later.
_FIRST_PAUSE_S, LONGEST_PAUSE_S = 0.005, 0.05


def pauses() -> Iterator[float]:
    """Yield the seconds before each further attempt to connect; for ever."""
    pause_s = _FIRST_PAUSE_S
    while True:
        yield pause_s
        pause_s = min(2 * pause_s, LONGEST_PAUSE_S)


class ConnectivityState:
    """The state of one channel. state: a `ChannelConnectivity`. refusal: how every call of the channel ends, if set.

    listeners: called with each new state, on the thread that brought it about; they must not block.
    """

    def __init__(self, refusal: CallStatus | None) -> None:
        self.state = State.IDLE
        self.listeners: list[Callable[[Any], None]] = []
        self._refusal = refusal

    @property
    def number(self) -> int:
        """The state as grpc's compiled channel has it."""
        return self.state.value[0]

    @property
    def is_closed(self) -> bool:
        """True once the channel is closed."""
        return self.state is State.SHUTDOWN

    def tries(self) -> None:
        """An attempt to connect begins; TRANSIENT_FAILURE lasts until one succeeds."""
        if self.state is State.IDLE:
            self.enter(State.CONNECTING)

    def enter(self, state: Any) -> None:
        """The channel stands so from now on; no effect once it is closed."""
        if state is not self.state and not self.is_closed:
            self.state = state
            for listener in tuple(self.listeners):
                listener(state)

    def renew_after_fork(self) -> None:
        """In a forked child: the connection and the listeners are the parent's."""
        self.listeners.clear()
        if not self.is_closed:
            self.state = State.IDLE

    def check(self) -> None:
        """Raise why the channel takes no call: it is closed, or refuses all."""
        if self.is_closed:
            raise error_of(CLOSED.code, CLOSED.details)
        if self._refusal is not None:
            raise error_of(self._refusal.code, self._refusal.details)

    def status_of(self, error: TransportError) -> CallStatus:
        """Return the status of a call over this channel that ended with the error."""
        if self.is_closed and isinstance(error, ClosedError):
            return CLOSED
        return status_of(error)

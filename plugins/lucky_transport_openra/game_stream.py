"""The client's end of a game stream: the newest observation and the actions to send.

A thread reads whatever comes and keeps the newest only, so a slow reader finds the present and not what waited in
gRPC's buffers. At most 16 actions wait to be sent; newer ones push out older ones.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from typing import Any

from lucky_transport.deadline import Deadline
from lucky_transport.errors import ClosedError, PeerDied, PeerTimeout, TransportError
from lucky_transport.sessions.world_lock import ActionQueue
from lucky_transport.uninterrupted import WaitQueue, start_thread
from lucky_transport_grpc.runtime import grpc
from lucky_transport_openra.bridge import Bridge
from lucky_transport_openra.wire import SESSION

_CLOSE_S = 5.0


class GameStreamClient:
    """A stream of one session; dropped: observations that no reader took."""

    def __init__(self, bridge: Bridge, session_id: str = "") -> None:
        """Open the stream. session_id: which one, where the engine is ours; "" = the engine's choice."""
        self.dropped = 0
        self._bridge = bridge
        self._lock = threading.Lock()
        self._changed = WaitQueue()
        self._newest: Any = None
        self._looked_at = True
        self._error: TransportError | None = None
        self._ended = False
        self._actions = ActionQueue()
        self._call = bridge.open_stream(self._outgoing(), [(SESSION, session_id)] if session_id else [])
        self._reader = threading.Thread(target=self._read, name="lucky-openra-reader", daemon=True)
        start_thread(self._reader)

    def act(self, actions: Sequence[Any]) -> int:
        """Send these `AgentAction`s; never waits. Returns how many were pushed out. Raises what ended the stream."""
        with self._lock:
            if self._ended:
                raise self._why_it_ended()
            pushed_out = self._actions.put(actions)
        self._changed.wake_all()
        return pushed_out

    def latest(self, after_tick: int = -1, deadline: Deadline | None = None) -> Any:
        """Return the newest `GameObservation`, which is later than `after_tick`; waits for one while there is none.

        Raises PeerTimeout, and what ended the stream (PeerDied when the engine did) once nothing newer can come.
        """
        deadline = Deadline.after(deadline, self._bridge.settings.step_timeout_s)
        found = self._changed.wait_for(lambda: self._is_later(after_tick) or self._ended, deadline.remaining_s)
        with self._lock:
            if self._is_later(after_tick):
                self._looked_at = True
                return self._newest
            if found:
                raise self._why_it_ended()
        raise PeerTimeout(
            f"no observation after tick {after_tick} within {deadline.timeout_s:g} s",
            backend="openra",
            hint="does the game run? it may wait for its first action (planning)",
        )

    def close(self) -> None:
        """End the stream, and its session unless it was asked for by its id; idempotent."""
        self._call.cancel()
        self._end(ClosedError("the stream is closed", backend="openra", hint="open another one"))
        self._reader.join(_CLOSE_S)

    def _is_later(self, tick: int) -> bool:
        return self._newest is not None and self._newest.tick > tick

    def _read(self) -> None:
        error: TransportError = PeerDied("the engine ended the stream", backend="openra", hint="open another one")
        try:
            for observation in self._call:
                with self._lock:
                    self.dropped += not self._looked_at
                    self._newest, self._looked_at = observation, False
                self._changed.wake_all()
        except grpc.RpcError as broken:
            error = self._bridge.error(broken)
        self._end(error)

    def _end(self, error: TransportError) -> None:
        with self._lock:
            if not self._ended:
                self._error, self._ended = error, True
        self._changed.wake_all()

    def _why_it_ended(self) -> TransportError:
        assert self._error is not None
        return type(self._error)(str(self._error), backend=self._error.backend)

    def _outgoing(self) -> Iterator[Any]:
        """Give gRPC the actions as they come; it asks on a thread of its own."""
        while True:
            self._changed.wait_for(lambda: self._ended or self._actions)
            with self._lock:
                if self._ended:
                    return
                waiting = self._actions.drain()
            yield from waiting

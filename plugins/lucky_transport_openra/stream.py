"""The bridge's stream: observations of a session that runs freely go out, actions come in. It ends when either side
does, or with the game; a session that was not asked for by its id ends with it.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

from lucky_transport.deadline import Deadline
from lucky_transport.errors import (
    PeerDied,
    PeerTimeout,
    SessionEnded,
    TransportError,
    UnknownSession,
    to_wire_error,
)
from lucky_transport.sessions.api import WorldSnapshot
from lucky_transport.uninterrupted import start_thread
from lucky_transport_grpc.runtime import grpc
from lucky_transport_openra.service import BridgeService, clamped
from lucky_transport_openra.wire import SESSION

#: How often a stream whose session shows nothing new checks that its client still listens.
_SLICE_S = 0.1
_FAST_ADVANCE = 21


class GameStream:
    """One call of GameSession: `observations` is what it answers."""

    def __init__(self, service: BridgeService, actions: Iterator[Any], context: Any) -> None:
        self._service = service
        self._sessions = service.sessions
        self._actions = actions
        self._context = context
        self._named = dict(context.invocation_metadata()).get(SESSION, "")
        self._id = ""
        self._over = threading.Event()
        self._error: TransportError | None = None

    def observations(self) -> Iterator[Any]:
        """Yield the newest observation, again and again; the last one is that of the end. Raises TransportError.

        Observations that the connection had no room for in time are not made.
        """
        service, sessions = self._service, self._sessions
        self._id = self._named or service.claim()
        try:
            deadline = service.deadline(self._context)
            seen = sessions.latest(self._id, -1, deadline)
            reader = service.reader(self._id, deadline)
            if not service.options.planning:
                self._run()
            start_thread(threading.Thread(target=self._receive, name="lucky-openra-actions", daemon=True))
            yield reader.read(seen)
            while not seen.is_over and (newer := self._next(seen.ticks)) is not None:
                seen = newer
                yield reader.read(seen)
        finally:
            self._end()

    def _run(self) -> None:
        rate_hz = self._service.options.rate_hz
        self._sessions.run(self._id, 1 / self._sessions.worlds.tick_s if rate_hz is None else rate_hz)

    def _next(self, ticks: int) -> WorldSnapshot | None:
        """Return a look later than `ticks`; None when the stream is over.

        Raises SessionEnded (the world failed), and what became of an action.
        """
        while not self._over.is_set() and self._context.is_active():
            if self._service.is_closing:
                raise PeerDied("the engine is closing", backend="openra")
            try:
                return self._sessions.latest(self._id, ticks, Deadline(_SLICE_S))
            except PeerTimeout:
                continue
            except UnknownSession as error:
                raise SessionEnded(f"session {self._id} was destroyed", backend="openra") from error
        if self._error is not None:
            raise self._error
        return None

    def _receive(self) -> None:
        """Pass the caller's actions on until they end, or one of them fails."""
        try:
            for action in self._actions:
                self._obey(action)
        except (SessionEnded, UnknownSession):
            return  # the other half shows the end, or raises why there is none to show
        except grpc.RpcError:
            pass  # which is how gRPC says that the call has ended
        except TransportError as error:
            self._error = error
        except BaseException as error:
            self._error = to_wire_error(self._sessions.engine, "an action of the stream", error)
        self._over.set()

    def _obey(self, action: Any) -> None:
        message = self._service.codec.action_from_wire(action.commands)
        ticks = max((one.ticks for one in action.commands if one.action == _FAST_ADVANCE), default=0)
        if ticks:
            self._sessions.advance(self._id, clamped(ticks), [message])
        else:
            self._sessions.act(self._id, [message])
        if self._service.options.planning and not self._over.is_set():
            self._run()

    def _end(self) -> None:
        self._over.set()
        if self._named:
            with suppress(UnknownSession):
                self._sessions.run(self._id, None)
        else:
            self._service.give_up(self._id)

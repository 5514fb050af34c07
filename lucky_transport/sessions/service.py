"""SessionService: the sessions of an engine, answered over every transport."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from lucky_transport.call import Call
from lucky_transport.codec.flatbuffers import decode
from lucky_transport.deadline import Deadline
from lucky_transport.errors import PeerTimeout
from lucky_transport.messages import (
    ActInSessionRequest,
    ActInSessionResponse,
    AdvanceSessionRequest,
    AdvanceSessionResponse,
    CreateSessionRequest,
    CreateSessionResponse,
    DestroySessionResponse,
    GetLatestRequest,
    GetWorldsRequest,
    GetWorldsResponse,
    ListSessionsRequest,
    ListSessionsResponse,
    RestartSessionRequest,
    RunSessionRequest,
    RunSessionResponse,
    SessionAction,
    SessionRecording,
    SessionRequest,
    SessionSnapshot,
    SessionStatus,
)
from lucky_transport.nesting import json_object
from lucky_transport.sessions.sessions import Sessions
from lucky_transport.sessions.snapshots import to_message

#: How many readers wait at a time, and for how long until they have to ask again.
_WAITING = 8
_LONGEST_WAIT_S = 0.5


def session_handlers(sessions: Sessions) -> dict[str, Callable[[Any, Call], Any]]:
    """Return the handlers of all methods of SessionService, by full name."""
    service = _Service(sessions)
    handlers: dict[str, Callable[[Any, Call], Any]] = {
        "GetWorlds": service.worlds,
        "CreateSession": service.create,
        "GetSession": service.state,
        "ListSessions": service.ids,
        "AdvanceSession": service.advance,
        "ActInSession": service.act,
        "RunSession": service.run,
        "GetLatest": service.latest,
        "RestartSession": service.restart,
        "DestroySession": service.destroy,
        "GetRecording": service.recording,
    }
    return {f"/lucky_transport.v1.SessionService/{name}": handler for name, handler in handlers.items()}


class _Service:
    def __init__(self, sessions: Sessions) -> None:
        self._sessions = sessions
        self._waiting: dict[object, None] = {}

    def worlds(self, request: GetWorldsRequest, call: Call) -> GetWorldsResponse:
        worlds = self._sessions.worlds
        return GetWorldsResponse(list(worlds.maps), list(worlds.events), worlds.tick_s)

    def create(self, request: CreateSessionRequest, call: Call) -> CreateSessionResponse:
        owner = call.caller if request.owned else ""
        if request.recording is not None:
            return CreateSessionResponse(self._sessions.replay(request.recording, owner=owner))
        options = json_object(request.options_json, "options_json")
        return CreateSessionResponse(
            self._sessions.create(request.map_name, request.seed, options, record=request.record, owner=owner)
        )

    def state(self, request: SessionRequest, call: Call) -> SessionStatus:
        return self._sessions.state(request.session_id)

    def ids(self, request: ListSessionsRequest, call: Call) -> ListSessionsResponse:
        return ListSessionsResponse(self._sessions.ids())

    def advance(self, request: AdvanceSessionRequest, call: Call) -> AdvanceSessionResponse:
        done = self._sessions.advance(
            request.session_id,
            request.ticks,
            self._actions(request.actions),
            request.interrupts,
            call.deadline,
            check_every=request.check_every or 1,
            is_cancelled=lambda: call.is_over,
        )
        return AdvanceSessionResponse(to_message(done), done.ticks_done, done.interrupt)

    def act(self, request: ActInSessionRequest, call: Call) -> ActInSessionResponse:
        dropped = self._sessions.act(request.session_id, self._actions(request.actions))
        return ActInSessionResponse(dropped)

    def run(self, request: RunSessionRequest, call: Call) -> RunSessionResponse:
        self._sessions.run(request.session_id, request.rate_hz)
        return RunSessionResponse()

    def latest(self, request: GetLatestRequest, call: Call) -> SessionSnapshot:
        """Wait only for a moment: readers must not hold all the threads that answer calls."""
        after_tick = -1 if request.after_tick is None else request.after_tick
        me = object()
        try:
            self._waiting[me] = None
            wait_s = _LONGEST_WAIT_S if len(self._waiting) <= _WAITING else 0.0
            return to_message(self._sessions.latest(request.session_id, after_tick, Deadline(wait_s)))
        except PeerTimeout:
            return SessionSnapshot()
        finally:
            self._waiting.pop(me, None)

    def restart(self, request: RestartSessionRequest, call: Call) -> SessionSnapshot:
        return to_message(self._sessions.restart(request.session_id, request.seed, call.deadline))

    def destroy(self, request: SessionRequest, call: Call) -> DestroySessionResponse:
        self._sessions.destroy(request.session_id)
        return DestroySessionResponse()

    def recording(self, request: SessionRequest, call: Call) -> SessionRecording:
        return self._sessions.recording(request.session_id)

    def _actions(self, actions: Sequence[SessionAction]) -> list[Any]:
        kind = self._sessions.worlds.action
        return [decode(kind, action.payload) for action in actions]

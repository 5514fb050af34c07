"""The sessions of an engine over any transport, with typed actions and observations.

    client = SessionClient(transport)                       # finds the engine's messages in the registry
    session = client.create(seed=7)
    done = client.advance(session, 10, [CartPoleCommand(True)])

The client closes no transport: its owner does.
"""

from __future__ import annotations

import json
import time
from collections.abc import Collection, Mapping, Sequence
from functools import partial
from typing import Any

from lucky_transport.codec.flatbuffers import encode
from lucky_transport.deadline import Deadline
from lucky_transport.errors import RemoteProtocolError, SpecError, Unimplemented
from lucky_transport.messages import (
    ActInSessionRequest,
    AdvanceSessionRequest,
    AdvanceSessionResponse,
    CreateSessionRequest,
    GetLatestRequest,
    ListSessionsRequest,
    RestartSessionRequest,
    RunSessionRequest,
    SessionAction,
    SessionRecording,
    SessionRequest,
    SessionSnapshot,
    SessionStatus,
)
from lucky_transport.messages.methods import Method, method
from lucky_transport.registry import load, registry
from lucky_transport.sessions.api import (
    DEFAULT_TIMEOUT_S,
    AdvanceRequest,
    AdvanceResult,
    SessionApi,
    WorldSnapshot,
    check_distinct,
    nothing_newer,
)
from lucky_transport.sessions.batch_advance import BatchAdvance
from lucky_transport.sessions.phase import Phase
from lucky_transport.sessions.snapshots import from_message
from lucky_transport.transport import Transport
from lucky_transport.world import Worlds

__all__ = ["SessionClient", "worlds_of"]


def _method(name: str) -> Method:
    return method(f"/lucky_transport.v1.SessionService/{name}")


_CREATE, _STATE, _LIST = _method("CreateSession"), _method("GetSession"), _method("ListSessions")
_ADVANCE, _ACT, _RUN = _method("AdvanceSession"), _method("ActInSession"), _method("RunSession")
_LATEST, _RESTART, _DESTROY = _method("GetLatest"), _method("RestartSession"), _method("DestroySession")
_RECORDING = _method("GetRecording")


def worlds_of(engine: str) -> Worlds:
    """Return the worlds of the engine of that name, for their messages.

    Raises Unimplemented if it has none, or if it is an engine that only its own process knows.
    """
    info = registry().engines.get(engine.partition(":")[0])
    if info is None or not info.worlds:
        raise Unimplemented(f"engine {engine!r} has no sessions", backend=engine, hint="step it as a batch")
    return load(info.worlds, owner=f"engine {engine!r}", extra=info.extra)()


#: The engine lets only a few readers wait for a newer snapshot; the others ask again after this long.
_ASK_AGAIN_S = 0.005


class SessionClient(SessionApi):
    """The caller closes `transport`. worlds: by default those that the registry has for the engine's name.

    owned: sessions that are created here end with this client.
    """

    def __init__(self, transport: Transport, worlds: Worlds | None = None, *, owned: bool = True) -> None:
        self.transport = transport
        self.worlds = worlds or worlds_of(transport.spec.engine)
        self._owned = owned

    def create(
        self,
        map_name: str = "",
        seed: int | None = None,
        options: Mapping[str, Any] | None = None,
        *,
        record: bool = False,
    ) -> str:
        text = _json(options) if options else ""
        request = CreateSessionRequest(map_name, seed, text, self._owned, record)
        return self.transport.call(_CREATE, request).session_id

    def replay(self, recording: SessionRecording) -> str:
        request = CreateSessionRequest(owned=self._owned, recording=recording)
        return self.transport.call(_CREATE, request).session_id

    def recording(self, session_id: str) -> SessionRecording:
        return self.transport.call(_RECORDING, SessionRequest(session_id))

    def ids(self) -> list[str]:
        return self.transport.call(_LIST, ListSessionsRequest()).session_ids

    def state(self, session_id: str) -> SessionStatus:
        status: SessionStatus = self.transport.call(_STATE, SessionRequest(session_id))
        status.phase = _phase(status.phase)
        return status

    def advance(
        self,
        session_id: str,
        ticks: int = 1,
        actions: Sequence[Any] = (),
        interrupts: Collection[str] = (),
        deadline: Deadline | None = None,
        *,
        check_every: int = 1,
    ) -> AdvanceResult:
        request = _message(AdvanceRequest(session_id, ticks, actions, interrupts, check_every))
        return self._advanced(self.transport.call(_ADVANCE, request, Deadline.after(deadline, DEFAULT_TIMEOUT_S)))

    def advance_all(self, requests: Sequence[AdvanceRequest], deadline: Deadline | None = None) -> list[AdvanceResult]:
        check_distinct(requests)
        deadline = Deadline.after(deadline, DEFAULT_TIMEOUT_S)
        calls = [_message(request) for request in requests]
        begins = [partial(self.transport.begin, _ADVANCE, call, deadline) for call in calls]
        return BatchAdvance(begins, self._advanced).run()

    def act(self, session_id: str, actions: Sequence[Any]) -> int:
        return self.transport.call(_ACT, ActInSessionRequest(session_id, _pack(actions))).dropped

    def run(self, session_id: str, rate_hz: float | None) -> None:
        self.transport.call(_RUN, RunSessionRequest(session_id, rate_hz))

    def latest(self, session_id: str, after_tick: int = -1, deadline: Deadline | None = None) -> WorldSnapshot:
        request = GetLatestRequest(session_id, None if after_tick < 0 else after_tick)
        deadline = Deadline.after(deadline, DEFAULT_TIMEOUT_S)
        while True:
            message: SessionSnapshot = self.transport.call(_LATEST, request, deadline)
            if message.observation:
                return from_message(message, self.worlds)
            if deadline.expired:
                raise nothing_newer(session_id, after_tick, deadline)
            time.sleep(min(_ASK_AGAIN_S, deadline.remaining_s))

    def restart(self, session_id: str, seed: int | None = None, deadline: Deadline | None = None) -> WorldSnapshot:
        request = RestartSessionRequest(session_id, seed)
        return self._snapshot(self.transport.call(_RESTART, request, Deadline.after(deadline, DEFAULT_TIMEOUT_S)))

    def destroy(self, session_id: str) -> None:
        self.transport.call(_DESTROY, SessionRequest(session_id))

    def _advanced(self, done: AdvanceSessionResponse) -> AdvanceResult:
        return AdvanceResult.after(self._snapshot(done.snapshot), done.ticks_done, done.interrupt)

    def _snapshot(self, message: SessionSnapshot | None) -> WorldSnapshot:
        if message is None:
            raise RemoteProtocolError("the engine's answer shows no world", hint="the peer is broken")
        return from_message(message, self.worlds)


def _json(options: Mapping[str, Any]) -> str:
    try:
        return json.dumps(dict(options), allow_nan=False)
    except (TypeError, ValueError, RecursionError) as error:
        raise SpecError(
            f"the session's options cannot go to the engine as JSON: {error}",
            hint="pass numbers, text, lists or dicts of them",
        ) from error


def _message(request: AdvanceRequest) -> AdvanceSessionRequest:
    return AdvanceSessionRequest(
        request.session_id, request.ticks, _pack(request.actions), list(request.interrupts), request.check_every
    )


def _pack(actions: Sequence[Any]) -> list[SessionAction]:
    return [SessionAction(encode(action)) for action in actions]


def _phase(name: str) -> Phase:
    try:
        return Phase(name)
    except ValueError as error:
        raise RemoteProtocolError(f"a session is in phase {name!r}", hint="is the engine newer than this?") from error

"""The sessions of an engine over any transport: the same calls as `Sessions`, with typed actions and observations.

    client = SessionClient(transport)                       # knows the messages of engines of the registry
    session = client.create(seed=7)
    outcome = client.advance(session, 10, [CartPoleCommand(True)])

Rule 1: errors are those that `Sessions` raises on the engine's side, and the transport's own.
Rule 2: a call without a deadline gets the sessions' default one, not the transport's: worlds take longer than commands.
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
from lucky_transport.messages import session as messages
from lucky_transport.messages.methods import Method, method
from lucky_transport.registry import load, registry
from lucky_transport.sessions.joint_advance import JointAdvance
from lucky_transport.sessions.news import Advanced, SessionState, Snapshot, nothing_newer
from lucky_transport.sessions.phase import Phase
from lucky_transport.sessions.sessions import DEFAULT_TIMEOUT_S
from lucky_transport.sessions.shared_look import SharedLook, snapshot_of
from lucky_transport.sessions.turn import Turn, check_turns
from lucky_transport.transport import Transport
from lucky_transport.world import Worlds

__all__ = ["SessionClient", "worlds_of"]


def _method(name: str) -> Method:
    return method(f"/lucky_transport.v1.SessionService/{name}")


_CREATE, _STATE, _LIST = _method("CreateSession"), _method("GetSession"), _method("ListSessions")
_ADVANCE, _ACT, _RUN = _method("AdvanceSession"), _method("ActInSession"), _method("RunSession")
_LATEST, _RESTART, _DESTROY = _method("GetLatest"), _method("RestartSession"), _method("DestroySession")
_RECORDING, _SHARE = _method("GetRecording"), _method("ShareSession")


def worlds_of(engine: str) -> Worlds:
    """Return the worlds of an engine of that name, for their messages; raises Unimplemented when it tells of none."""
    info = registry().engine(engine)
    if not info.worlds:
        raise Unimplemented(f"engine {engine!r} has no sessions", backend=engine, hint="step it as a batch")
    return load(info.worlds, owner=f"engine {engine!r}", extra=info.extra)()


#: The engine lets few readers wait for something newer; the others ask again after this long.
_ASK_AGAIN_S = 0.005


class SessionClient:
    """See the module. worlds: whose messages travel, by default those of the engine's name in the registry.

    owned: sessions created here end with this client. The transport stays the caller's.
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
        """Return the id of a new session, at once. See `Sessions.create`."""
        text = _json(options) if options else ""
        request = messages.CreateSessionRequest(map_name, seed, text, self._owned, record)
        return self.transport.call(_CREATE, request).session_id

    def replay(self, recording: messages.SessionRecording) -> str:
        """Return the id of a new session that shows a recorded one again. See `Sessions.replay`."""
        request = messages.CreateSessionRequest(owned=self._owned, recording=recording)
        return self.transport.call(_CREATE, request).session_id

    def recording(self, session_id: str) -> messages.SessionRecording:
        """Return what the session did so far. See `Sessions.recording`."""
        return self.transport.call(_RECORDING, messages.SessionRequest(session_id))

    def ids(self) -> list[str]:
        """Return the ids of all sessions, oldest first."""
        return self.transport.call(_LIST, messages.ListSessionsRequest()).session_ids

    def state(self, session_id: str) -> SessionState:
        """Return where the session stands. See `Sessions.state`."""
        status: messages.SessionStatus = self.transport.call(_STATE, messages.SessionRequest(session_id))
        return SessionState(
            *(status.session_id, status.map_name, _phase(status.phase), status.ticks, status.is_over),
            *(status.result, status.score, status.error, status.dropped, status.rate_hz),
        )

    def advance(
        self,
        session_id: str,
        ticks: int = 1,
        actions: Sequence[Any] = (),
        interrupts: Collection[str] = (),
        deadline: Deadline | None = None,
        *,
        check_every: int = 1,
    ) -> Advanced:
        """Go on by that many ticks. See `Sessions.advance`."""
        request = _request(Turn(session_id, ticks, actions, interrupts, check_every))
        return self._advanced(self.transport.call(_ADVANCE, request, Deadline.after(deadline, DEFAULT_TIMEOUT_S)))

    def advance_all(self, turns: Sequence[Turn], deadline: Deadline | None = None) -> list[Advanced]:
        """Advance several sessions together. See `Sessions.advance_all`.

        All of them are asked for before the first answer is awaited, where the transport can have several calls under
        way (`Transport.begin`): the engine does the next turn while the outcome of the last one is read here.
        """
        check_turns(turns)
        deadline = Deadline.after(deadline, DEFAULT_TIMEOUT_S)
        requests = [_request(turn) for turn in turns]
        begins = [partial(self.transport.begin, _ADVANCE, request, deadline) for request in requests]
        return JointAdvance(begins, self._advanced).run()

    def act(self, session_id: str, actions: Sequence[Any]) -> int:
        """Have the next tick take these actions. See `Sessions.act`."""
        return self.transport.call(_ACT, messages.ActInSessionRequest(session_id, _pack(actions))).dropped

    def run(self, session_id: str, rate_hz: float | None) -> None:
        """Let the session run freely, or stop it (None). See `Sessions.run`."""
        self.transport.call(_RUN, messages.RunSessionRequest(session_id, rate_hz))

    def latest(self, session_id: str, after_tick: int = -1, deadline: Deadline | None = None) -> Snapshot:
        """Return the newest look at the world, later than `after_tick`. See `Sessions.latest`."""
        request = messages.GetLatestRequest(session_id, None if after_tick < 0 else after_tick)
        deadline = Deadline.after(deadline, DEFAULT_TIMEOUT_S)
        while True:
            look: messages.SessionLook = self.transport.call(_LATEST, request, deadline)
            if look.observation:
                return snapshot_of(look, self.worlds)
            if deadline.expired:
                raise nothing_newer(session_id, after_tick, deadline)
            time.sleep(min(_ASK_AGAIN_S, deadline.remaining_s))

    def watch(self, session_id: str) -> SharedLook:
        """Return the session as it is seen in shared memory: its newest look without a call.

        Raises UnknownSession, SessionEnded, Unimplemented (the engine serves no shared memory), SegmentError.
        """
        request = messages.SessionRequest(session_id)

        def share() -> messages.ShareSessionResponse:
            return self.transport.call(_SHARE, request, Deadline(DEFAULT_TIMEOUT_S))

        return SharedLook(session_id, share, self.worlds)

    def restart(self, session_id: str, seed: int | None = None, deadline: Deadline | None = None) -> Snapshot:
        """Start the world over. See `Sessions.restart`."""
        request = messages.RestartSessionRequest(session_id, seed)
        return self._snapshot(self.transport.call(_RESTART, request, Deadline.after(deadline, DEFAULT_TIMEOUT_S)))

    def destroy(self, session_id: str) -> None:
        """End a session; idempotent."""
        self.transport.call(_DESTROY, messages.SessionRequest(session_id))

    def _advanced(self, done: messages.AdvanceSessionResponse) -> Advanced:
        seen = self._snapshot(done.look)
        return Advanced(
            *(seen.observation, seen.ticks, seen.is_over, seen.result, seen.score, done.ticks_done, done.interrupt)
        )

    def _snapshot(self, look: messages.SessionLook | None) -> Snapshot:
        if look is None:
            raise RemoteProtocolError("the engine's answer shows no world", hint="the peer is broken")
        return snapshot_of(look, self.worlds)


def _json(options: Mapping[str, Any]) -> str:
    try:
        return json.dumps(dict(options))
    except (TypeError, ValueError, RecursionError) as error:
        raise SpecError(
            f"the session's options cannot go to the engine as JSON: {error}",
            hint="pass numbers, text, lists or dicts of them",
        ) from error


def _request(turn: Turn) -> messages.AdvanceSessionRequest:
    return messages.AdvanceSessionRequest(
        turn.session_id, turn.ticks, _pack(turn.actions), list(turn.interrupts), turn.check_every
    )


def _pack(actions: Sequence[Any]) -> list[messages.SessionAction]:
    return [messages.SessionAction(encode(action)) for action in actions]


def _phase(name: str) -> Phase:
    try:
        return Phase(name)
    except ValueError as error:
        raise RemoteProtocolError(f"a session is in phase {name!r}", hint="is the engine newer than this?") from error

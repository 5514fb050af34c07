"""`SessionApi` over OpenRA-RL's bridge, for our engine and the real game. What the bridge cannot express is refused,
not imitated.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from lucky_transport.config import Settings
from lucky_transport.deadline import Deadline
from lucky_transport.endpoint import Endpoint
from lucky_transport.errors import LocalProtocolError, SpecError, TransportError
from lucky_transport.messages import SessionStatus
from lucky_transport.sessions.api import AdvanceRequest, AdvanceResult, SessionApi, WorldSnapshot, check_distinct
from lucky_transport.sessions.batch_advance import BatchAdvance
from lucky_transport.sessions.phase import Phase
from lucky_transport.sessions.world_lock import ActionQueue
from lucky_transport.world import Worlds
from lucky_transport_openra.bridge import Bridge, Retry, advance_request
from lucky_transport_openra.game_stream import GameStreamClient
from lucky_transport_openra.skirmish.messages import Observation, Orders
from lucky_transport_openra.skirmish.view import score_of
from lucky_transport_openra.skirmish.world import SkirmishWorlds, folded
from lucky_transport_openra.wire import BridgeCodec

_CODEC = BridgeCodec(Observation, Orders)

#: How long a closing client waits for answers.
_FAREWELL_S = 2.0

_PHASES = {
    "waiting": Phase.CREATING,
    "playing": Phase.PLAYING,
    "game_over": Phase.OVER,
    "no_bridge": Phase.GONE,
}


def snapshot(wire: Any) -> WorldSnapshot:
    """Return what a `GameObservation` shows."""
    observation: Observation = _CODEC.observation_from_wire(wire)
    return WorldSnapshot(observation, wire.tick, wire.done, wire.result, score_of(observation))


def _advanced(wire: Any) -> AdvanceResult:
    seen = snapshot(wire)
    return AdvanceResult(
        *(seen.observation, seen.ticks, seen.is_over, seen.result, seen.score),
        ticks_done=wire.actual_ticks_advanced,
        interrupt=wire.interrupt_reason,
    )


@dataclass(slots=True)
class _Known:
    """What is known of a session here. id: the engine's own name for it."""

    id: str
    map_name: str = ""
    options: Mapping[str, Any] = field(default_factory=dict[str, Any])
    stream: GameStreamClient | None = None
    queue: ActionQueue = field(default_factory=ActionQueue)
    is_owned: bool = False  # created here: it ends with us

    def drain(self) -> list[Any]:
        """Return the commands of the actions that wait; none waits afterwards."""
        given = self.queue.drain()
        return [command for action in given for command in _CODEC.action_to_wire(action).commands]


class BridgeSessions(SessionApi):
    """The sessions of the engine at `endpoint`; `close` destroys those that were created here.

    worlds: whose messages travel, and how a game is a row of a batch; never asked for a world.
    """

    def __init__(
        self,
        endpoint: Endpoint,
        settings: Settings,
        retry: Retry | None = None,
        *,
        worlds: Worlds | None = None,
    ) -> None:
        self.bridge = Bridge(endpoint, settings, retry)
        self.worlds: Worlds = worlds or SkirmishWorlds()
        self._known: dict[str, _Known] = {}

    def create(
        self,
        map_name: str = "",
        seed: int | None = None,
        options: Mapping[str, Any] | None = None,
        *,
        record: bool = False,
    ) -> str:
        """Return the id of a new session; its world is built meanwhile. options: "bots" is all the bridge carries.

        Raises SpecError, Busy, Unimplemented (an engine of the older generation, or `record`), PeerDied, PeerTimeout.
        """
        if record:
            raise self._unimplemented("recordings")
        found = _Known("", map_name, dict(options or {}), is_owned=True)
        found.id = self._make(found, seed)
        self._known[found.id] = found
        return found.id

    def state(self, session_id: str) -> SessionStatus:
        """Return where the session stands, as far as the bridge tells: no score, and nothing of its queue."""
        known = self._find(session_id)
        state = self.bridge.state(known.id)
        is_over = state.phase == "game_over"
        result = ("win" if state.winner == state.player_faction else "lose") if state.winner else "draw" * is_over
        phase = _PHASES.get(state.phase, Phase.CREATING)
        return SessionStatus(session_id, known.map_name, phase, state.tick, is_over, result)

    def advance(
        self,
        session_id: str,
        ticks: int = 1,
        actions: Sequence[Orders] = (),
        interrupts: Collection[str] = (),
        deadline: Deadline | None = None,
        *,
        check_every: int = 1,
    ) -> AdvanceResult:
        """Go on by up to 5,000 ticks, 0: only look; see `Sessions.advance`. At most 16 actions wait for the first tick.

        Raises the errors of `Bridge.advance`.
        """
        deadline = Deadline.after(deadline, self.bridge.settings.step_timeout_s)
        known = self._find(session_id)
        known.queue.put(actions)
        if ticks < 1:
            return _advanced(self.bridge.look(known.id, deadline))
        commands = known.drain()
        return _advanced(
            self.bridge.advance(known.id, ticks, commands, sorted(interrupts), deadline, check_every=check_every)
        )

    def advance_all(self, requests: Sequence[AdvanceRequest], deadline: Deadline | None = None) -> list[AdvanceResult]:
        """Advance several sessions together; see `Sessions.advance_all`, and `advance`.

        What the engine refused for want of a worker slot is asked for again, at last as often as `retry` says.
        """
        check_distinct(requests)
        deadline = Deadline.after(deadline, self.bridge.settings.step_timeout_s)
        together = BatchAdvance([self._beginning(request, deadline) for request in requests], _advanced)
        return self.bridge.retry.call(together.run, deadline)

    def _beginning(self, request: AdvanceRequest, deadline: Deadline) -> Callable[[], Future[Any]]:
        """Return what starts the request's call, each time with the actions that waited until now."""
        known = self._find(request.session_id)
        known.queue.put(request.actions)
        if request.ticks < 1:
            return partial(self.bridge.begin_advance, advance_request(known.id, 1), deadline, only_look=True)
        interrupts = sorted(request.interrupts)
        call = advance_request(known.id, request.ticks, known.drain(), interrupts, check_every=request.check_every)
        return partial(self.bridge.begin_advance, call, deadline)

    def run(self, session_id: str, rate_hz: float | None) -> None:
        """Let the session run freely, at the engine's own rate, or stop listening to it (None)."""
        known = self._kept(session_id)
        if rate_hz is not None:
            known.stream = known.stream or GameStreamClient(self.bridge, known.id)
        elif known.stream is not None:
            known.stream.close()
            known.stream = None

    def act(self, session_id: str, actions: Sequence[Orders]) -> int:
        """Have the next tick take these actions; one that does not run freely takes them with its next advance.

        Returns how many were pushed out of this side's queue of 16.
        """
        known = self._kept(session_id)
        if known.stream is None:
            return known.queue.put(actions)
        return known.stream.act([_CODEC.action_to_wire(action) for action in actions])

    def latest(self, session_id: str, after_tick: int = -1, deadline: Deadline | None = None) -> WorldSnapshot:
        """Return the newest look at the session; one that does not run freely is looked at now.

        Raises PeerTimeout, PeerDied, SessionEnded, LocalProtocolError (it stands still, and nothing newer comes).
        """
        stream = self._find(session_id).stream
        if stream is not None:
            return snapshot(stream.latest(after_tick, deadline))
        seen = self.advance(session_id, 0, deadline=deadline)
        if seen.ticks <= after_tick:
            raise LocalProtocolError(
                f"session {session_id!r} stands still at tick {seen.ticks}", backend="openra", hint="run or advance it"
            )
        return seen

    def restart(self, session_id: str, seed: int | None = None, deadline: Deadline | None = None) -> WorldSnapshot:
        """Start the session over, as a new one of the engine's that ends with us, and return its first look."""
        known = self._kept(session_id)
        self._end(known)
        known.queue.drain()
        known.id, known.is_owned = self._make(known, seed), True
        return self.advance(session_id, 0, deadline=deadline)

    def destroy(self, session_id: str) -> None:
        """End a session; idempotent. Raises PeerDied, PeerTimeout."""
        known = self._find(session_id)
        self._known.pop(session_id, None)
        self._end(known)

    def close(self) -> None:
        """End the connection, and before it the sessions created here, as far as the engine answers; idempotent."""
        ending, self._known = list(self._known.values()), {}
        for known in ending:
            if known.stream is not None:
                known.stream.close()
        deadline = Deadline(_FAREWELL_S)
        with suppress(TransportError):  # an engine that does not answer gets no further question
            for known in ending:
                if known.is_owned:
                    self.bridge.destroy(known.id, deadline)
        self.bridge.close()

    def _find(self, session_id: str) -> _Known:
        """Return what is known of a session; one that another client created has the engine's own id."""
        return self._known.get(session_id) or _Known(session_id)

    def _kept(self, session_id: str) -> _Known:
        """Return what is known of a session, for something that is to be kept with it."""
        return self._known.setdefault(session_id, _Known(session_id))

    def _make(self, known: _Known, seed: int | None) -> str:
        unknown = [key for key in known.options if key != "bots"]
        if unknown:
            raise SpecError(f"option {unknown[0]!r} does not travel over the bridge", backend="openra", hint="use bots")
        return self.bridge.create(known.map_name, known.options.get("bots", ""), 0 if seed is None else folded(seed))

    def _end(self, known: _Known) -> None:
        if known.stream is not None:
            known.stream.close()
            known.stream = None
        self.bridge.destroy(known.id)

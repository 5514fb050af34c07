"""One player's games, one after the other: the engine is started if need be, watched, and started again if it died.

with Match(GameLaunch("/opt/openra", port=9999)) as match:       # the real engine, in a process of its own
    seen = match.reset(seed=7)
    while not seen.is_over:
        seen = match.step(Orders([...]), ticks=25)

with Match("openra://127.0.0.1:9999") as match: ...              # an engine that runs already, real or ours
"""

from __future__ import annotations

import time
from collections.abc import Collection, Generator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace

from lucky_transport.closing import Closing
from lucky_transport.config import Settings, load_settings
from lucky_transport.deadline import Deadline
from lucky_transport.endpoint import Endpoint
from lucky_transport.errors import (
    NotReachable,
    PeerDied,
    PeerTimeout,
    SessionEnded,
    TransportError,
    Unimplemented,
    UnknownSession,
)
from lucky_transport.sessions.api import AdvanceResult, WorldSnapshot
from lucky_transport_openra.bridge_sessions import BridgeSessions
from lucky_transport_openra.game_process import GameLaunch, GameProcess, Supervisor
from lucky_transport_openra.lifecycle import Lifecycle, MatchEvent, MatchStage
from lucky_transport_openra.skirmish.messages import Orders


@dataclass(frozen=True, slots=True)
class MatchOptions:
    """map_name, bots: of each game. retries, retry_s: how often, and how long apart, an engine is asked whether it is
    ready. is_streamed: stream the game in any case. plans: the game stands still until the first orders, so that there
    is time to think (for a streamed game a server of ours must have been told `planning=1`).
    """

    map_name: str = ""
    bots: str = ""
    retries: int = 120
    retry_s: float = 0.5
    is_streamed: bool = False
    plans: bool = False


class _UnaryPlay:
    """A game of the newer generation: a session, which stands still between the calls that advance it."""

    def __init__(self, sessions: BridgeSessions, session_id: str) -> None:
        self._sessions = sessions
        self._id = session_id

    def begin(self) -> WorldSnapshot:
        return self._sessions.advance(self._id, 1)

    def step(self, actions: Sequence[Orders], ticks: int, interrupts: Collection[str]) -> AdvanceResult:
        return self._sessions.advance(self._id, ticks, actions, interrupts)

    def end(self) -> None:
        with suppress(TransportError):
            self._sessions.destroy(self._id)


class _StreamedPlay:
    """A game of the older generation: the engine's one, which goes on by itself; interrupts are not looked for."""

    def __init__(self, sessions: BridgeSessions, timeout_s: float) -> None:
        self._sessions = sessions
        self._timeout_s = timeout_s
        self._ticks = -1

    def begin(self) -> WorldSnapshot:
        self._sessions.run("", 0.0)
        seen = self._sessions.latest("", -1, Deadline(self._timeout_s))
        self._ticks = seen.ticks
        return seen

    def step(self, actions: Sequence[Orders], ticks: int, interrupts: Collection[str]) -> AdvanceResult:
        self._sessions.act("", actions or [Orders()])
        start, deadline = self._ticks, Deadline(self._timeout_s)
        seen = self._sessions.latest("", start, deadline)
        while seen.ticks < start + ticks and not seen.is_over:
            seen = self._sessions.latest("", seen.ticks, deadline)
        self._ticks = seen.ticks
        return AdvanceResult(seen.observation, seen.ticks, seen.is_over, seen.result, seen.score, seen.ticks - start)

    def end(self) -> None:
        self._sessions.run("", None)


class Match(Closing):
    """Plays on the engine at an endpoint, or on one that it starts.

    Whatever goes wrong, the way leads through CLEANUP back to IDLE (see `lifecycle`), and the next `reset` starts
    again. The newer generation's calls are used where the engine has them; else its one game is streamed.
    """

    def __init__(
        self, where: GameLaunch | Endpoint | str, options: MatchOptions | None = None, settings: Settings | None = None
    ) -> None:
        is_ours = isinstance(where, GameLaunch)
        self._launch = where if is_ours else None
        self._supervisor = Supervisor(where) if is_ours else None
        self._endpoint = where.endpoint if is_ours else Endpoint.parse(where)
        self._options = options or MatchOptions()
        self._settings = settings or load_settings()
        self._life = Lifecycle()
        self._sessions: BridgeSessions | None = None
        self._play: _UnaryPlay | _StreamedPlay | None = None

    @property
    def stage(self) -> MatchStage:
        """Where the present game stands."""
        return self._life.state

    @property
    def past(self) -> list[MatchStage]:
        """The last hundred stages, the present one last."""
        return list(self._life.past)

    @property
    def pid(self) -> int:
        """The engine's process, 0 where it is not ours or does not run."""
        return self._supervisor.pid if self._supervisor is not None else 0

    def reset(self, seed: int | None = None) -> WorldSnapshot:
        """Begin a new game and return its first look; the engine is started if it does not run.

        Raises PeerTimeout (not ready after the last retry), PeerDied, NotReachable; the match is then idle again.
        """
        self._clean_up()
        with self._guarded():
            if self._supervisor is None:
                self._life.on(MatchEvent.FOUND)
            else:
                self._start(self._supervisor)
            self._play = self._connect(seed)
            self._life.on(MatchEvent.ANSWERED)
            seen = self._play.begin()
            self._life.on(MatchEvent.PLAN if self._options.plans else MatchEvent.FIRST)
        if self._supervisor is not None:
            self._supervisor.note_success()
        return seen

    def step(self, orders: Orders | None = None, ticks: int = 1, interrupts: Collection[str] = ()) -> AdvanceResult:
        """Give orders, go on by `ticks` (streamed: until at least as many have passed) and return what is to be seen.

        Raises PeerDied, SessionEnded, PeerTimeout; the match is then idle again. LocalProtocolError when no game goes
        on.
        """
        if self.stage is MatchStage.PLANNING:
            self._life.on(MatchEvent.ACT)
        if self.stage is not MatchStage.PLAYING or self._play is None:
            raise self._life.state_error(MatchEvent.ACT)
        with self._guarded():
            advanced = self._play.step([] if orders is None else [orders], ticks, interrupts)
            if advanced.is_over:
                self._life.on(MatchEvent.OVER)
        return advanced

    def show_replay(self, file: str, timeout_s: float = 600.0) -> None:
        """Have an engine of our own show a recorded game (.orarep) and return when all of it was shown.

        Raises NotReachable (the match has no engine of its own), PeerDied (it failed), PeerTimeout.
        """
        if self._launch is None:
            raise NotReachable("a replay needs an engine of our own", backend="openra", hint="pass a GameLaunch")
        self.close()
        with self._guarded():
            self._life.on(MatchEvent.REPLAY)
            process = GameProcess(replace(self._launch, replay=file))
            try:
                self._life.on(MatchEvent.STARTED)
                process.await_end(Deadline(timeout_s))
            finally:
                process.stop()
            self._life.on(MatchEvent.CONSUMED)
        self._clean_up()

    def close(self) -> None:
        """End the game, and the engine if it is ours; idempotent."""
        self._clean_up()
        if self._supervisor is not None:
            self._supervisor.stop()

    def _start(self, supervisor: Supervisor) -> None:
        self._life.on(MatchEvent.RESET)
        process = supervisor.ensure()
        self._life.on(MatchEvent.SPAWNED)
        process.await_serving(Deadline(self._settings.start_timeout_s))
        self._life.on(MatchEvent.SERVING)

    def _connect(self, seed: int | None) -> _UnaryPlay | _StreamedPlay:
        """Return a game that is ready to be played."""
        options = self._options
        self._sessions = BridgeSessions(self._endpoint, self._settings)
        self._await_phase("")
        if not options.is_streamed:
            with suppress(Unimplemented):  # the older generation
                session_id = self._sessions.create(options.map_name, seed, {"bots": options.bots})
                self._await_phase(session_id, "playing", "game_over")
                return _UnaryPlay(self._sessions, session_id)
        return _StreamedPlay(self._sessions, self._settings.step_timeout_s)

    def _await_phase(self, session_id: str, *phases: str) -> None:
        """Ask until the session is in one of `phases`, or only until there is an answer. Raises PeerTimeout."""
        assert self._sessions is not None
        said = ""
        for attempt in range(self._options.retries):
            if attempt:
                time.sleep(self._options.retry_s)
            try:
                said = self._sessions.bridge.state(session_id, Deadline(self._settings.command_timeout_s)).phase
            except (PeerDied, PeerTimeout) as error:
                said = str(error)
                continue
            if not phases or said in phases:
                return
        raise PeerTimeout(
            f"the engine at {self._endpoint} was not ready after {self._options.retries} looks: {said}",
            backend="openra",
            hint="raise MatchOptions.retries",
        )

    @contextmanager
    def _guarded(self) -> Generator[None]:
        """Whatever fails inside ends the game: it is noted in the life of the match, and cleaned up."""
        try:
            yield
        except PeerTimeout:
            self._life.on(MatchEvent.GAVE_UP)
            self._clean_up()
            raise
        except (NotReachable, PeerDied, SessionEnded, UnknownSession) as error:
            self._life.on(MatchEvent.LOST)
            words = self._exit_report()
            self._clean_up()
            if words:
                raise PeerDied(f"{error}\nthe engine process ended with {words}", backend="openra") from error
            raise
        except BaseException:
            self._clean_up()
            raise

    def _exit_report(self) -> str:
        return self._supervisor.exit_report() if self._supervisor is not None else ""

    def _clean_up(self) -> None:
        """End the game from whatever stage it is in; afterwards the match is idle."""
        if self.stage is MatchStage.IDLE:
            return
        self._life.on(MatchEvent.END)
        play, self._play = self._play, None
        if play is not None:
            play.end()
        sessions, self._sessions = self._sessions, None
        if sessions is not None:
            sessions.close()
        self._life.on(MatchEvent.CLEAN)

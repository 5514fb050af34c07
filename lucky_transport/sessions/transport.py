"""Sessions as a batch: `SessionTransport` steps n sessions in lock-step, so that `VectorEnv` works on them.

    with lucky_transport.connect("shm://worlds") as client:
        transport = SessionTransport(SessionClient(client.transport), num_envs=64, seed=0)
        with VectorEnv(transport) as env:
            ...

A step is one advance of all sessions together, a reset one restart. The rows are made on this side, bit for bit those
of `WorldsEngine`.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lucky_transport.deadline import Deadline
from lucky_transport.engine import HOLD, RESET, TICK, Buffers
from lucky_transport.errors import PeerDied, PeerTimeout, TransportError, Unimplemented
from lucky_transport.lockstep import LockstepEvent, LockstepState, LockstepTransport
from lucky_transport.messages.methods import Method, method
from lucky_transport.sessions.api import AdvanceRequest, SessionApi, WorldSnapshot
from lucky_transport.sessions.batch import BatchRow, EpisodeSeeds, batch_of, batch_spec
from lucky_transport.transport import Capabilities, Frame

__all__ = ["SessionTransport"]

_SET_SEEDS = method("BatchService/SetSeeds")
_TIMEOUT_S = 60.0


class SessionTransport(LockstepTransport):
    """n sessions, created by the first exchange and destroyed by `close`; the caller closes what is behind `sessions`.

    map_name, options: those of all of them; env i is seeded with seed + i. After an exchange that failed the sessions
    are at different ticks: reset them.

    Raises SpecError when the worlds cannot be rows of a batch.
    """

    name = "sessions"
    capabilities = Capabilities(commands=False, sessions=True)

    def __init__(
        self,
        sessions: SessionApi,
        num_envs: int = 1,
        *,
        seed: int = 0,
        map_name: str = "",
        options: Mapping[str, Any] | None = None,
        engine: str = "sessions",
        timeout_s: float = _TIMEOUT_S,
    ) -> None:
        spec = batch_spec(sessions.worlds, engine, num_envs, {})
        buffers = Buffers.allocate(spec)
        super().__init__(spec, buffers.actions)
        self._batch = batch_of(sessions.worlds, engine)
        self._sessions = sessions
        self._map_name = map_name
        self._options = options
        self._timeout_s = timeout_s
        self._seeds = EpisodeSeeds(seed, num_envs)
        self._ids: list[str] = []
        self._is_shown = False  # the first row of every session
        self._ticks = [0] * num_envs  # of each session's row
        self._restarts: dict[int, int] | None = None  # env -> seed, of the open exchange; None before it has begun
        self._advances: dict[int, AdvanceRequest] = {}  # by env
        self._rows = [BatchRow(self._batch, buffers, env) for env in range(num_envs)]
        self._frame = Frame.showing(buffers)
        self._control: NDArray[np.uint8] | None = None

    def send(self, actions: NDArray[Any], control: NDArray[np.uint8] | None = None) -> None:
        checked, self._control = self._check(actions, control)
        self._keep(checked)
        self._restarts = None
        self._lockstep.on(LockstepEvent.SEND)

    def recv(self, deadline: Deadline | None = None) -> Frame:
        self._check_sent()
        deadline = Deadline.after(deadline, self._timeout_s)
        try:
            self._step(deadline)
        except PeerTimeout:
            raise
        except PeerDied:
            self._lockstep.on(LockstepEvent.LOST)
            raise
        except TransportError:
            self._lockstep.on(LockstepEvent.REFUSED)
            raise
        self._lockstep.on(LockstepEvent.FRAME)
        return self._numbered(self._frame)

    def _create(self, deadline: Deadline) -> bool:
        """Create the sessions if there are none yet; True if so. PeerTimeout leaves them, any other error none."""
        if self._is_shown:
            return False
        try:
            for env in range(len(self._ids), self.spec.num_envs):
                self._ids.append(self._sessions.create(self._map_name, self._seeds.following(env), self._options))
            snapshots = self._sessions.advance_all([AdvanceRequest(each, 0) for each in self._ids], deadline)
        except PeerTimeout:
            raise
        except BaseException:
            self._destroy()
            raise
        for env, snapshot in enumerate(snapshots):
            self._show_first(env, snapshot)
        self._is_shown = True
        return True

    def _show_first(self, env: int, snapshot: WorldSnapshot) -> None:
        self._rows[env].write_first(snapshot.observation, snapshot)
        self._ticks[env] = snapshot.ticks

    def _step(self, deadline: Deadline) -> None:
        """Restart the sessions to be reset, one by one, then advance the others together.

        After PeerTimeout it goes on where the sessions are: none makes a tick twice.
        """
        is_fresh = self._create(deadline)
        if self._restarts is None:
            self._begin(is_fresh)
        else:
            self._resume(deadline)
        assert self._restarts is not None
        for env, seed in tuple(self._restarts.items()):
            self._show_first(env, self._sessions.restart(self._ids[env], seed, deadline))
            del self._restarts[env]
        results = self._sessions.advance_all(list(self._advances.values()), deadline)
        for env, done in zip(self._advances, results, strict=True):
            self._rows[env].write(done.observation, done)
            self._ticks[env] = done.ticks

    def _begin(self, is_fresh: bool) -> None:
        """Note what the exchange asks of each session."""
        self._restarts, self._advances = {}, {}
        for env, row in enumerate(self._rows):
            command = 0 if self._control is None else int(self._control[env])
            if command & HOLD:
                continue
            if not command & RESET:
                actions = [] if command & TICK else row.actions()
                self._advances[env] = AdvanceRequest(self._ids[env], self._batch.ticks_per_step, actions)
            elif not is_fresh:
                self._restarts[env] = self._seeds.following(env)

    def _resume(self, deadline: Deadline) -> None:
        """Ask each session that has advanced already only for the ticks that are left."""
        shown = self._sessions.advance_all([AdvanceRequest(self._ids[env], 0) for env in self._advances], deadline)
        for env, now in zip(tuple(self._advances), shown, strict=True):
            if done := now.ticks - self._ticks[env]:
                self._advances[env] = AdvanceRequest(self._ids[env], self._batch.ticks_per_step - done)

    def call(self, method: Method, request: Any, deadline: Deadline | None = None) -> Any:
        if self._lockstep.state is LockstepState.CLOSED:
            raise self._lockstep.state_error(LockstepEvent.SEND)
        self._check_process()
        if method is not _SET_SEEDS:
            raise Unimplemented(f"engine {self.spec.engine!r} does not implement {method.name}", backend=self.name)
        return self._seeds.set(request)

    def implements(self, method: Method) -> bool:
        return method is _SET_SEEDS

    def close(self) -> None:
        if self._lockstep.state is not LockstepState.CLOSED:
            self._lockstep.on(LockstepEvent.CLOSE)
            if os.getpid() == self._pid:
                self._destroy()

    def _destroy(self) -> None:
        ids, self._ids = self._ids, []
        with contextlib.suppress(TransportError):  # a dead engine has no sessions any more
            for session_id in ids:
                self._sessions.destroy(session_id)

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
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lucky_transport.deadline import Deadline
from lucky_transport.engine import HOLD, RESET, TICK, Buffers
from lucky_transport.errors import PeerDied, TransportError, Unimplemented
from lucky_transport.lockstep import Lockstep, LockstepEvent, LockstepState
from lucky_transport.messages.methods import Method, method
from lucky_transport.sessions.api import AdvanceRequest, SessionApi
from lucky_transport.sessions.batch import BatchRow, EpisodeSeeds, batch_of, batch_spec
from lucky_transport.spec.actions import Bounds, check_actions, check_control
from lucky_transport.transport import Capabilities, Frame, Transport

__all__ = ["SessionTransport"]

_SET_SEEDS = method("BatchService/SetSeeds")
_TIMEOUT_S = 60.0


class SessionTransport(Transport):
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
        self.spec = batch_spec(sessions.worlds, engine, num_envs, {})
        self._batch = batch_of(sessions.worlds, engine)
        self._sessions = sessions
        self._map_name = map_name
        self._options = options
        self._timeout_s = timeout_s
        self._seeds = EpisodeSeeds(seed, num_envs)
        self._ids: list[str] = []
        buffers = Buffers.allocate(self.spec)
        self.actions = buffers.actions
        self._rows = [BatchRow(self._batch, buffers, env) for env in range(num_envs)]
        self._bounds = Bounds(self.spec.action)
        self._frame = Frame.showing(buffers)
        self._control: NDArray[np.uint8] | None = None
        self._lockstep = Lockstep(LockstepState.READY, self.name)

    def send(self, actions: NDArray[Any], control: NDArray[np.uint8] | None = None) -> None:
        if self._lockstep.state is not LockstepState.READY:
            raise self._lockstep.state_error(LockstepEvent.SEND)
        if actions is not self.actions:
            checked = check_actions(self.spec, actions)
            self.out_of_bounds += self._bounds.count_outside(checked)
            np.copyto(self.actions, checked)
        self._control = None if control is None else check_control(self.spec, control)
        self._lockstep.on(LockstepEvent.SEND)

    def recv(self, deadline: Deadline | None = None) -> Frame:
        if self._lockstep.state is not LockstepState.SENT:
            raise self._lockstep.state_error(LockstepEvent.FRAME)
        deadline = Deadline.after(deadline, self._timeout_s)
        try:
            self._step(deadline)
        except PeerDied:
            self._lockstep.on(LockstepEvent.LOST)
            raise
        except TransportError:
            self._lockstep.on(LockstepEvent.REFUSED)
            raise
        self._lockstep.on(LockstepEvent.FRAME)
        frame = self._frame
        frame.seq += 1
        frame.any_ended = bool(frame.terminated.any() or frame.truncated.any())
        return frame

    def _create(self, deadline: Deadline) -> bool:
        """Create the sessions if there are none yet; True if so."""
        if self._ids:
            return False
        seeds = [self._seeds.following(env) for env in range(self.spec.num_envs)]
        self._ids = [self._sessions.create(self._map_name, seed, self._options) for seed in seeds]
        snapshots = self._sessions.advance_all([AdvanceRequest(session_id, 0) for session_id in self._ids], deadline)
        for row, snapshot in zip(self._rows, snapshots, strict=True):
            row.write_first(snapshot.observation, snapshot)
        return True

    def _step(self, deadline: Deadline) -> None:
        """Restart the sessions to be reset, one by one, then advance the others together."""
        is_fresh = self._create(deadline)
        requests: dict[int, AdvanceRequest] = {}
        for env, row in enumerate(self._rows):
            command = 0 if self._control is None else int(self._control[env])
            if command & HOLD:
                continue
            if not command & RESET:
                actions = [] if command & TICK else row.actions()
                requests[env] = AdvanceRequest(self._ids[env], self._batch.ticks_per_step, actions)
            elif not is_fresh:
                snapshot = self._sessions.restart(self._ids[env], self._seeds.following(env), deadline)
                row.write_first(snapshot.observation, snapshot)
        for env, done in zip(requests, self._sessions.advance_all(list(requests.values()), deadline), strict=True):
            self._rows[env].write(done.observation, done)

    def call(self, method: Method, request: Any, deadline: Deadline | None = None) -> Any:
        if self._lockstep.state is LockstepState.CLOSED:
            raise self._lockstep.state_error(LockstepEvent.SEND)
        if method is not _SET_SEEDS:
            raise Unimplemented(f"a batch of sessions does not answer {method.name}", backend=self.name)
        return self._seeds.set(request)

    def implements(self, method: Method) -> bool:
        return method is _SET_SEEDS

    def close(self) -> None:
        if self._lockstep.state is not LockstepState.CLOSED:
            self._lockstep.on(LockstepEvent.CLOSE)
            ids, self._ids = self._ids, []
            with contextlib.suppress(TransportError):  # a dead engine has no sessions any more
                for session_id in ids:
                    self._sessions.destroy(session_id)

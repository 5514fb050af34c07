"""The client's end of envs that are stepped on their own."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from lucky_transport import native
from lucky_transport.config import Settings
from lucky_transport.deadline import Deadline, monotonic_ns
from lucky_transport.errors import RemoteProtocolError
from lucky_transport.independent import envs_late, together_only
from lucky_transport.lockstep import LockstepEvent, LockstepState
from lucky_transport.shm.segment.channel import Result
from lucky_transport.shm.segment.env_words import ClientEnvWords
from lucky_transport.shm.segment.layout import FIELDS
from lucky_transport.shm.segment.segment import Segment
from lucky_transport.shm.wait import strategy_code
from lucky_transport.spec.actions import Bounds
from lucky_transport_shm.client_lockstep import ClientLockstep


class ClientEnvs:
    """Sends envs, and takes those that have ended. out_of_bounds: as of `Transport`, of what was sent here."""

    def __init__(
        self,
        segment: Segment,
        channel: native.ClientChannel,
        lockstep: ClientLockstep,
        bounds: Bounds,
        settings: Settings,
    ) -> None:
        self._segment = segment
        self._channel = channel
        self._lockstep = lockstep
        self._sent = lockstep.sent
        self._actions = segment.buffers(0).actions
        self._bounds = bounds
        self._timeout_s = settings.step_timeout_s
        has_words = segment.layout.has_env_words
        self._words = ClientEnvWords(segment, strategy_code(settings.wait), self._sent.mask) if has_words else None
        self.out_of_bounds = 0

    def send(self, actions: NDArray[Any], env_ids: NDArray[Any] | None, control: NDArray[np.uint8] | None) -> None:
        """As `Transport.send_envs`; from here on the channel leaves every exchange to the slow path."""
        if self._lockstep.state not in (LockstepState.READY, LockstepState.ENVS):
            raise self._lockstep.state_error(LockstepEvent.SEND_ENVS)
        if self._words is None:
            raise together_only(self._segment.spec.engine, self._segment.layout.observation_slots, "shm")
        rows, ids, codes = self._sent.check(actions, env_ids, control)
        self._lockstep.check_segment()
        self._actions[ids] = rows
        self.out_of_bounds += self._bounds.count_outside(rows)
        self._channel.unfuse()  # a step has to be refused now
        self._lockstep.on(LockstepEvent.SEND_ENVS)
        self._words.send(ids, codes)
        self._call_engine(self._words)

    def _call_engine(self, words: ClientEnvWords) -> None:
        """Wake the engine's thread that serves steps, until it has started the one that looks for envs."""
        if not words.is_seen:
            native.wake(self._segment.mapping, FIELDS["park_engine"].offset)

    def recv(self, least: int, deadline: Deadline | None) -> NDArray[np.int32]:
        """Return the envs that have ended, as `Transport.recv_envs`."""
        words = self._words
        if self._lockstep.state is not LockstepState.ENVS or words is None:
            raise self._lockstep.state_error(LockstepEvent.LAST_ENV)
        self._sent.check_least(least)
        deadline = Deadline.after(deadline, self._timeout_s)
        ids = np.empty(0, np.int32)

        def look(timeout_ns: int) -> int:
            nonlocal ids
            self._call_engine(words)
            end_ns = monotonic_ns() + timeout_ns
            while True:
                count = words.count()
                ids = words.ended()
                if ids.size >= least or words.failed(ids) is not None:
                    return Result.FRAME
                if words.wait(count, least - ids.size, max(0, end_ns - monotonic_ns())) == Result.TIMED_OUT:
                    return Result.TIMED_OUT

        try:
            code = self._lockstep.wait(look(0), deadline, look)
        except RemoteProtocolError:
            self._lockstep.check_segment()
            self._lockstep.on(LockstepEvent.LOST)
            raise
        self._lockstep.check_segment()
        if code == Result.TIMED_OUT:
            raise envs_late(ids.size, least, deadline.timeout_s, "shm")
        failed = words.failed(ids)
        if failed is not None:
            ids = np.array([failed], np.int32)
        self._sent.mask[ids] = False
        if failed is not None:
            raise self._segment.read_error("shm")
        return ids

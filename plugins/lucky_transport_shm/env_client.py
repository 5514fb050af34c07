"""The client's end of envs that are stepped on their own."""

from __future__ import annotations

import time
from abc import abstractmethod
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lucky_transport import native
from lucky_transport.deadline import Deadline
from lucky_transport.errors import RemoteProtocolError, TransportError
from lucky_transport.independent import SentEnvs, envs_late, together_only
from lucky_transport.lockstep import LockstepEvent, LockstepState
from lucky_transport.shm.segment.channel import Result
from lucky_transport.shm.segment.env_words import ClientEnvWords
from lucky_transport.shm.segment.layout import FIELDS
from lucky_transport.shm.segment.segment import Segment
from lucky_transport.spec.actions import Bounds
from lucky_transport.transport import Frame
from lucky_transport_shm.command_client import CallsTransport


class EnvsTransport(CallsTransport):
    """A client that steps an engine: its envs on their own here, all of them together in the subclass."""

    _segment: Segment
    _channel: native.ClientChannel
    _frames: tuple[Frame, ...]
    _bounds: Bounds
    _counted: int
    _step_timeout_ns: int

    def _step_envs_by(self, segment: Segment, strategy: int) -> None:
        self._strategy = strategy
        self._sent = SentEnvs(segment.spec, self.name)
        self._env_words: ClientEnvWords | None = None

    @property
    @abstractmethod
    def _state_now(self) -> LockstepState: ...

    @abstractmethod
    def _on(self, event: LockstepEvent) -> None: ...

    @abstractmethod
    def _refusal_of(self, event: LockstepEvent) -> TransportError: ...

    @abstractmethod
    def _check_segment(self) -> None: ...

    @abstractmethod
    def _await(self, code: int, deadline: Deadline, look: Callable[[int], int]) -> int: ...

    @abstractmethod
    def _fuse(self) -> None: ...

    def send_envs(
        self, actions: NDArray[Any], env_ids: NDArray[Any] | None = None, control: NDArray[np.uint8] | None = None
    ) -> None:
        if self._state_now not in (LockstepState.READY, LockstepState.ENVS):
            raise self._refusal_of(LockstepEvent.SEND_ENVS)
        if not self.capabilities.async_envs:
            raise together_only(self.spec.engine, self.observation_slots, self.name)
        rows, ids, codes = self._sent.check(actions, env_ids, control)
        self._check_segment()
        if self._env_words is None:
            self._env_words = ClientEnvWords(self._segment, self._strategy, self._sent.mask)
        self.actions[ids] = rows
        self._counted += self._bounds.count_outside(rows)
        self._channel.unfuse()  # a step has to be refused now
        self._on(LockstepEvent.SEND_ENVS)
        self._env_words.send(ids, codes)
        self._call_engine(self._env_words)

    def _call_engine(self, words: ClientEnvWords) -> None:
        """Wake the engine's thread that serves steps, until it has started the one that looks for envs."""
        if not words.is_seen:
            native.wake(self._segment.mapping, FIELDS["park_engine"].offset)

    @property
    def envs_under_way(self) -> int:
        return self._sent.count

    def recv_envs(self, least: int = 1, deadline: Deadline | None = None) -> tuple[NDArray[np.int32], Frame]:
        words = self._env_words
        if self._state_now is not LockstepState.ENVS or words is None:
            raise self._refusal_of(LockstepEvent.LAST_ENV)
        self._sent.check_least(least)
        deadline = Deadline.after(deadline, self._step_timeout_ns / 1e9)
        ids = np.empty(0, np.int32)

        def look(timeout_ns: int) -> int:
            nonlocal ids
            self._call_engine(words)
            end_ns = time.monotonic_ns() + timeout_ns
            while True:
                count = words.count()
                ids = words.ended()
                if ids.size >= least or words.failed(ids) is not None:
                    return Result.FRAME
                if words.wait(count, least - ids.size, max(0, end_ns - time.monotonic_ns())) == Result.TIMED_OUT:
                    return Result.TIMED_OUT

        try:
            code = self._await(look(0), deadline, look)
        except RemoteProtocolError:
            self._check_segment()
            self._on(LockstepEvent.LOST)
            raise
        self._check_segment()
        if code == Result.TIMED_OUT:
            raise envs_late(ids.size, least, deadline.timeout_s, self.name)
        failed = words.failed(ids)
        if failed is not None:
            ids = np.array([failed], np.int32)
        self._sent.mask[ids] = False
        if not self._sent.count:
            self._fuse()
        if failed is not None:
            raise self._segment.read_error("shm")
        return ids, self._frames[0]

"""The state of a client that steps, and its waits for the engine: `ClientLockstep`.

The state is kept, but a signal handler may raise after any operation, so the channel's counters and the envs under way
go before what is kept:

    kept     what they say                          state
    READY    every exchange has ended               READY
    READY    one has not                            SENT
    ENVS     an env is under way                    ENVS
    ENVS     none is                                as READY
    LOST, CLOSED                                    the same
"""

from __future__ import annotations

from collections.abc import Callable

from lucky_transport import native
from lucky_transport.deadline import Deadline
from lucky_transport.errors import ClosedError, PeerDied, TransportError
from lucky_transport.independent import SentEnvs
from lucky_transport.lockstep import Lockstep, LockstepEvent, LockstepState
from lucky_transport.shm.files.liveness import Process
from lucky_transport.shm.segment import header
from lucky_transport.shm.segment.channel import Result
from lucky_transport.shm.segment.layout import EngineState
from lucky_transport.shm.segment.segment import Segment
from lucky_transport.shm.timing import PEER_POLL_NS

_READY, _ENVS = LockstepState.READY, LockstepState.ENVS


class ClientLockstep(Lockstep):
    """The state of one client of a segment. kept: see above; sent: the envs under way."""

    __slots__ = ("_channel", "_closed_by", "_engine", "_mapping", "kept", "sent")

    def __init__(self, segment: Segment, engine: Process, channel: native.ClientChannel) -> None:
        self._mapping = segment.mapping
        self._engine = engine
        self._channel = channel
        self.sent = SentEnvs(segment.spec, "shm")
        self._closed_by: dict[LockstepState, tuple[str, str]] = {}
        super().__init__(_READY, "shm")

    @property
    def state(self) -> LockstepState:  # pyright: ignore[reportIncompatibleVariableOverride]
        kept = self.kept
        if kept is _ENVS and not self.sent.count:
            kept = _READY
        return LockstepState.SENT if kept is _READY and self._channel.seq != self._channel.received else kept

    @state.setter
    def state(self, state: LockstepState) -> None:
        self.kept = state

    def end(self, event: LockstepEvent, text: str, hint: str) -> TransportError:
        """Go to the state that follows `event`, whose operations raise ClosedError with this text; return it."""
        self.on(event)
        self._closed_by[self.kept] = text, hint
        return self.state_error(event)

    def state_error(self, event: LockstepEvent) -> TransportError:
        if self.kept not in self._closed_by:
            return super().state_error(event)
        text, hint = self._closed_by[self.kept]
        return ClosedError(text, backend="shm", hint=hint)

    def check_segment(self) -> None:
        """Raise SegmentError when the segment's file was truncated; the connection is lost then."""
        if self._mapping.is_cut:
            self.on(LockstepEvent.LOST)
            raise self._mapping.error()

    def wait(self, code: int, deadline: Deadline, look: Callable[[int], int]) -> int:
        """Wait on after a first slice that ended with `code`: the engine is looked at before the next one.

        look: waits for one slice, and returns what it found or Result.TIMED_OUT. Raises PeerDied, ClosedError,
        SegmentError; the connection is lost then.
        """
        while code == Result.TIMED_OUT:
            self.check_segment()
            if not self._engine.alive or self._engine_is_closing:
                code = look(0)  # published before it ended
                if code == Result.TIMED_OUT:
                    raise self._engine_ended()
                break
            if deadline.expired:
                break
            code = look(min(deadline.remaining_ns, PEER_POLL_NS))
        return code

    @property
    def _engine_is_closing(self) -> bool:
        """True once the engine has begun to close in order; the memory stays readable when it has ended."""
        return header.get(self._mapping, "engine_state") == EngineState.CLOSING

    def _engine_ended(self) -> TransportError:
        if self._engine_is_closing:
            return self.end(LockstepEvent.LOST, "the engine closed", "start it and connect again")
        self.on(LockstepEvent.LOST)
        return PeerDied(
            f"the engine's process ({self._engine.name}) ended while a frame was awaited",
            backend="shm",
            hint="start the engine and connect again",
        )

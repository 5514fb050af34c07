"""What both ends of a call have in common: its state, the flow control of both directions and what came; no I/O."""

from __future__ import annotations

from collections import deque
from typing import Any, ClassVar

from lucky_transport.codec.envelope import Envelope, Kind, encode_envelope
from lucky_transport.deadline import Deadline
from lucky_transport.errors import TransportError
from lucky_transport.rpc.error_envelope import copy_error
from lucky_transport.rpc.flow_control import SendWindow
from lucky_transport.rpc.lifecycle import StreamState, Transitions, after

__all__ = ["BaseCall"]

_ENDED = StreamState.ENDED


class BaseCall:
    """One end of a call. error: why the call ended before its time, None while it has not.

    The state is changed under `_lock`. The windows and the inbox exist where the call has streams.
    """

    __slots__ = (
        "_backend",
        "_inbox",
        "_lock",
        "_receive_window",
        "_send_window",
        "_state",
        "correlation_id",
        "deadline",
        "error",
    )

    #: What this end may send, and what it may receive.
    _sends: ClassVar[Transitions]
    _receives: ClassVar[Transitions]

    _inbox: deque[Any]
    _send_window: SendWindow

    def __init__(
        self, correlation_id: int, state: StreamState, deadline: Deadline | None, lock: Any, backend: str = ""
    ) -> None:
        self.correlation_id = correlation_id
        self.deadline = deadline
        self.error: TransportError | None = None
        self._state = state
        self._lock = lock
        self._backend = backend

    @property
    def name(self) -> str:
        """The method's full name, for texts."""
        raise NotImplementedError

    def _what(self) -> str:
        return f"call {self.correlation_id} of {self.name}"

    def _after_receiving(self, kind: Kind) -> StreamState:
        """Return the state after an envelope of the peer's; the lock is held. Raises RemoteProtocolError."""
        return after(self._receives, self._state, kind, self._what, ours=False)

    def _note_sent(self, kind: Kind) -> None:
        """Go on to the state after an envelope of ours.

        Raises why the call ended, or LocalProtocolError for an envelope that may not be sent.
        """
        with self._lock:
            if self.error is not None:
                raise copy_error(self.error, self._backend)
            self._state = after(self._sends, self._state, kind, self._what, ours=True)

    def _note_received(self, kind: Kind) -> None:
        """Go on to the state after an envelope of the peer's, unless the call has ended. Raises RemoteProtocolError."""
        with self._lock:
            if self._state is not _ENDED:
                self._state = self._after_receiving(kind)

    def _credit(self, items: int, window: int) -> bytes:
        """Return the record that allows the peer to send so many more items and bytes."""
        return encode_envelope(Envelope(0, self.correlation_id, Kind.CREDIT, items=items, window=window))

"""What both ends have in common: of one call its state, the flow control of both directions and what came; of one pipe
the open calls, the records that go out, and fragments that come in.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable
from typing import Any, ClassVar, Generic, TypeVar

from lucky_transport.codec.envelope import (
    CompactFields,
    Envelope,
    ItemRun,
    Kind,
    Popped,
    Record,
    TooLong,
    encode_envelope,
)
from lucky_transport.deadline import Deadline
from lucky_transport.errors import TransportError
from lucky_transport.rpc.error_envelope import copy_error
from lucky_transport.rpc.flow_control import SendWindow
from lucky_transport.rpc.fragments import Assemblies, TooLarge, whole
from lucky_transport.rpc.lifecycle import StreamState, Transitions, after
from lucky_transport.rpc.pipe import Pipe
from lucky_transport.rpc.send_queue import SendQueue

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


OpenCall = TypeVar("OpenCall")


class BaseCalls(ABC, Generic[OpenCall]):
    """One end of `pipe`. send_queue: sends its records. open_calls: those that have not ended, by number.

    error: the first one that ended the connection, and the reason that calls are given; None while it stands.
    """

    def __init__(
        self, pipe: Pipe, send_queue: SendQueue, max_message_bytes: int, refusal: Callable[[int, int], TransportError]
    ) -> None:
        self.send_queue = send_queue
        self.pipe = pipe
        self.open_calls: dict[int, OpenCall] = {}
        self._assemblies = Assemblies(max_message_bytes, refusal)
        self._refusal = refusal
        pipe.limit(max_message_bytes)
        self.error: TransportError | None = None

    def forget(self, correlation_id: int) -> None:
        """Ignore what still comes for this call: it has ended."""
        self.open_calls.pop(correlation_id, None)
        if self._assemblies.parts:
            self._assemblies.drop(correlation_id)

    def post(self, envelope: Record | CompactFields, correlation_id: int = 0, message_bytes: int = 0) -> None:
        """Send an envelope now or as soon as there is free space. Never blocks; an error ends the connection."""
        try:
            self.send_queue.post(envelope, correlation_id, message_bytes)
        except TransportError as error:
            self._on_send_error(error)

    def _on_fragment(self, fragment: Envelope) -> None:
        """Handle the envelope that the fragment completes, if it does."""
        correlation_id = fragment.correlation_id
        try:
            record = self._assemblies.add(fragment)
        except TooLarge as error:
            self._refuse(correlation_id, error.error)
            return
        if record is not None:
            self._on_record(whole(record, correlation_id))

    def _keep_error(self, error: TransportError) -> bool:
        """Keep why the connection ended; False when it had ended before."""
        if self.error is not None:
            return False
        # The frames of the error and of what led to it hold this connection, and its memory.
        self.error = copy_error(error, "")
        return True

    @abstractmethod
    def _on_record(self, record: Popped | ItemRun | TooLong) -> None:
        """Handle what was taken from the pipe; raises RemoteProtocolError for what no honest peer sends."""

    @abstractmethod
    def _refuse(self, correlation_id: int, error: TransportError) -> None:
        """End the call whose message is too long to be taken."""

    @abstractmethod
    def _on_send_error(self, error: TransportError) -> None:
        """Take note that nothing can be sent any more."""

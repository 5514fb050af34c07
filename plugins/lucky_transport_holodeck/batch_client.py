"""The client's end towards an engine of ours: `BatchTransport`.

Typed calls and streams work from the start, beside the driver; the first client that steps drives until it closes.
After fork() the child's copy is refused; arrays it holds stay readable.
"""

from __future__ import annotations

import os
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lucky_transport.config import Settings
from lucky_transport.deadline import Deadline
from lucky_transport.errors import ClosedError, PeerDied, PeerTimeout, TransportError
from lucky_transport.lockstep import Lockstep, LockstepEvent, LockstepState
from lucky_transport.messages.methods import Method
from lucky_transport.rpc import typed
from lucky_transport.rpc.client import ClientCalls
from lucky_transport.shm.connecting import connect_pipe
from lucky_transport.shm.segment import Segment, open_segment
from lucky_transport.shm.slot_files.image_reader import ImageReader
from lucky_transport.shm.wait import strategy_code
from lucky_transport.spec.actions import Bounds, check_actions, check_control
from lucky_transport.transport import Capabilities, Frame, Stream, Transport
from lucky_transport_holodeck.batch_drive import BatchDrive
from lucky_transport_holodeck.names import Names

__all__ = ["BatchTransport"]


class BatchTransport(Transport):
    """Made by `join`."""

    name = "holodeck"

    def __init__(self, segment: Segment, names: Names, settings: Settings, deadline: Deadline) -> None:
        spec = segment.spec
        self.spec = spec
        self.capabilities = Capabilities(zero_copy=True, streams=True, hold=spec.hold, images=True, sessions=True)
        self.actions = np.zeros(spec.action_shape, spec.action.dtype)  # another one may be writing into the segment
        self._segment = segment
        self._names = names
        self._settings = settings
        self._pid = os.getpid()
        self._lockstep = Lockstep(LockstepState.READY, "holodeck")
        self._bounds = Bounds(spec.action)
        self._drive: BatchDrive | None = None
        pipe = connect_pipe(segment.name, deadline, strategy=strategy_code(settings.wait), native=settings.native)
        self._calls = ClientCalls(
            pipe,
            backend="holodeck",
            max_message_bytes=settings.max_message_bytes,
            images=ImageReader(segment.path, native=settings.native),
        )

    @classmethod
    def join(cls, names: Names, settings: Settings, deadline: Deadline) -> BatchTransport:
        """Return a client of the engine of `names`; raises NotReachable, PeerTimeout, Busy (too many), SegmentError."""
        return cls(open_segment(names.extension, deadline), names, settings, deadline)

    def send(self, actions: NDArray[Any], control: NDArray[np.uint8] | None = None) -> None:
        if self._lockstep.state is not LockstepState.READY:
            raise self._lockstep.state_error(LockstepEvent.SEND)
        self._check_process()
        checked = actions if actions is self.actions else check_actions(self.spec, actions)
        if control is not None:
            control = check_control(self.spec, control)
        if self._drive is None:
            self._drive = BatchDrive(self._segment, self._names, self._settings)
        if checked is not self.actions:
            self.out_of_bounds += self._bounds.count_outside(checked)
        self._drive.send(checked, control)
        self._lockstep.state = LockstepState.SENT

    def recv(self, deadline: Deadline | None = None) -> Frame:
        if self._lockstep.state is not LockstepState.SENT or self._drive is None:
            raise self._lockstep.state_error(LockstepEvent.FRAME)
        self._check_process()
        try:
            frame = self._drive.recv(deadline)
        except PeerTimeout:
            raise
        except PeerDied:
            self._lockstep.on(LockstepEvent.LOST)
            self._drive.drop()  # at once: no other process may find us holding a dead engine's semaphores
            self._drive = None
            raise
        except TransportError:
            self._lockstep.on(LockstepEvent.REFUSED)
            raise
        self._lockstep.state = LockstepState.READY
        return frame

    def call(self, method: Method, request: Any, deadline: Deadline | None = None) -> Any:
        self._check_usable()
        return typed.call(self._calls, method, request, Deadline.after(deadline, self._settings.command_timeout_s))

    def stream(self, method: Method, request: Any, deadline: Deadline | None = None, *, copy: bool = True) -> Stream:
        self._check_usable()
        return typed.stream(self._calls, method, request, deadline, copy=copy)

    def _check_usable(self) -> None:
        if self._lockstep.state in (LockstepState.CLOSED, LockstepState.LOST):
            raise self._lockstep.state_error(LockstepEvent.SEND)
        self._check_process()

    def _check_process(self) -> None:
        if os.getpid() != self._pid:
            raise ClosedError(
                "this transport belongs to the parent process", backend="holodeck", hint="connect again after fork()"
            )

    def close(self) -> None:
        if self._lockstep.state is LockstepState.CLOSED:
            return
        is_owed = self._lockstep.state is LockstepState.SENT
        self._lockstep.on(LockstepEvent.CLOSE)
        if os.getpid() != self._pid:
            return
        drive, self._drive = self._drive, None
        if drive is not None:
            drive.leave(is_owed=is_owed)
        self._calls.close()

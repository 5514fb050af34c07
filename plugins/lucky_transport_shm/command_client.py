"""A client that sends commands while another one steps the engine: `CommandTransport`.

It has a pair of rings of its own, from the engine's listener, and does not touch the segment. Stepping raises Busy,
which names the driver.
"""

from __future__ import annotations

from abc import abstractmethod
from concurrent.futures import Future
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lucky_transport.config import Settings
from lucky_transport.deadline import Deadline
from lucky_transport.errors import Busy, ClosedError, NotReachable
from lucky_transport.lockstep import Lockstep, LockstepEvent, LockstepState
from lucky_transport.messages.methods import Method
from lucky_transport.rpc import typed
from lucky_transport.rpc.async_calls import LoopCalls
from lucky_transport.rpc.client import ClientCalls
from lucky_transport.shm.files import lockfile
from lucky_transport.shm.files.liveness import process_name
from lucky_transport.shm.listener.connecting import connect_pipe
from lucky_transport.shm.segment.segment import Segment
from lucky_transport.shm.slot_files.image_reader import ImageReader
from lucky_transport.shm.timing import ANSWER_S, LISTENER_S
from lucky_transport.shm.wait import strategy_code
from lucky_transport.transport import Capabilities, Frame, Stream, Transport


def connect_calls(segment: Segment, settings: Settings, deadline: Deadline, answer_s: float = ANSWER_S) -> ClientCalls:
    """Return a connection of its own to the engine of the segment; `answer_s` as of `connect_pipe`.

    Raises NotReachable, PeerTimeout, Busy (too many clients), RemoteProtocolError.
    """
    pipe = connect_pipe(segment.name, deadline, strategy=strategy_code(settings.wait), answer_s=answer_s)
    limit, images = settings.max_message_bytes, ImageReader(segment.path, pipe.check_peer)
    return ClientCalls(pipe, backend="shm", max_message_bytes=limit, images=images)


def connect_async_calls(segment: Segment, settings: Settings) -> LoopCalls | None:
    """Return calls for asyncio over a connection of their own, None where the engine takes no further client.

    An event loop watches a descriptor, and the rings of the segment have none.
    """
    try:
        calls = connect_calls(segment, settings, Deadline(LISTENER_S), settings.connect_timeout_s)
    except (NotReachable, Busy):
        return None
    return LoopCalls(calls, settings.command_timeout_s)


class CallsTransport(Transport):
    """What both kinds of client have in common: calls and streams over `_calls`."""

    name = "shm"
    _segment: Segment
    _settings: Settings
    _calls: ClientCalls

    @abstractmethod
    def _check_open(self) -> None:
        """Raise what a closed or lost connection raises."""

    def call(self, method: Method, request: Any, deadline: Deadline | None = None) -> Any:
        self._check_open()
        if deadline is None:
            deadline = Deadline(self._settings.command_timeout_s)
        return typed.call(self._calls, method, request, deadline)

    def begin(self, method: Method, request: Any, deadline: Deadline | None = None) -> Future[Any]:
        self._check_open()
        return typed.begin(self._calls, method, request, Deadline.after(deadline, self._settings.command_timeout_s))

    def stream(self, method: Method, request: Any, deadline: Deadline | None = None, *, copy: bool = True) -> Stream:
        self._check_open()
        return typed.stream(self._calls, method, request, deadline, copy=copy)

    def async_calls(self) -> LoopCalls | None:
        self._check_open()
        return connect_async_calls(self._segment, self._settings)


class CommandTransport(CallsTransport):
    """Calls and streams of an engine that another client steps.

    Raises NotReachable, PeerTimeout, Busy (too many clients), RemoteProtocolError.
    """

    capabilities = Capabilities(lockstep=False, hold=False, streams=True, images=True, sessions=True)

    def __init__(self, segment: Segment, settings: Settings, deadline: Deadline) -> None:
        self.spec = segment.spec
        self.actions = np.zeros(self.spec.action_shape, self.spec.action.dtype)
        self._segment = segment
        self._lockstep = Lockstep(LockstepState.READY, "shm")
        self._settings = settings
        self._calls = connect_calls(segment, settings, deadline)

    def send(self, actions: NDArray[Any], control: NDArray[np.uint8] | None = None) -> None:
        self._check_open()
        driver = lockfile.holder(self._segment.lock_path, lockfile.CLIENT)
        if driver is None:
            raise Busy(
                f"this client of engine {self.spec.engine!r} came while another one drove it: it sends commands only",
                backend="shm",
                hint="that one has left: connect again",
            )
        raise Busy(
            f"engine {self.spec.engine!r} is driven by the shm client of {process_name(driver)}; this one can send "
            "commands only",
            backend="shm",
            hint="close that client first, then connect again",
        )

    def recv(self, deadline: Deadline | None = None) -> Frame:
        raise self._lockstep.state_error(LockstepEvent.FRAME)

    def _check_open(self) -> None:
        if self._lockstep.state is LockstepState.CLOSED:
            raise ClosedError("the transport is closed", backend="shm", hint="connect again")

    def close(self) -> None:
        self._lockstep.on(LockstepEvent.CLOSE)
        self._calls.close()

"""The client's end for programs that know nothing of pipes: `make` and `connect` to an engine of ours.

It asks the engine for records instead of lines (`record_pipe`). An engine that knows only lines, a Unity scene for
instance, refuses; its experiments are played by `lucky_transport_pipe.instance`.

One exchange is one call; a wait that ran out ends nothing, the frame can be received later.
"""

from __future__ import annotations

import os
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lucky_transport.config import Settings
from lucky_transport.deadline import Deadline
from lucky_transport.endpoint import Endpoint
from lucky_transport.errors import ClosedError, PeerDied, RemoteProtocolError, TransportError, Unimplemented
from lucky_transport.lockstep import Lockstep, LockstepEvent, LockstepState
from lucky_transport.messages.methods import Method
from lucky_transport.rpc import typed
from lucky_transport.rpc.client import ClientCalls
from lucky_transport.rpc.client_call import ClientCall
from lucky_transport.rpc.lifecycle import Shape
from lucky_transport.spec.actions import Bounds, check_actions, check_control
from lucky_transport.spec.batch_spec import BatchSpec
from lucky_transport.transport import Capabilities, Frame, Stream, Transport
from lucky_transport_pipe.address import BACKEND, name_of
from lucky_transport_pipe.duplex import Duplex
from lucky_transport_pipe.frame_layout import EXCHANGE, GET_SPEC, FrameLayout, pack_request
from lucky_transport_pipe.lines import EXTENSION, FROM_CLIENT_END, LineCutter, MessageType, parse_from_engine
from lucky_transport_pipe.offering import SocketOffer
from lucky_transport_pipe.record_pipe import RecordPipe

__all__ = ["PipeTransport", "connect"]


def connect(endpoint: Endpoint, settings: Settings) -> PipeTransport:
    """Offer `pipe://NAME` and return a transport to the engine of ours that comes.

    Raises ConfigError, Busy (the pipe has a client), NotReachable (none came), Unimplemented (it knows only lines).
    """
    deadline = Deadline(settings.connect_timeout_s)
    offer = SocketOffer(name_of(endpoint))
    try:
        duplex = offer.accept(deadline)
        try:
            _ask_for_records(duplex, deadline)
            return PipeTransport(offer, RecordPipe(duplex), settings, deadline)
        except BaseException:
            duplex.close()
            raise
    except BaseException:
        offer.close()
        raise


def _ask_for_records(duplex: Duplex, deadline: Deadline) -> None:
    duplex.send(f"run {EXTENSION}{FROM_CLIENT_END}".encode(), deadline)
    cutter = LineCutter()
    while True:
        for line in cutter.feed(duplex.receive(deadline)):
            said = parse_from_engine(line)
            if said.word is MessageType.SUCCESS:
                return
            if said.word is MessageType.ERROR:
                raise Unimplemented(
                    f"{duplex.peer} speaks lines only ({said.text})",
                    backend=BACKEND,
                    hint="play its experiments with lucky_transport_pipe.instance.Instance",
                )
            if said.word is not MessageType.WARNING:
                raise RemoteProtocolError(f"{duplex.peer} answered {line!r} to run", backend=BACKEND)


class PipeTransport(Transport):
    """A client of an engine of ours at a pipe. A frame's arrays are views of the bytes that came."""

    name = BACKEND

    def __init__(self, offer: SocketOffer, pipe: RecordPipe, settings: Settings, deadline: Deadline) -> None:
        self._offer = offer
        self._pid = os.getpid()
        self._settings = settings
        self._calls = ClientCalls(pipe, backend=BACKEND, max_message_bytes=settings.max_message_bytes)
        try:
            self.spec = BatchSpec.from_json(self._calls.unary(GET_SPEC, b"", deadline))
        except BaseException:
            self._calls.close()
            raise
        self.capabilities = Capabilities(streams=True, hold=self.spec.hold, sessions=True)
        self.actions = np.zeros(self.spec.action_shape, self.spec.action.dtype)
        self._layout = FrameLayout(self.spec)
        self._bounds = Bounds(self.spec.action)
        self._lockstep = Lockstep(LockstepState.READY, BACKEND)
        self._exchange: ClientCall | None = None
        self._sent = 0
        self._received = 0

    def send(self, actions: NDArray[Any], control: NDArray[np.uint8] | None = None) -> None:
        if self._lockstep.state is not LockstepState.READY:
            raise self._lockstep.state_error(LockstepEvent.SEND)
        self._check_process()
        checked = check_actions(self.spec, actions)
        if control is not None:
            control = check_control(self.spec, control)
        self.out_of_bounds += self._bounds.count_outside(checked)
        request = pack_request(self._sent + 1, checked, control)
        self._lockstep.on(LockstepEvent.SEND)
        self._sent += 1
        try:
            self._exchange = self._calls.open(EXCHANGE, request, shape=Shape.UNARY, deadline=None)
        except TransportError as error:
            self._lockstep.on(LockstepEvent.LOST if isinstance(error, PeerDied) else LockstepEvent.REFUSED)
            raise

    def recv(self, deadline: Deadline | None = None) -> Frame:
        if self._lockstep.state is not LockstepState.SENT:
            raise self._lockstep.state_error(LockstepEvent.FRAME)
        self._check_process()
        exchange = self._exchange
        assert exchange is not None
        try:
            payload = exchange.recv(Deadline.after(deadline, self._settings.step_timeout_s))
        except TransportError as error:
            if exchange.is_ended():
                self._lockstep.on(LockstepEvent.LOST if isinstance(error, PeerDied) else LockstepEvent.REFUSED)
            raise
        frame = self._layout.frame(payload or b"")
        self._lockstep.on(LockstepEvent.FRAME)
        self._received += 1
        frame.seq = self._received
        return frame

    def call(self, method: Method, request: Any, deadline: Deadline | None = None) -> Any:
        self._check_open()
        return typed.call(self._calls, method, request, Deadline.after(deadline, self._settings.command_timeout_s))

    def stream(self, method: Method, request: Any, deadline: Deadline | None = None, *, copy: bool = True) -> Stream:
        self._check_open()
        return typed.stream(self._calls, method, request, deadline, copy=copy)

    def _check_open(self) -> None:
        if self._lockstep.state is LockstepState.CLOSED:
            raise ClosedError("the transport is closed", backend=BACKEND, hint="connect again")
        self._check_process()

    def _check_process(self) -> None:
        if os.getpid() != self._pid:
            raise ClosedError(
                "this transport belongs to the parent process", backend=BACKEND, hint="connect again after fork()"
            )

    def close(self) -> None:
        if self._lockstep.state is not LockstepState.CLOSED:
            self._lockstep.on(LockstepEvent.CLOSE)
            self._calls.close()
            self._offer.close()

"""The client's end."""

from __future__ import annotations

import threading
from multiprocessing.connection import Client, Connection
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lucky_transport.call import check_request, check_unary
from lucky_transport.config import Settings
from lucky_transport.deadline import Deadline
from lucky_transport.endpoint import Endpoint
from lucky_transport.errors import ClosedError, NotReachable, PeerDied, PeerTimeout, from_wire
from lucky_transport.lockstep import LockstepEvent, LockstepState, LockstepTransport
from lucky_transport.messages.methods import Method
from lucky_transport.spec.batch_spec import BatchSpec
from lucky_transport.transport import Capabilities, Frame
from lucky_transport_mailbox.server import address_of

_SLICE_S = 0.02


def connect(endpoint: Endpoint, settings: Settings) -> MailboxTransport:
    """Return a client of the engine at `mailbox://name`; raises NotReachable."""
    try:
        connections = [Client(address_of(endpoint), family="AF_UNIX") for _ in range(2)]
        (text, _) = [connection.recv() for connection in connections]
    except (OSError, EOFError) as error:
        raise NotReachable(f"no engine at {endpoint}: {error}", backend="mailbox", hint="serve it first") from error
    return MailboxTransport(BatchSpec.from_json(text), connections, settings)


class MailboxTransport(LockstepTransport):
    """Sends pickles and waits for pickles."""

    name = "mailbox"
    capabilities = Capabilities()

    def __init__(self, spec: BatchSpec, connections: list[Connection], settings: Settings) -> None:
        super().__init__(spec, np.zeros(spec.action_shape, spec.action.dtype))
        self._steps, self._calls = connections
        self._settings = settings
        self._number = 0
        self._calling = threading.Lock()

    def send(self, actions: NDArray[Any], control: NDArray[np.uint8] | None = None) -> None:
        checked, given = self._check(actions, control)
        self._keep(checked)
        self._post(self._steps, ("step", 0, checked, given))
        self._lockstep.on(LockstepEvent.SEND)

    def recv(self, deadline: Deadline | None = None) -> Frame:
        self._check_sent()
        _, kind, *rest = self._fetch(self._steps, Deadline.after(deadline, self._settings.step_timeout_s))
        if kind == "error":
            self._lockstep.on(LockstepEvent.REFUSED)
            raise from_wire(*rest, backend=self.name)
        self._lockstep.on(LockstepEvent.FRAME)
        for array in rest:
            array.flags.writeable = False
        return self._numbered(Frame(*rest))

    def call(self, method: Method, request: Any, deadline: Deadline | None = None) -> Any:
        if self._lockstep.state is LockstepState.CLOSED:
            raise self._ended()
        self._check_process()
        check_unary(method)
        check_request(method, request)
        deadline = Deadline.after(deadline, self._settings.command_timeout_s)
        if deadline.expired or not self._calling.acquire(timeout=deadline.remaining_s):
            raise self._late(deadline)
        try:
            self._number += 1
            self._post(self._calls, ("call", self._number, method.name, request, deadline.remaining_s))
            number, kind, *rest = self._fetch(self._calls, deadline)
            while number != self._number:  # an answer to a call that was given up may come first
                number, kind, *rest = self._fetch(self._calls, deadline)
        finally:
            self._calling.release()
        if kind == "error":
            raise from_wire(*rest, backend=self.name)
        return rest[0]

    def _post(self, connection: Connection, message: Any) -> None:
        try:
            connection.send(message)
        except OSError as error:
            raise self._lost(error) from error

    def _fetch(self, connection: Connection, deadline: Deadline) -> Any:
        try:
            while not connection.poll(min(deadline.remaining_s, _SLICE_S)):
                if self._lockstep.state is LockstepState.CLOSED:
                    raise self._ended()
                if deadline.expired:
                    raise self._late(deadline)
            return connection.recv()
        except PeerTimeout:
            raise
        except (EOFError, OSError) as error:
            raise self._lost(error) from error

    def _late(self, deadline: Deadline) -> PeerTimeout:
        return PeerTimeout(f"the engine did not answer within {deadline.timeout_s} s", backend=self.name)

    def _ended(self) -> ClosedError:
        return ClosedError("the transport is closed", backend=self.name, hint="connect again")

    def _lost(self, error: Exception) -> PeerDied:
        self._lockstep.on(LockstepEvent.LOST)
        return PeerDied(f"the engine is gone: {error!r}", backend=self.name, hint="connect again")

    def close(self) -> None:
        if self._lockstep.state is not LockstepState.CLOSED:
            self._lockstep.on(LockstepEvent.CLOSE)
            self._steps.close()
            with self._calling:  # who waits for an answer leaves within a slice
                self._calls.close()

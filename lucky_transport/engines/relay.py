"""An engine that is the engine at another endpoint: `relay:grpc://127.0.0.1:50051`.

Programs move to shared memory first, and the engine later. All clients of the relay share one connection to it.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from concurrent.futures import CancelledError, Future
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lucky_transport.call import Call
from lucky_transport.endpoint import Endpoint
from lucky_transport.engine import HOLD, RESET, Buffers, CallHandler, Engine, StreamHandler
from lucky_transport.engines.relay_sessions import RelaySessions
from lucky_transport.engines.relay_target import RelayTarget
from lucky_transport.errors import (
    Cancelled,
    ClosedError,
    ConfigError,
    PeerDied,
    PeerTimeout,
    RemoteProtocolError,
    TransportError,
    Unimplemented,
)
from lucky_transport.messages.methods import METHODS, Method
from lucky_transport.transport import Frame, Transport

_log = logging.getLogger("lucky_transport")
_AGENT = "/hazel.rpc.AgentService/"
#: What the host answers itself. Steps and resets become exchanges. A contract that a client negotiates concerns that
#: client alone, and the engine would take it for one of the connection that all share.
_OF_THE_HOST = frozenset(_AGENT + name for name in ("Step", "ResetAgent", "ReportProgress", "NegotiateTask"))


class RelayEngine(Engine):
    """The engine at `endpoint`, with its spec; a step is one exchange with it.

    Methods that it lacks are Unimplemented, by name. When it dies, steps and calls raise PeerDied and then NotReachable
    until it is back; an env of an engine that came back is stepped only after its reset.
    """

    def __init__(self, endpoint: Endpoint, num_envs: int = 1) -> None:
        """num_envs: 1 for as many as the engine has. Raises NotReachable, Busy, SpecError (another number)."""
        self._target = RelayTarget(endpoint, num_envs)
        self.spec = self._target.spec
        self._stepped = self._target.transport()
        self._unreset = np.zeros(self.spec.num_envs, np.bool_)
        methods = [row for row in METHODS if self._is_relayed(row)]
        self._calls: dict[str, CallHandler] = {
            row.name: partial(self._call, row) for row in methods if row.stream is None
        }
        self._streams = {row.name: partial(self._stream, row) for row in methods if row.stream is not None}
        self._sessions = RelaySessions(self._call)
        self._calls.update({name: call for name, call in self._sessions.call_handlers.items() if name in self._calls})

    def _is_relayed(self, method: Method) -> bool:
        return method.name not in _OF_THE_HOST and self._stepped.implements(method) is not False

    @property
    def call_handlers(self) -> Mapping[str, CallHandler]:
        return self._calls

    @property
    def streams(self) -> Mapping[str, StreamHandler]:
        return self._streams

    def bind(self, buffers: Buffers) -> None:
        self._buffers = buffers

    def step(self, control: NDArray[np.uint8] | None) -> None:
        transport = self._target.transport()
        if transport is not self._stepped:
            self._stepped = transport
            self._unreset[:] = True
        if self._unreset.any():
            self._check_reset(control)
        try:
            frame = self._exchange(transport, control)
        except (PeerDied, ClosedError, RemoteProtocolError) as error:
            raise self._target.lost(transport, error) from error
        if control is not None:
            self._unreset[(control & RESET) != 0] = False
        out = self._buffers
        np.copyto(out.observations, frame.observations)
        np.copyto(out.rewards, frame.rewards)
        np.copyto(out.terminated, frame.terminated)
        np.copyto(out.truncated, frame.truncated)
        np.copyto(out.signals, frame.signals)

    def _check_reset(self, control: NDArray[np.uint8] | None) -> None:
        """Raise PeerDied where an env would step on an engine that has started anew without it."""
        stepped = self._unreset if control is None else self._unreset & ((control & (RESET | HOLD)) == 0)
        envs = np.flatnonzero(stepped).tolist()
        if envs:
            raise PeerDied(
                f"the connection to the engine at {self._target.endpoint} was made anew, and envs {envs} have not been "
                "reset since",
                backend=self.spec.engine,
                hint="reset them",
            )

    def _exchange(self, transport: Transport, control: NDArray[np.uint8] | None) -> Frame:
        """Return the frame. An exchange is never given up while the engine lives: its client may wait for it again."""
        try:
            return transport.step(self._buffers.actions, control)
        except PeerTimeout as error:
            late = error
        while True:
            _log.warning("relay: still waiting: %s", late)
            try:
                return transport.recv()
            except PeerTimeout as error:
                late = error

    def _call(self, method: Method, request: Any, call: Call) -> Any:
        transport = self._target.transport()
        try:
            future = transport.begin(method, request, call.deadline)
            call.on_end(partial(_cancel, future))
            return future.result()
        except CancelledError as error:
            raise Cancelled(f"{method.name} was cancelled", backend=self.spec.engine) from error
        except TransportError as error:
            raise self._failure(transport, method, error) from error

    def _stream(self, method: Method, request: Any, call: Call) -> Iterator[Any]:
        transport = self._target.transport()
        try:
            # The host has written an item's images before it asks for the next item.
            with transport.stream(method, request, call.deadline, copy=False) as items:
                call.on_end(items.cancel)
                for item in items:
                    call.dropped = items.dropped
                    yield item
                call.dropped = items.dropped
        except TransportError as error:
            raise self._failure(transport, method, error) from error

    def _failure(self, transport: Transport, method: Method, error: TransportError) -> TransportError:
        if isinstance(error, Unimplemented) and error.hint and method.name not in str(error):  # a bare status
            return Unimplemented(
                f"the engine at {self._target.endpoint} does not implement {method.name}", backend=self.spec.engine
            )
        return self._target.call_failed(transport, error)

    def leave(self, caller: str) -> None:
        self._sessions.leave(caller)

    def close(self) -> None:
        self._target.close()


def _cancel(future: Future[Any]) -> None:
    future.cancel()


def make_engine(variant: str = "", num_envs: int = 1) -> RelayEngine:
    """Return the engine at the endpoint `variant`; num_envs: 1 for as many as it has.

    Raises ConfigError (no URL, or a malformed one), UnknownName (scheme), MissingExtra, NotReachable, Busy, SpecError.
    """
    if not variant:
        raise ConfigError(
            "engine 'relay' needs the endpoint of an engine",
            backend="relay",
            hint="write for instance relay:grpc://127.0.0.1:50051",
        )
    return RelayEngine(Endpoint.parse(variant), num_envs)

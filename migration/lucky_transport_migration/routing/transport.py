"""`StagedTransport`: gRPC and shared memory as one transport, each method over the side that its stage says.

The caller gets what the authority answered, when it answered, whatever becomes of the shadow. A candidate that is to
answer and cannot be reached, or dies in a read, is stood in for by the control, until the method's stage is `complete`.
What changes the world is never sent twice. What is needed is connected when it is needed: a program whose methods are
all complete needs no gRPC, one whose methods are all at `grpc` no shared memory.
"""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from lucky_transport.call import check_request, check_stream, check_unary
from lucky_transport.deadline import Deadline
from lucky_transport.errors import ClosedError, PeerDied, TransportError
from lucky_transport.messages.methods import Effect, Method
from lucky_transport.routing_policy import Comparison, Decision, RoutingPolicy
from lucky_transport.transport import Capabilities, Frame, Stream, Transport
from lucky_transport_migration.routing.board import FencedBoard
from lucky_transport_migration.routing.exchange import RoutedCall
from lucky_transport_migration.routing.follower import Follower, most_items
from lucky_transport_migration.routing.outcomes import answer, failure
from lucky_transport_migration.routing.shadows import TransportShadows
from lucky_transport_migration.routing.side import CANDIDATE, CONTROL, RoutedConnection
from lucky_transport_migration.routing.stepping import Stepping
from lucky_transport_migration.routing.stream import StagedStream
from lucky_transport_migration.routing.world import WorldChanges
from lucky_transport_migration.stages.effective_stages import STEP, STEPPING_PATH

__all__ = ["StagedTransport"]

_log = logging.getLogger("lucky_transport")

_Answer = TypeVar("_Answer")


class StagedTransport(Transport):
    """See the module. The board stays open: it may belong to other connections too.

    Raises what connecting the side raises that is to step.
    """

    name = "staged"

    def __init__(self, control: RoutedConnection, candidate: RoutedConnection, board: RoutingPolicy) -> None:
        self._sides = {CONTROL: control, CANDIDATE: candidate}
        self._board = FencedBoard(board)
        self._world = WorldChanges()
        self._shadows = TransportShadows(self._sides)
        self._pid = os.getpid()
        self._closed = False
        self._fell_back: set[str] = set()
        try:
            transport, self._stepping_by = self._choose_stepper()
        except BaseException:
            self.close()
            raise
        self._stepping = Stepping(transport, self._stepping_by, self._board, self._world)
        self.spec = transport.spec
        self.actions = transport.actions
        offered = transport.capabilities
        self.capabilities = Capabilities(
            lockstep=offered.lockstep, hold=offered.hold, streams=offered.streams, zero_copy=offered.zero_copy
        )
        vars(self)["step"] = self._stepping.step  # saves the hot loop a call

    @property
    def out_of_bounds(self) -> int:  # pyright: ignore[reportIncompatibleVariableOverride] - a count, read only
        """Action values outside the bounds so far."""
        return self._stepping.transport.out_of_bounds

    def send(self, actions: NDArray[Any], control: NDArray[np.uint8] | None = None) -> None:
        self._stepping.send(actions, control)

    def recv(self, deadline: Deadline | None = None) -> Frame:
        return self._stepping.recv(deadline)

    def call(self, method: Method, request: Any, deadline: Deadline | None = None) -> Any:
        self._check_open()
        check_unary(method)
        check_request(method, request)
        exchange = self._exchange(method, request)
        if exchange.decision.shadow:
            self._shadows.call(exchange, deadline)
        with self._world.touched_by(method):
            began_ns = time.perf_counter_ns()
            side, response = self._first_answer(exchange, lambda transport: transport.call(method, request, deadline))
            exchange.answered(answer(side.name, (response,), began_ns))
        return response

    def stream(self, method: Method, request: Any, deadline: Deadline | None = None, *, copy: bool = True) -> Stream:
        self._check_open()
        check_stream(method)
        check_request(method, request)
        exchange = self._exchange(method, request, shadowed=copy)
        most = most_items(method) if copy else 0  # pictures shown in place are gone with the next item
        follower = Follower(most) if exchange.decision.shadow else None
        if follower is not None:
            self._shadows.follow(exchange, follower, deadline)
        side, stream = self._first_answer(
            exchange, lambda transport: transport.stream(method, request, deadline, copy=copy)
        )
        return StagedStream(stream, exchange, side.name, follower, most)

    def implements(self, method: Method) -> bool | None:
        if method.name in STEPPING_PATH:
            return self._stepping.transport.implements(method)
        known = (side.connected for side in self._sides.values())
        return next((one.implements(method) for one in known if one is not None), None)

    def close(self) -> None:
        if self._closed:
            return
        self._closed = True
        for side in self._sides.values():
            side.close()
        if os.getpid() == self._pid:  # a forked child has none of the threads
            self._shadows.close()

    # -- decisions ----------------------------------------------------------------------------------------------------

    def _choose_stepper(self) -> tuple[Transport, Decision]:
        """Return the side that steps, and the decision for it."""
        decision = self._board.decide(STEP)
        began_ns = time.perf_counter_ns()
        try:
            return self._sides[decision.authority].open(), decision
        except TransportError as error:
            if not decision.may_fall_back:
                raise
            instead = Decision(CONTROL, CANDIDATE, decision.stage)
            transport = self._sides[CONTROL].open()
            failed, stood_in = failure(CANDIDATE, error, began_ns), answer(CONTROL, (), began_ns)
            self._board.note(Comparison(STEP, instead, stood_in, failed))
            return transport, Decision(CONTROL, "", decision.stage)

    def _exchange(self, method: Method, request: Any, *, shadowed: bool = True) -> RoutedCall:
        decision = self._stepping_by if method.name in STEPPING_PATH else self._board.decide(method.name)
        if not shadowed and decision.shadow:
            decision = Decision(decision.authority, "", decision.stage)
        return RoutedCall(self._board, self._world, method, request, decision)

    def _first_answer(
        self, exchange: RoutedCall, attempt: Callable[[Transport], _Answer]
    ) -> tuple[RoutedConnection, _Answer]:
        """Return the side that answered, and what `attempt` made of it; what it raises is noted, and raised."""
        side, began_ns = self._sides[exchange.decision.authority], time.perf_counter_ns()
        has_net = exchange.decision.may_fall_back and exchange.method.name not in STEPPING_PATH
        transport: Transport | None = None
        try:
            transport = side.ready() if has_net else side.open()
            return side, attempt(transport)
        except Exception as error:  # a candidate may raise anything
            outcome = failure(side.name, error, began_ns)
            if not (has_net and self._may_repeat(exchange.method, side, transport, error)):
                exchange.answered(outcome)
                raise
        exchange.fails_over(outcome)
        if exchange.method.name not in self._fell_back:
            self._fell_back.add(exchange.method.name)
            _log.warning(
                "%s: shared memory did not answer (%s), gRPC answers instead", exchange.method.name, outcome.details
            )
        return self._first_answer(exchange, attempt)  # now it is the control's to answer, which has no net

    def _may_repeat(
        self, method: Method, side: RoutedConnection, transport: Transport | None, error: Exception
    ) -> bool:
        """True when the control can answer instead: nothing was sent to this side, or it broke in a read."""
        if transport is None:
            self._shadows.reconnect(side)
            return True
        if isinstance(error, PeerDied) and transport is not self._stepping.transport:  # else its driver has to know
            side.lost(transport, error)
        is_broken = isinstance(error, PeerDied) or not isinstance(error, TransportError)
        return is_broken and method.effect is Effect.READ

    def _check_open(self) -> None:
        if os.getpid() != self._pid:
            raise ClosedError(
                "this transport belongs to the parent process", backend="staged", hint="connect again after fork()"
            )
        if self._closed:
            raise ClosedError("the transport is closed", backend="staged", hint="connect again")

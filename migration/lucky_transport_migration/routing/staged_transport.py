"""`StagedTransport`: gRPC and shared memory as one transport, each method over the side that its stage says.

The caller gets what the primary answered, when it answered, whatever becomes of the shadow. A candidate that is to
answer and cannot be reached, or dies in a read, is stood in for by the control, until the method's stage is `complete`.
What changes the world is never sent twice. What is needed is connected when it is needed: a program whose methods are
all complete needs no gRPC, one whose methods are all at `grpc` no shared memory.

client = lucky_transport.connect("staged:")                      # endpoints from [stages] of lucky_transport.toml
connect("staged:?control=grpc://127.0.0.1:50051&candidate=shm://demo")      # or from here
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from lucky_transport import api
from lucky_transport.call import check_request, check_stream, check_unary
from lucky_transport.config import Settings
from lucky_transport.deadline import Deadline
from lucky_transport.endpoint import Endpoint
from lucky_transport.errors import Busy, ClosedError, ConfigError, PeerDied, TransportError
from lucky_transport.messages.images import holds_images
from lucky_transport.messages.methods import Method
from lucky_transport.routing import SO_FAR, Decision, Ending, RoutedCall
from lucky_transport.transport import Capabilities, Frame, Stream, Transport
from lucky_transport_migration.evidence.outcome import CANDIDATE, CONTROL, Comparison, call_outcome, ending_of
from lucky_transport_migration.routing.connection import RoutedConnection, TypedShadows
from lucky_transport_migration.routing.router import ProcessRouter, process_router
from lucky_transport_migration.routing.stepping import Stepping
from lucky_transport_migration.stages.effective_stages import STEP, STEPPING_PATH
from lucky_transport_migration.stages.stage_plan import StagePlan

_Answer = TypeVar("_Answer")

#: How many items of a stream are kept: messages are not measured, and images are large.
_MOST_ITEMS, _MOST_IMAGES = 64, 8
#: As long as gRPC answers too, no caller shall wait long for the candidate.
_CANDIDATE_CONNECT_S = 2.0


def open_staged(endpoint: Endpoint, settings: Settings) -> StagedTransport:
    """Return a transport over both sides of the nearest file of stages, by the decisions of this process's router.

    Raises ConfigError for a wrong file or one without the endpoint that steps, and what connecting to that raises.
    """
    plan = StagePlan.load()
    control = endpoint.option("control", plan.control)
    candidate = endpoint.option("candidate", plan.candidate)
    hasty = replace(settings, connect_timeout_s=min(settings.connect_timeout_s, _CANDIDATE_CONNECT_S))
    sides = (
        RoutedConnection(CONTROL, partial(_connect, "control", control, settings, plan)),
        RoutedConnection(CANDIDATE, partial(_connect, "candidate", candidate, hasty, plan)),
    )
    return StagedTransport(*sides, process_router(), control or candidate)


def _connect(key: str, endpoint: str, settings: Settings, plan: StagePlan) -> Transport:
    if not endpoint:
        example = "grpc://127.0.0.1:50051" if key == "control" else "shm://demo"
        raise ConfigError(f"{plan.path}: [stages] has no {key}", hint=f"write there {key} = '{example}'")
    return api.open_transport(endpoint, settings)


class StagedTransport(Transport):
    """See the module. engine: what its other connections of this process share; by default it has none.

    Raises what connecting the side raises that is to step.
    """

    name = "staged"

    def __init__(
        self, control: RoutedConnection, candidate: RoutedConnection, router: ProcessRouter, engine: str = ""
    ) -> None:
        self._sides = {CONTROL: control, CANDIDATE: candidate}
        self._workers = router.workers
        self._target = router.target(engine or f"staged {id(self)}", TypedShadows(self._sides))
        self._pid = os.getpid()
        self._closed = False
        try:
            transport, self._stepping_by = self._choose_stepper()
        except BaseException:
            self.close()
            raise
        self._stepping = Stepping(transport, self._stepping_by, self._target)
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
        call = self._begin("unary_unary", method, request, deadline, _MOST_ITEMS)
        response = self._answer(call, method, lambda transport: transport.call(method, request, deadline))
        call.receives(response)
        call.ends(Ending())
        return response

    def stream(self, method: Method, request: Any, deadline: Deadline | None = None, *, copy: bool = True) -> Stream:
        self._check_open()
        check_stream(method)
        check_request(method, request)
        most = _MOST_IMAGES if holds_images(method.response) else _MOST_ITEMS
        # images shown in place are gone with the next item
        call = self._begin("unary_stream", method, request, deadline, most if copy else 0)
        stream = self._answer(call, method, lambda transport: transport.stream(method, request, deadline, copy=copy))
        return StagedStream(stream, call)

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
            self._target.close()

    # -- decisions ----------------------------------------------------------------------------------------------------

    def _choose_stepper(self) -> tuple[Transport, Decision]:
        """Return the side that steps, and the decision for it."""
        decision = self._target.policy.decide(STEP)
        began_ns = time.perf_counter_ns()
        try:
            return self._sides[decision.primary].open(), decision
        except TransportError as error:
            if not decision.may_fall_back:
                raise
            instead = replace(decision, primary=CONTROL, shadow=CANDIDATE)
            transport = self._sides[CONTROL].open()
            took_ns = time.perf_counter_ns() - began_ns
            answered, failed = (
                call_outcome(CONTROL, (), Ending(), took_ns),
                call_outcome(CANDIDATE, (), ending_of(error), took_ns),
            )
            self._target.policy.note(Comparison(STEP, instead, answered, failed))
            return transport, replace(decision, primary=CONTROL, shadow="")

    def _begin(self, arity: str, method: Method, request: Any, deadline: Deadline | None, most: int) -> RoutedCall:
        decision = self._stepping_by if method.name in STEPPING_PATH else None
        timeout_s = None if deadline is None else deadline.remaining_s
        call = self._target.call(method.name, timeout_s, decision=decision, most=most)
        call.begins(arity)
        call.sends(request)
        return call

    def _answer(self, call: RoutedCall, method: Method, attempt: Callable[[Transport], _Answer]) -> _Answer:
        """Return what `attempt` made of the side that answers; what it raises is noted, and raised."""
        side = self._sides[call.decision.primary]
        has_net = call.decision.may_fall_back and method.name not in STEPPING_PATH
        transport: Transport | None = None
        try:
            transport = side.ready() if has_net else side.open()
            return attempt(transport)
        except Exception as error:  # a candidate may raise anything
            ending = ending_of(error)
            if not (has_net and self._is_lost(side, transport, error)) or not call.falls_back(
                ending, unsent=transport is None
            ):
                call.ends(ending)
                raise
        except BaseException:
            call.left()
            raise
        return self._answer(call, method, attempt)  # now it is the control's to answer, which has no net

    def _is_lost(self, side: RoutedConnection, transport: Transport | None, error: Exception) -> bool:
        """True when the engine is not there, or the transport broke; then it is connected again."""
        if transport is None:
            self._reconnect(side)
            return True
        has_gone = isinstance(error, (PeerDied, ClosedError))
        if has_gone and transport is not self._stepping.transport:  # else its driver has to know
            side.lost(transport, error)
        return has_gone or not isinstance(error, TransportError)

    def _reconnect(self, side: RoutedConnection) -> None:
        """Try again, soon, to connect a side that failed before."""

        def connect() -> None:
            if side.retry_is_due:
                with suppress(TransportError):
                    side.open()

        with suppress(Busy):  # the next call tries again
            self._workers.run(connect)

    def _check_open(self) -> None:
        if os.getpid() != self._pid:
            raise ClosedError(
                "this transport belongs to the parent process", backend="staged", hint="connect again after fork()"
            )
        if self._closed:
            raise ClosedError("the transport is closed", backend="staged", hint="connect again")


class StagedStream(Stream):
    """The primary's stream as the caller reads it, its first items kept for the comparison.

    Everything the caller sees is `stream`'s own: items, errors, drops.
    """

    def __init__(self, stream: Stream, call: RoutedCall) -> None:
        self._stream = stream
        self._call = call

    @property
    def dropped(self) -> int:  # pyright: ignore[reportIncompatibleVariableOverride] - a count, read only
        """Items that the engine skipped so far because this side was slow."""
        return self._stream.dropped

    def __next__(self) -> Any:
        try:
            item = next(self._stream)
        except StopIteration:
            self._call.received.dropped = self._stream.dropped  # gRPC tells it with the end
            self._call.ends(Ending())
            raise
        except TransportError as error:
            self._call.ends(ending_of(error))
            raise
        if not self._call.is_over:
            self._call.received.dropped = self._stream.dropped
            self._call.receives(item)
        return item

    def cancel(self) -> None:
        if "_stream" in self.__dict__:  # else the constructor never ran
            self._call.ends(SO_FAR)
            self._call.left()
            self._stream.cancel()

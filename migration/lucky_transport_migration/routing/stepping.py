"""The stepping path of a staged transport: one side for as long as the connection lasts.

An engine has one driver, so the side is chosen once, by the stage of AgentService/Step; the next connection may get the
other one. Exchanges are far quicker than notes: every 64th is noted with its time, and each one that failed.
"""

from __future__ import annotations

import itertools
import time
from typing import Any

from numpy.typing import NDArray

from lucky_transport.deadline import Deadline
from lucky_transport.errors import PeerTimeout, TransportError
from lucky_transport.messages.methods import method
from lucky_transport.routing import Decision, Ending
from lucky_transport.transport import Frame, Transport
from lucky_transport_migration.evidence.outcome import Comparison, call_outcome, ending_of
from lucky_transport_migration.routing.routed_call import CHANGES
from lucky_transport_migration.routing.router import TargetRouter

_STEP = method("AgentService/Step")
_NOTED_EVERY = 64


class Stepping:
    """Exchanges over `transport`, as `decision` says; `send`, `recv` and `step` as `Transport` has them."""

    def __init__(self, transport: Transport, decision: Decision, target: TargetRouter) -> None:
        self.transport = transport
        self._decision = decision
        self._policy = target.policy
        self._world = target.world
        self._counted = itertools.count()
        self._began_ns = 0
        self._is_open = False  # an exchange is under way

    def send(self, actions: NDArray[Any], control: NDArray[Any] | None = None) -> None:
        """Publish an exchange."""
        was_open = self._is_open
        self._begin()
        try:
            self.transport.send(actions, control)
        except BaseException:
            if not was_open:
                self._end()
            raise

    def recv(self, deadline: Deadline | None = None) -> Frame:
        """Return its frame."""
        try:
            frame = self.transport.recv(deadline)
        except BaseException as error:
            self._failed(error)
            raise
        self._succeeded()
        return frame

    def step(
        self, actions: NDArray[Any], control: NDArray[Any] | None = None, deadline: Deadline | None = None
    ) -> Frame:
        """Both in one call, by the transport's own quickest way."""
        self._begin()
        try:
            frame = self.transport.step(actions, control, deadline)
        except BaseException as error:
            self._failed(error)
            raise
        self._succeeded()
        return frame

    def _begin(self) -> None:
        self._began_ns = time.perf_counter_ns()
        self._is_open = True
        self._world.begin(self)

    def _succeeded(self) -> None:
        self._end()
        if next(self._counted) % _NOTED_EVERY == 0:
            self._note(Ending())

    def _failed(self, error: BaseException) -> None:
        if not isinstance(error, PeerTimeout):  # after it the frame may still be received
            self._end()
        if isinstance(error, TransportError):
            self._note(ending_of(error))

    def _end(self) -> None:
        self._is_open = False
        self._world.end(self)

    def _note(self, ending: Ending) -> None:
        outcome = call_outcome(self._decision.primary, (), ending, time.perf_counter_ns() - self._began_ns)
        self._policy.note(Comparison(_STEP.name, self._decision, outcome, why=CHANGES))

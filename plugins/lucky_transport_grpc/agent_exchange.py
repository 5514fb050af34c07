"""Stepping through the legacy AgentService: one call per agent, as every client of LuckyEngine does it."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from lucky_transport.deadline import Deadline
from lucky_transport.engine import HOLD, RESET, TICK, Buffers
from lucky_transport.errors import EngineFailed, TransportError
from lucky_transport.spec.batch_spec import BatchSpec
from lucky_transport.transport import Frame
from lucky_transport_grpc import _pb
from lucky_transport_grpc.agent_rows import AgentRows
from lucky_transport_grpc.connection import GrpcConnection
from lucky_transport_grpc.exchange import CallsUnderWay, Exchange
from lucky_transport_grpc.metadata import AFTER_RESET, ALL_TERMS, SEQ, Metadata

_SERVICE = "/hazel.rpc.AgentService/"
_RETRY_S = 0.25
#: Calls of one phase in flight, one per agent: gRPC's own defaults cancel calls beyond about 1,000 pending ones.
_WINDOW = 256


class AgentExchange(Exchange):
    """One engine's AgentService. `contract` returns the SimulationContract (protobuf) for resets, or None.

    `ours`: the engine knows our metadata, so a repeated number is not stepped twice. A real engine ignores it.
    """

    def __init__(
        self, connection: GrpcConnection, spec: BatchSpec, contract: Callable[[], Any] = lambda: None, *, ours: bool
    ) -> None:
        self._connection = connection
        self._contract = contract
        self._ours = ours
        self._spec = spec
        self._names = [f"agent_{env}" for env in range(spec.num_envs)]
        self._timeout_s = connection.settings.step_timeout_s
        self._step_request: Any = _pb.methods()[_SERVICE + "Step"].request
        self._reset_request: Any = _pb.methods()[_SERVICE + "ResetAgent"].request
        self._step = connection.method(_SERVICE + "Step")
        self._reset = connection.method(_SERVICE + "ResetAgent")
        self._rows = AgentRows(spec, Buffers.allocate(spec))
        self._seq = 0
        self._phases: deque[_Phase] = deque()

    def start(self, actions: NDArray[Any], control: NDArray[np.uint8] | None) -> None:
        rows = self._rows.to_lists(actions)
        everyone = np.arange(self._spec.num_envs)
        reset, stepped = everyone[:0], everyone
        if control is not None:
            reset = np.flatnonzero(control & RESET)
            stepped = np.flatnonzero((control & (RESET | HOLD)) == 0)
            for env in np.flatnonzero(control & TICK):
                rows[env] = []
        # Envs that hold get no call, and their rows stay as they are. The marked Step of an env that was reset makes a
        # real engine tick once with zeros; ours only shows the observation.
        phases: deque[_Phase] = deque()
        for envs in _windows(reset):
            phases += [self._resets(envs), self._marked_steps(envs)]
        phases += [self._steps(envs, rows) for envs in _windows(stepped)]
        self._phases = phases  # no signal handler runs between these
        self.open = True
        if phases:
            phases[0].calls.begin()

    def _resets(self, envs: list[int]) -> _Phase:
        contract, metadata = self._contract(), self._metadata()
        requests = [self._reset_request(agent_name=self._names[env], simulation_contract=contract) for env in envs]
        calls = CallsUnderWay([(self._reset, request, metadata) for request in requests])
        return _Phase(envs, calls, self._take_reset)

    def _marked_steps(self, envs: list[int]) -> _Phase:
        metadata, rest = self._metadata(((AFTER_RESET, "1"),)), [0.0] * self._spec.action.size
        calls = CallsUnderWay([(self._step, self._step_of(env, rest), metadata) for env in envs])
        return _Phase(envs, calls, self._rows.take_reset)

    def _steps(self, envs: list[int], actions: Sequence[Sequence[float]], more: Metadata = ()) -> _Phase:
        metadata = self._metadata(more)
        calls = CallsUnderWay([(self._step, self._step_of(env, actions[env]), metadata) for env in envs])
        return _Phase(envs, calls, self._rows.take_step)

    def _step_of(self, env: int, actions: Sequence[float]) -> Any:
        return self._step_request(agent_name=self._names[env], actions=actions, timeout_s=self._timeout_s)

    def _metadata(self, more: Metadata = ()) -> Metadata:
        return self._connection.identity + ALL_TERMS + more

    def _take_reset(self, env: int, response: Any) -> bool:
        """Return False for a reset that came too early."""
        if response.success:
            return True
        if "not ready yet" not in response.message:  # what an engine says whose scene is still loading
            raise EngineFailed(f"{self._names[env]} was not reset: {response.message}", backend="grpc")
        return False

    def finish(self, deadline: Deadline) -> Frame:
        while self._phases:
            envs, calls, take = self._phases[0]
            if not calls.wait(deadline):
                raise self._connection.late(deadline)
            try:
                taken = zip(envs, self._connection.results(calls, deadline), strict=True)
                early = [env for env, response in taken if take(env, response) is False]
            except TransportError:  # the engine's answer
                self.open = False
                raise
            if early:
                self._reset_again(early, deadline)
            else:
                self._phases.popleft()
        frame = self._rows.frame()
        self.open = False
        return frame

    def _reset_again(self, envs: list[int], deadline: Deadline) -> None:
        """Ask once more for the resets that came too early."""
        time.sleep(min(_RETRY_S, deadline.remaining_s))
        self._phases[0] = self._resets(envs)

    def run(self, actions: NDArray[Any], control: NDArray[np.uint8] | None, deadline: Deadline) -> Frame:
        # With one env on our own server a blocking call is faster; its number makes it repeatable after a deadline.
        if self._spec.num_envs > 1 or not self._ours or (control is not None and control.any()):
            return super().run(actions, control, deadline)
        number = self._seq + 1
        rows, metadata = self._rows.to_lists(actions), ((SEQ, str(number)),)
        phases = deque([self._steps([0], rows, metadata)])
        self._seq = number  # no signal handler runs between these
        self._phases = phases
        self.open = True
        self._connection.answer(phases[0].calls, deadline)
        return self.finish(deadline)


class _Phase(NamedTuple):
    """Calls for some envs that go on together. take: what is done with each response; False for one to ask again."""

    envs: list[int]
    calls: CallsUnderWay
    take: Callable[[int, Any], bool | None]


def _windows(envs: NDArray[np.intp]) -> list[list[int]]:
    return [envs[at : at + _WINDOW].tolist() for at in range(0, len(envs), _WINDOW)]

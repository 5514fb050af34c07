"""Stepping through the legacy AgentService: one call per agent, as every client of LuckyEngine does it."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

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
from lucky_transport_grpc.errors import is_local_timeout
from lucky_transport_grpc.exchange import Exchange
from lucky_transport_grpc.metadata import AFTER_RESET, ALL_TERMS, BATCH, SEQ, WINDOW, Metadata
from lucky_transport_grpc.runtime import grpc

__all__ = ["AgentExchange"]

_SERVICE = "/hazel.rpc.AgentService/"
_RETRY_S = 0.25


class AgentExchange(Exchange):
    """One engine's AgentService. `contract` returns the SimulationContract (protobuf) for resets, or None.

    `ours`: the engine knows our metadata, so the calls of a phase become one exchange of its own, and a repeated number
    is not stepped twice. A real engine ignores the metadata.
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
        self._actions: list[list[float]] = []
        self._phases: deque[tuple[Callable[[list[int]], None], list[int]]] = deque()
        self._in_flight: deque[tuple[int, Any, Callable[[int, Any], None]]] = deque()
        self._not_ready: list[int] = []

    def start(self, actions: NDArray[Any], control: NDArray[np.uint8] | None) -> None:
        self.open = True
        self._actions = self._rows.to_lists(actions)
        everyone = np.arange(self._spec.num_envs)
        reset, stepped = everyone[:0], everyone
        if control is not None:
            reset = np.flatnonzero(control & RESET)
            stepped = np.flatnonzero((control & (RESET | HOLD)) == 0)
            for env in np.flatnonzero(control & TICK):
                self._actions[env] = []
        # Envs that hold get no call, and their rows stay as they are. The marked Step of an env that was reset makes a
        # real engine tick once with zeros; ours only shows the observation.
        for envs in _windows(reset):
            self._phases += [(self._publish_resets, envs), (self._publish_marked_steps, envs)]
        self._phases += [(self._publish_steps, envs) for envs in _windows(stepped)]
        self._publish_next()

    def _publish_next(self) -> None:
        if self._phases:
            publish, envs = self._phases.popleft()
            publish(envs)

    def _publish_resets(self, envs: list[int]) -> None:
        metadata = self._metadata(self._batch(envs))
        contract = self._contract()
        for env in envs:
            request = self._reset_request(agent_name=self._names[env], simulation_contract=contract)
            self._in_flight.append((env, self._connection.publish(self._reset, request, metadata), self._take_reset))

    def _publish_marked_steps(self, envs: list[int]) -> None:
        metadata = self._metadata(((AFTER_RESET, "1"),))
        rest = [0.0] * self._spec.action.size
        for env in envs:
            future = self._connection.publish(self._step, self._step_of(env, rest), metadata)
            self._in_flight.append((env, future, self._rows.take_reset))

    def _publish_steps(self, envs: list[int]) -> None:
        metadata = self._metadata(self._batch(envs))
        for env in envs:
            future = self._connection.publish(self._step, self._step_of(env, self._actions[env]), metadata)
            self._in_flight.append((env, future, self._rows.take_step))

    def _step_of(self, env: int, actions: Sequence[float]) -> Any:
        return self._step_request(agent_name=self._names[env], actions=actions, timeout_s=self._timeout_s)

    def _metadata(self, more: Metadata) -> Metadata:
        return self._connection.identity + ALL_TERMS + more

    def _batch(self, envs: list[int]) -> Metadata:
        return ((BATCH, str(len(envs))),) if self._spec.num_envs > 1 else ()

    def _take_reset(self, env: int, response: Any) -> None:
        if response.success:
            return
        if "not ready yet" not in response.message:  # what an engine says whose scene is still loading
            raise EngineFailed(f"{self._names[env]} was not reset: {response.message}", backend="grpc")
        self._not_ready.append(env)

    def finish(self, deadline: Deadline) -> Frame:
        try:
            while True:
                while self._in_flight:
                    env, future, take = self._in_flight[0]
                    if not self._connection.arrived(future, deadline):
                        raise self._connection.late(deadline)
                    self._in_flight.popleft()
                    self.open = False  # whatever goes wrong from here on is the engine's answer
                    take(env, self._connection.result(future, deadline))
                    self.open = True
                if self._not_ready:
                    self._reset_again(deadline)
                elif not self._phases:
                    break
                else:
                    self._publish_next()
        except TransportError:
            if not self.open:
                self._abandon()
            raise
        self.open = False
        return self._rows.frame()

    def _reset_again(self, deadline: Deadline) -> None:
        """Ask once more for the resets that came too early."""
        if deadline.remaining_s < _RETRY_S:
            raise self._connection.late(deadline)
        time.sleep(_RETRY_S)
        envs, self._not_ready = self._not_ready, []
        self._publish_resets(envs)

    def _abandon(self) -> None:
        """Drop what is left of an exchange that was refused."""
        for _, future, _ in self._in_flight:
            future.cancel()
        self._in_flight.clear()
        self._phases.clear()
        self._not_ready.clear()

    def run(self, actions: NDArray[Any], control: NDArray[np.uint8] | None, deadline: Deadline) -> Frame:
        # With one env on our own server a blocking call is faster; its number makes it repeatable after a deadline.
        if self._spec.num_envs > 1 or not self._ours or (control is not None and control.any()):
            return super().run(actions, control, deadline)
        self._seq += 1
        self.open = True
        request = self._step_of(0, self._rows.to_lists(actions)[0])
        metadata = self._metadata(((SEQ, str(self._seq)),))
        try:
            response = self._step(request, timeout=deadline.remaining_s, metadata=metadata)
        except grpc.RpcError as error:
            if is_local_timeout(error):
                self._repeat(request, metadata)
            else:
                self.open = False
            raise self._connection.error(error, deadline) from error
        except BaseException as error:
            self._connection.check_channel(error)
            if not self._connection.closed:
                self._repeat(request, metadata)  # Ctrl-C: the call is given up, the exchange is not
            raise
        self.open = False
        self._rows.take_step(0, response)
        return self._rows.frame()

    def _repeat(self, request: Any, metadata: Metadata) -> None:
        self._in_flight.append((0, self._connection.publish(self._step, request, metadata), self._rows.take_step))


def _windows(envs: NDArray[np.intp]) -> list[list[int]]:
    """Return `envs` in pieces of at most WINDOW."""
    return [envs[at : at + WINDOW].tolist() for at in range(0, len(envs), WINDOW)]

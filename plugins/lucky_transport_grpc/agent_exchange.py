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
from lucky_transport.errors import EngineFailed, RemoteProtocolError, SpecError, TransportError
from lucky_transport.spec.batch_spec import ArraySpec, BatchSpec, total_reward
from lucky_transport.transport import Frame
from lucky_transport_grpc import _pb
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


_EXACT = ("float32", "int8", "int16", "uint8", "uint16", "bool")
_LARGEST_EXACT = 1 << 24
_REMEDY = "use the batch service (endpoint option service=batch; for `parity` the path grpc-batch)"


# The legacy protocol carries float32 only; what float32 cannot carry exactly is refused before the first step.
def check_exact(spec: BatchSpec) -> None:
    """Raise SpecError when observations or actions have parts, or would be rounded on their way through float32."""
    if spec.has_parts:
        raise SpecError(
            f"engine {spec.engine!r} has observations or actions with parts; AgentService.Step carries one row of "
            f"numbers",
            backend="grpc",
            hint=f"{_REMEDY}, which carries every part",
        )
    for what, array in (("observations", spec.observation), ("actions", spec.action)):
        if array.dtype not in _EXACT and not _small_integers(array):
            raise SpecError(
                f"{what} of engine {spec.engine!r} are {array.dtype}; AgentService.Step carries float32 only",
                backend="grpc",
                hint=f"{_REMEDY}, which keeps every dtype",
            )


def _small_integers(array: ArraySpec) -> bool:
    """True for integers whose bounds are known and within what float32 holds exactly (a Discrete space's values)."""
    if np.dtype(array.dtype).kind not in "iu" or array.low is None or array.high is None:
        return False
    return bool(np.min(array.low) >= -_LARGEST_EXACT and np.max(array.high) <= _LARGEST_EXACT)


class AgentRows:
    """The frame that Step responses fill row by row; rows without a response stay as they are."""

    def __init__(self, spec: BatchSpec, buffers: Buffers) -> None:
        self._spec = spec
        self._buffers = buffers
        self._observations = buffers.observations.reshape(spec.num_envs, -1)
        self._reward_rows = list(enumerate(spec.reward_terms))
        self._termination_rows = list(enumerate(spec.termination_terms, len(spec.reward_terms)))

    def to_lists(self, actions: NDArray[Any]) -> list[list[float]]:
        """Return the batch of actions as one flat list of floats per env (what protobuf packs fastest)."""
        return actions.reshape(self._spec.num_envs, -1).astype(np.float32, copy=False).tolist()

    def take_step(self, env: int, response: Any) -> None:
        """Make row `env` show what this Step led to."""
        self._take_observation(env, response)
        buffers = self._buffers
        buffers.terminated[env] = response.terminated
        buffers.truncated[env] = response.truncated
        rewards, flags = dict(response.reward_signals), dict(response.termination_flags)  # a map invents missing keys
        try:
            for row, name in self._reward_rows:
                buffers.signals[row, env] = rewards[name]
            for row, name in self._termination_rows:
                buffers.signals[row, env] = flags[name]
        except KeyError as error:
            raise RemoteProtocolError(
                f"agent_{env}: the Step carries no term {error}; it has rewards {sorted(rewards)} and "
                f"terminations {sorted(flags)}",
                backend="grpc",
                hint="negotiate all terms, or connect again, which does",
            ) from error

    def take_reset(self, env: int, response: Any) -> None:
        """Make row `env` show a reset: the observation, and no reward or flag whatever the engine reports."""
        self._take_observation(env, response)
        buffers = self._buffers
        buffers.terminated[env] = buffers.truncated[env] = 0
        buffers.signals[:, env] = 0

    def _take_observation(self, env: int, response: Any) -> None:
        if not response.success:
            raise EngineFailed(f"agent_{env} did not step: {response.message}", backend="grpc")
        values = response.observation.observations
        expected = self._observations.shape[1]
        if len(values) != expected:
            raise RemoteProtocolError(
                f"agent_{env}: {len(values)} observation values, expected {expected} as in its schema", backend="grpc"
            )
        self._observations[env] = values

    def frame(self) -> Frame:
        """Return a read-only view of all rows, with the total rewards."""
        buffers = self._buffers
        total_reward(buffers.signals, len(self._spec.reward_terms), buffers.rewards)
        frame = Frame.showing(buffers)
        frame.any_ended = bool(buffers.terminated.any() or buffers.truncated.any())
        return frame

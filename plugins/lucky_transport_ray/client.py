"""The client end: one batch whose envs are spread over actors of a Ray cluster.

    env = lucky_transport.make(endpoint="ray:?engine=mujoco:quadruped&actors=4&num_envs=4096")

Env i of the batch is env i of the same engine in one process, bit for bit: an engine seeds env i by seed + i, and each
actor is told its share. The termination term "actor_lost" tells, in info and with a mask, which envs were truncated
because their actor or its node was lost.
"""

from __future__ import annotations

import os
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lucky_transport.call import check_request, check_unary
from lucky_transport.config import Settings
from lucky_transport.deadline import Deadline
from lucky_transport.endpoint import Endpoint
from lucky_transport.engine import Buffers
from lucky_transport.errors import ClosedError, PeerTimeout, SpecError, TransportError, Unimplemented
from lucky_transport.lockstep import LockstepEvent, LockstepState, LockstepTransport
from lucky_transport.messages import SetSeedsRequest, SetSeedsResponse
from lucky_transport.messages.methods import Effect, Method
from lucky_transport.spec.batch_spec import BatchSpec
from lucky_transport.transport import Capabilities, Frame
from lucky_transport_ray.cluster import Cluster
from lucky_transport_ray.options import RayOptions, ray_options
from lucky_transport_ray.shard import Shard, end

#: The termination term of an env whose actor was lost.
ACTOR_LOST = "actor_lost"

_SET_SEEDS = "/lucky_transport.v1.BatchService/SetSeeds"
#: What concerns single agents, single envs or sessions: no engine here has all of them.
_OF_ONE_ENGINE = ("/lucky_transport.v1.SessionService/", "/lucky_transport.v1.StateService/")
_OF_AGENTS = frozenset(f"/hazel.rpc.AgentService/{name}" for name in ("Step", "ResetAgent"))


def connect(endpoint: Endpoint, settings: Settings) -> RayTransport:
    """Start the actors that the endpoint names, and return the transport to all of them.

    Raises ConfigError, NotReachable (no cluster), PeerTimeout (no room for the actors), and what the engine raises.
    """
    return RayTransport(ray_options(endpoint), settings)


class RayTransport(LockstepTransport):
    """Steps all actors together, each with its share of the envs."""

    name = "ray"

    def __init__(self, options: RayOptions, settings: Settings) -> None:
        self._settings = settings
        self._cluster = Cluster(options, settings)
        self._shards: list[Shard] = []
        try:
            for number, envs in enumerate(_shares(options.num_envs, options.actors)):
                self._shards.append(Shard(self._cluster, number, envs, options.restarts, settings))
            deadline = Deadline(settings.start_timeout_s)
            described = [shard.describe(deadline) for shard in self._shards]
        except BaseException:
            self._end()
            raise
        spec, self._answered = BatchSpec.from_json(described[0][0]), frozenset(described[0][1])
        for shard in self._shards:
            shard.has_hold = spec.hold
        whole = _whole_spec(spec, options.num_envs)
        self.capabilities = Capabilities(hold=spec.hold)
        self._buffers = Buffers.allocate(whole)
        super().__init__(whole, self._buffers.actions)
        self._frame = Frame.showing(self._buffers)

    @property
    def restarts(self) -> list[int]:
        """How often each actor was replaced so far."""
        return [shard.restarts for shard in self._shards]

    @property
    def places(self) -> list[str]:
        """Where each actor runs, "" for one that is starting."""
        return [shard.place for shard in self._shards]

    def send(self, actions: NDArray[Any], control: NDArray[np.uint8] | None = None) -> None:
        checked, control = self._check(actions, control)
        self._keep(checked)
        for shard in self._shards:
            shard.send(self.actions[shard.envs].copy(), None if control is None else control[shard.envs])
        self._lockstep.on(LockstepEvent.SEND)
        self._due = list(self._shards)
        self._failure: TransportError | None = None

    def recv(self, deadline: Deadline | None = None) -> Frame:
        self._check_sent()
        while self._due:
            self._receive(self._due[0], deadline)
            self._due.pop(0)
        if self._failure is not None:
            self._lockstep.on(LockstepEvent.REFUSED)
            raise self._failure
        self._lockstep.on(LockstepEvent.FRAME)
        return self._numbered(self._frame)

    def _receive(self, shard: Shard, deadline: Deadline | None) -> None:
        """Write one actor's rows; an engine's error waits until all have answered. Raises PeerTimeout."""
        try:
            rows = shard.recv(deadline)
        except PeerTimeout:
            raise
        except TransportError as error:
            self._failure = self._failure or error
            return
        buffers, envs = self._buffers, shard.envs
        if rows is not None:
            observations, rewards, terminated, truncated, signals = rows
            keep = shard.lost
            for target, found in (
                (buffers.observations[envs], observations),
                (buffers.rewards[envs], rewards),
                (buffers.terminated[envs], terminated),
                (buffers.truncated[envs], truncated),
            ):
                if keep.any():
                    target[~keep] = found[~keep]
                else:
                    np.copyto(target, found)
            buffers.signals[:-1, envs] = signals
            buffers.signals[-1, envs] = 0
        if shard.lost.any():
            self._end_lost(shard)

    def _end_lost(self, shard: Shard) -> None:
        """Truncate the envs whose worlds were lost: their last observation stays, nothing was gained."""
        buffers = self._buffers
        envs = np.flatnonzero(shard.lost) + shard.envs.start
        buffers.rewards[envs] = 0
        buffers.terminated[envs] = 0
        buffers.truncated[envs] = 1
        buffers.signals[:, envs] = 0
        buffers.signals[-1, envs] = 1

    def call(self, method: Method, request: Any, deadline: Deadline | None = None) -> Any:
        """Return the response of a typed method.

        What changes nothing is asked of the first actor's engine. What changes something is done by all of them, and
        the first one's response is returned. Without a deadline each has `command_timeout_s`, and `start_timeout_s`
        more where it has to be replaced. Raises Unimplemented for what concerns one agent or session.
        """
        self._check_open()
        check_unary(method)
        check_request(method, request)
        if not self.implements(method):
            raise Unimplemented(
                f"{method.name} is not there over ray: "
                + (
                    "the engine does not implement it"
                    if method.name not in self._answered
                    else "it concerns one engine"
                ),
                backend="ray",
                hint="connect to the engine itself, over shm:// on its node",
            )
        if method.name == _SET_SEEDS:
            return self._set_seeds(request, deadline)
        shards = self._shards[:1] if method.effect is Effect.READ else self._shards
        answers = [shard.call(method.name, request, deadline) for shard in shards]
        return answers[0]

    def _set_seeds(self, request: SetSeedsRequest, deadline: Deadline | None) -> Any:
        """Give each actor the seeds of its envs; the first refusal is the answer."""
        if len(request.seeds) != self.spec.num_envs or len(request.mask) not in (0, self.spec.num_envs):
            raise SpecError(f"{len(request.seeds)} seeds for {self.spec.num_envs} envs: expected one per env")
        answers = [
            shard.call(_SET_SEEDS, SetSeedsRequest(request.seeds[shard.envs], request.mask[shard.envs]), deadline)
            for shard in self._shards
            if not request.mask or any(request.mask[shard.envs])
        ]
        return next((answer for answer in answers if not answer.success), SetSeedsResponse(True))

    def implements(self, method: Method) -> bool:
        return (
            method.stream is None
            and method.name in self._answered
            and method.name not in _OF_AGENTS
            and not method.name.startswith(_OF_ONE_ENGINE)
        )

    def _check_open(self) -> None:
        if self._lockstep.state is LockstepState.CLOSED:
            raise ClosedError("the transport is closed", backend="ray", hint="connect again")
        self._check_process()

    def close(self) -> None:
        if self._lockstep.state is not LockstepState.CLOSED:
            self._lockstep.on(LockstepEvent.CLOSE)
            if os.getpid() == self._pid:
                self._end()

    def _end(self) -> None:
        try:
            end(self._shards)
        finally:
            self._cluster.close()


def _shares(num_envs: int, actors: int) -> list[slice]:
    """Return each actor's envs; the first ones have one more where it does not come out even."""
    size, more = divmod(num_envs, actors)
    ends = np.cumsum([size + (number < more) for number in range(actors)]).tolist()
    return [slice(start, end) for start, end in zip([0, *ends[:-1]], ends, strict=True)]


def _whole_spec(spec: BatchSpec, num_envs: int) -> BatchSpec:
    """Return the spec of the whole batch, with the term that tells of lost actors."""
    if ACTOR_LOST in (*spec.reward_terms, *spec.termination_terms):
        raise SpecError(f"engine {spec.engine!r} has a term {ACTOR_LOST!r} of its own", backend="ray")
    return replace(
        spec,
        num_envs=num_envs,
        termination_terms=(*spec.termination_terms, ACTOR_LOST),
        timeout_terms=(*spec.timeout_terms, ACTOR_LOST),
    )

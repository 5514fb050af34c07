"""One actor's share of a batch: which envs, the actor that has them now, and what was lost with one before.

    lost    the env's world was lost with its actor, and no reset has made a new one: each frame ends its episode again
    ready   the actor has told what its engine is

The envs of a lost actor are truncated in the frame of the loss, with their last observation. Whoever steps resets them,
as any env that was truncated, and by that time another actor has them.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lucky_transport.config import Settings
from lucky_transport.deadline import Deadline
from lucky_transport.engine import HOLD, RESET
from lucky_transport.errors import Busy, PeerDied, PeerTimeout, TransportError
from lucky_transport.messages import SetResetOptionsRequest, SetSeedsRequest
from lucky_transport.messages.methods import method
from lucky_transport_ray.actor import Failure, FrameArrays
from lucky_transport_ray.cluster import ActorGone, Cluster, lost_errors
from lucky_transport_ray.runtime import exceptions, ray

_log = logging.getLogger("lucky_transport")
_SET_SEEDS = method("/lucky_transport.v1.BatchService/SetSeeds").name
#: How long an engine that is there may take to end.
_CLOSE_S = 5.0
_SET_OPTIONS = method("/lucky_transport.v1.BatchService/SetResetOptions").name


def _seeds_over(before: SetSeedsRequest | None, request: SetSeedsRequest) -> SetSeedsRequest:
    """Return the seeds of `request` where its mask has them, and those from before in the other envs."""
    if before is None or not request.mask:
        return request
    old = zip(before.seeds, before.mask or bytes([1]) * len(before.seeds), strict=True)
    new = zip(request.seeds, request.mask, strict=True)
    rows = [ours if ours[1] else theirs for ours, theirs in zip(new, old, strict=True)]
    return SetSeedsRequest([seed for seed, _ in rows], bytes(given for _, given in rows))


class Shard:
    """The envs `envs` (a slice of the batch) and the actor that steps them.

    lost: bool (envs,), see above. restarts: how often the actor was replaced. place: where it runs.
    """

    def __init__(self, cluster: Cluster, number: int, envs: slice, most_restarts: int, settings: Settings) -> None:
        self.number = number
        self.envs = envs
        self.size = envs.stop - envs.start
        self.lost = np.zeros(self.size, np.bool_)
        self.restarts = 0
        self.place = ""
        self.has_hold = True
        self._cluster = cluster
        self._most_restarts = most_restarts
        self._settings = settings
        self._seeds: SetSeedsRequest | None = None
        self._options: SetResetOptionsRequest | None = None
        self._frame: Any = None  # the exchange under way
        self._sent: tuple[NDArray[Any], NDArray[np.uint8] | None] | None = None
        self._start()

    def _start(self) -> None:
        self.actor = self._cluster.start(self.number, self.size, self.envs.start)
        self._place = self.actor.place.remote()
        self._description = self.actor.start.remote()
        self._start_deadline = Deadline(self._settings.start_timeout_s)
        self._is_ready = False

    @property
    def name(self) -> str:
        """What the actor is called in texts."""
        where = f", {self.place}" if self.place else ""
        return f"actor {self.number} (envs {self.envs.start} to {self.envs.stop - 1}{where})"

    def describe(self, deadline: Deadline) -> tuple[str, list[str]]:
        """Return the spec as JSON and the methods that the engine answers. Raises what starting the engine raised."""
        try:
            return self._started(deadline, "start of its engine")
        except lost_errors() as error:
            raise PeerDied(f"{self.name} ended before its engine was ready: {error}", backend="ray") from error

    def _started(self, deadline: Deadline, what: str) -> tuple[str, list[str]]:
        self.place = self._value(self._place, deadline, what)
        description: tuple[str, list[str]] = self._value(self._description, deadline, what)
        self._is_ready = True
        return description

    def call(self, name: str, request: Any, deadline: Deadline | None) -> Any:
        """Return the response of a unary method; seeds and options are kept for an actor that may have to follow."""
        if name == _SET_OPTIONS:
            self._options = request
        if name == _SET_SEEDS:
            self._seeds = _seeds_over(self._seeds, request)
        try:
            if not self._is_ready:
                self._await_ready(deadline)
            return self._call(name, request, deadline)
        except lost_errors() as error:
            self._replace(error)
            if name in (_SET_OPTIONS, _SET_SEEDS):  # they belong to the reset that follows, which makes new worlds
                return self.call(name, request, deadline)
            raise PeerDied(f"{self.name} was lost in a call of {name}", backend="ray", hint="reset its envs") from error

    def _call(self, name: str, request: Any, deadline: Deadline | None) -> Any:
        within = Deadline.after(deadline, self._settings.command_timeout_s)
        return self._value(self._remote("call", name, request), within, name)

    def send(self, actions: NDArray[Any], control: NDArray[np.uint8] | None) -> None:
        """Begin an exchange; returns at once. Envs that are lost take no part until they are reset."""
        if self.lost.any():
            control = np.zeros(self.size, np.uint8) if control is None else control.copy()
            waiting = self.lost & ((control & RESET) == 0)
            if self.has_hold:
                control[waiting] = HOLD
            elif waiting.all():
                control[:] = HOLD
        if control is not None and ((control & HOLD) != 0).all():
            self._frame = self._sent = None  # its rows stay as they are
            return
        self._sent = (actions, control)
        self._frame = None
        with suppress(Busy):  # `recv` tries again, and raises it
            if self._is_ready:
                self._frame = self._remote("step", *self._sent)

    def _remote(self, name: str, *arguments: Any) -> Any:
        """Begin a call of the actor. Raises Busy when too many wait there."""
        try:
            return getattr(self.actor, name).remote(*arguments)
        except exceptions.PendingCallsLimitExceeded as error:
            raise Busy(f"{self.name} has too many calls waiting", backend="ray", hint="make fewer at a time") from error

    def recv(self, deadline: Deadline | None) -> FrameArrays | None:
        """Return the frame of the exchange, None where rows stay as they are. `lost` says which are not of it.

        An actor that was lost is replaced; if the exchange resets envs, the new one does it. Raises PeerTimeout (it may
        be called again), PeerDied (the actor was replaced too often), and what the engine raised.
        """
        while self._sent is not None:
            actions, control = self._sent
            reset = np.zeros(self.size, np.bool_) if control is None else (control & RESET) != 0
            try:
                if self._frame is None:
                    self._await_ready(deadline)
                    self._frame = self._remote("step", actions, control)
                within = Deadline.after(deadline, self._settings.step_timeout_s)
                frame: FrameArrays = self._value(self._frame, within, "step")
            except lost_errors() as error:
                self._replace(error)
                if not reset.any():
                    self._sent = None
                    return None
                self._repeat_resets(reset)
                continue
            except PeerTimeout:
                raise
            except TransportError:
                self._sent = self._frame = None
                raise
            self._sent = self._frame = None
            self.lost &= ~reset
            return frame
        return None

    def _repeat_resets(self, reset: NDArray[np.bool_]) -> None:
        """Have the new actor do the resets of the exchange, and nothing else."""
        assert self._sent is not None, "an exchange is under way"
        rest = np.uint8(HOLD if self.has_hold else RESET)
        self._sent = (self._sent[0], np.where(reset, np.uint8(RESET), rest))
        self._frame = None

    def _replace(self, why: BaseException) -> None:
        """Start another actor for the same envs, all of which are lost. Raises PeerDied after too many."""
        self._frame = None
        self.lost[:] = True
        ray.kill(self.actor, no_restart=True)
        reason = " ".join(str(why).split())[:300]
        if self.restarts >= self._most_restarts:
            self._sent = None
            raise PeerDied(
                f"{self.name} was lost and has been replaced {self.restarts} times: {reason}",
                backend="ray",
                hint="raise restarts=, or look for what ends it",
            )
        _log.warning("ray: %s was lost; its envs are reset, the others go on: %s", self.name, reason)
        self.restarts += 1
        self.place = ""
        self._start()

    def _await_ready(self, deadline: Deadline | None) -> None:
        """Wait until the actor's engine is there and has the seeds and options of the one before.

        Without a deadline, for as long as a start may take: no step or call of a program is meant to include one.
        """
        if self._is_ready:
            return
        self._started(deadline or self._start_deadline, "start of another engine")
        for name, request in ((_SET_OPTIONS, self._options), (_SET_SEEDS, self._seeds)):
            if request is not None:
                self._call(name, request, deadline)
        _log.warning("ray: %s follows", self.name)

    def begin_close(self) -> tuple[Any, float] | None:
        """Have the actor end its engine; return the answer to wait for and how long. None: it has no engine to end.

        An engine that is starting is awaited. With its actor, Ray kills it, too, and nothing would remove its files.
        """
        if not ray.wait([self._place], timeout=0)[0]:
            return None
        try:
            answer = self.actor.close.remote()
        except exceptions.RayError:
            return None  # the actor is gone
        return answer, _CLOSE_S if self._is_ready else max(_CLOSE_S, self._start_deadline.remaining_s)

    def _value(self, ref: Any, deadline: Deadline, what: str) -> Any:
        """Return what a call of the actor returned; raises what it failed with, PeerTimeout at the deadline."""
        try:
            value = ray.get(ref, timeout=deadline.remaining_s)
        except exceptions.GetTimeoutError as error:
            raise PeerTimeout(
                f"{self.name} did not end its {what} within {deadline.timeout_s:g} s",
                backend="ray",
                hint="see whether the cluster has room (`ray status`), or raise the timeout",
            ) from error
        if isinstance(value, Failure):
            if value.is_lost:
                raise ActorGone(value.text) from value.error()
            raise value.error()
        return value


def end(shards: Sequence[Shard]) -> None:
    """End the engines of the shards, then their actors, by force where an engine takes too long."""
    closing = [begun for shard in shards if (begun := shard.begin_close())]
    if closing:
        answers = [answer for answer, _ in closing]
        ray.wait(answers, num_returns=len(answers), timeout=max(timeout_s for _, timeout_s in closing))
    for shard in shards:
        ray.kill(shard.actor, no_restart=True)

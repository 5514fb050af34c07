"""The cluster as this plugin needs it: joined or started, actors placed, and all of it given back."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from typing import Any

from lucky_transport.config import Settings
from lucky_transport.deadline import Deadline
from lucky_transport.errors import NotReachable, PeerTimeout
from lucky_transport.futures import CallFuture, settle
from lucky_transport.uninterrupted import start_thread
from lucky_transport_ray.actor import EngineActor
from lucky_transport_ray.options import RayOptions
from lucky_transport_ray.runtime import (
    PlacementGroupSchedulingStrategy,
    exceptions,
    placement_group,
    ray,
    remove_placement_group,
)

_log = logging.getLogger("lucky_transport")

#: Calls that may wait at an actor; more of them are refused at once. A client has two under way at most.
_MOST_PENDING = 4
#: How long Ray may take to end.
_END_S = 30.0
#: An engine that takes this many times as long as a step may is held for lost.
_HANGS = 10


class ActorGone(Exception):
    """The actor is there, but its engine is not, or hangs."""


def lost_errors() -> tuple[type[Exception], ...]:
    """Return what Ray raises when an actor, its process or its node is gone."""
    return (
        ActorGone,
        exceptions.RayActorError,
        exceptions.NodeDiedError,
        exceptions.ObjectLostError,
        exceptions.OwnerDiedError,
        exceptions.WorkerCrashedError,
    )


def _within(timeout_s: float, call: Callable[[], Any]) -> None:
    """Make a call of Ray, whose end has no bound of its own. Raises TimeoutError, and what it raises."""
    future: CallFuture[Any] = CallFuture()
    start_thread(threading.Thread(target=settle, args=(future, call), name="lucky-ray", daemon=True))
    try:
        future.result(timeout_s)
    except TimeoutError:
        if future.done():
            raise
        raise TimeoutError(f"it takes longer than {timeout_s:g} s") from None


class Cluster:
    """Starts the actors of one batch; `close` ends what was begun here.

    A program that has called `ray.init` keeps its own connection. Raises NotReachable where there is no cluster.
    """

    def __init__(self, options: RayOptions, settings: Settings) -> None:
        self._options = options
        self._step_timeout_s = settings.step_timeout_s * _HANGS
        self._group: Any = None
        self._is_ours = not ray.is_initialized()
        if self._is_ours:
            try:
                # On this thread: the kernel ends Ray's processes with the thread that started them.
                self._connect()
            except Exception as error:  # a bare one where Ray does not come up within its own 30 s
                self._disconnect()
                raise NotReachable(
                    f"no Ray cluster at {options.address or 'this host'}: {error}",
                    backend="ray",
                    hint="start one with `ray start --head`; on a busy host that may take several attempts",
                ) from error
        if options.placement == "strict":
            self._group = self._reserve(Deadline(settings.start_timeout_s))

    def _connect(self) -> None:
        ray.init(
            address=self._options.address or None,
            include_dashboard=None if self._options.address else False,
            log_to_driver=False,
            logging_level=logging.WARNING,
            namespace="lucky_transport",
        )

    def _disconnect(self) -> None:
        try:
            _within(_END_S, ray.shutdown)
        except TimeoutError as error:
            _log.warning("ray: what it started here may be left, %s to end", error)

    def _reserve(self, deadline: Deadline) -> Any:
        group = placement_group([{"CPU": self._options.cpus or 0.001}] * self._options.actors, "STRICT_SPREAD")
        if not group.wait(deadline.remaining_s):
            remove_placement_group(group)
            self.close()
            raise PeerTimeout(
                f"the cluster had no {self._options.actors} nodes with {self._options.cpus:g} free CPUs each within "
                f"{deadline.timeout_s:g} s",
                backend="ray",
                hint="take fewer actors, or placement=spread",
            )
        return group

    def start(self, number: int, num_envs: int, first_env: int) -> Any:
        """Return actor `number`, for `num_envs` envs from `first_env` on. It has no engine before its `start`."""
        options = self._options
        if self._group is not None:
            where: Any = PlacementGroupSchedulingStrategy(self._group, placement_group_bundle_index=number)
        else:
            where = "SPREAD" if options.placement == "spread" else "DEFAULT"
        remote = ray.remote(EngineActor).options(
            num_cpus=options.cpus, max_restarts=0, max_pending_calls=_MOST_PENDING, scheduling_strategy=where
        )
        seed = None if options.seed is None else options.seed + first_env
        return remote.remote(
            options.engine, num_envs, seed, dict(options.options), options.transport, self._step_timeout_s
        )

    def close(self) -> None:
        """Give back what was reserved, and leave a cluster that was joined or started here."""
        if self._group is not None:
            remove_placement_group(self._group)
            self._group = None
        if self._is_ours and ray.is_initialized():
            self._disconnect()

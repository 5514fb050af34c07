"""The router of a process: everything that its staged channels share, whichever API they have.

It opens the policy of the nearest lucky_transport.toml with the first staged channel. At the end of the process calls
that are over are noted here and now, those under way as unfinished; shadows have a moment to end; then the policy
writes what it knows.
"""

from __future__ import annotations

import logging
from collections import defaultdict
from contextlib import suppress
from functools import cache, cached_property

from lucky_transport.config import load_launch
from lucky_transport.deadline import Deadline
from lucky_transport.errors import Busy
from lucky_transport.fork import at_exit
from lucky_transport.routing import ChannelOptions, Count, Decision, Ending, ShadowCaller
from lucky_transport.rpc.workers.worker_pool import WorkerPool
from lucky_transport_migration.evidence.outcome import CONTROL
from lucky_transport_migration.recording.entries import KEPT_ITEMS
from lucky_transport_migration.routing.evidence_policy import EvidencePolicy
from lucky_transport_migration.routing.open_calls import OpenCalls, WorldChanges
from lucky_transport_migration.routing.policies import RoutingPolicy, UnstagedPolicy, recorded
from lucky_transport_migration.routing.routed_call import TrackedCall
from lucky_transport_migration.routing.shadows import Shadows

_log = logging.getLogger("lucky_transport")

_THREADS, _ROOM = 4, 64
#: Endings of streams are only read and noted, which takes no time: this many can come at once.
_ENDINGS = 100_000
_MOMENT_S = 1.0


class ProcessRouter:
    """A `lucky_transport.routing.Router`. policy: decides and takes notes; its methods neither wait nor raise.

    workers: for shadows; endings: for what is to be read from calls that are over; open_calls: those not noted yet.
    """

    def __init__(self, policy: RoutingPolicy) -> None:
        self.policy = policy
        self.workers = WorkerPool("shadow calls", _THREADS, _ROOM - _THREADS)
        self.endings = WorkerPool("ended calls", 1, _ENDINGS)
        self.open_calls = OpenCalls()
        self._worlds: defaultdict[str, WorldChanges] = defaultdict(WorldChanges)

    def target(
        self, name: str, shadows: ShadowCaller, count: Count | None = None, options: ChannelOptions = ()
    ) -> TargetRouter:
        return TargetRouter(self, self._worlds[name], shadows, count, options)

    def close(self) -> None:
        """Give what is under way a moment, and close the policy. Idempotent."""
        moment = Deadline(_MOMENT_S)
        self.open_calls.end(moment)
        self.endings.close(moment.remaining_s)
        self.workers.close(moment.remaining_s)
        self.open_calls.close()
        self.policy.close()


class TargetRouter:
    """A `lucky_transport.routing.RoutedTarget`, and a `CallTarget`.

    world: what changes it is seen, whichever channel of the target it is. count: is told of each call, None without
    counting.
    """

    def __init__(
        self,
        router: ProcessRouter,
        world: WorldChanges,
        caller: ShadowCaller,
        count: Count | None,
        options: ChannelOptions,
    ) -> None:
        self.options = options
        self.router = router
        self.policy = router.policy
        self.world = world
        self.open_calls = router.open_calls
        self.shadows = Shadows(router.workers, caller)
        self._count = count
        self._fell_back: set[str] = set()

    @cached_property
    def default(self) -> str:
        """It is the primary of a method that no rule names."""
        return self.policy.decide("/").primary

    def call(
        self,
        method: str,
        timeout_s: float | None = None,
        *,
        decision: Decision | None = None,
        most: int = KEPT_ITEMS,
    ) -> TrackedCall:
        """As in the contract. decision: instead of the policy's. most: how many items of each side are kept."""
        decided = self.policy.decide(method) if decision is None else decision
        if self._count is not None:
            self._count(decided.primary, method)
        return TrackedCall(self, method, timeout_s, decided, most)

    def ask_shadow(self, call: TrackedCall) -> str:
        return self.shadows.ask(call)

    def fell_back(self, method: str, ending: Ending) -> None:
        """Count a read that gRPC answers instead of shared memory, and log the first one of each method."""
        if self._count is not None:
            self._count(CONTROL, method)
        if method not in self._fell_back:
            self._fell_back.add(method)
            _log.warning("%s: shared memory did not answer (%s), gRPC answers instead", method, ending.details)

    def end_later(self, call: TrackedCall) -> None:
        self.open_calls.over(call)
        with suppress(Busy):  # the next call that begins notes it, or the end of the process
            self.router.endings.run(lambda: call.settle(_MOMENT_S))

    def close(self) -> None:
        self.shadows.close()


@cache
def process_router() -> ProcessRouter:
    """Return the one of this process; the first call opens its policy, and raises ConfigError for wrong settings."""
    return _closed_at_exit(ProcessRouter(recorded(EvidencePolicy(quiet=load_launch().quiet))))


@cache
def recording_router(transport: str) -> ProcessRouter:
    """Return the one of this process for calls that all go over a transport, which are recorded where a setting asks
    for it. Raises ConfigError for wrong settings.
    """
    return _closed_at_exit(ProcessRouter(recorded(UnstagedPolicy(transport))))


def _closed_at_exit(router: ProcessRouter) -> ProcessRouter:
    at_exit(router.close)
    return router

"""What the calls of one staged channel share."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

from lucky_transport.routing_policy import Decision, RoutingPolicy
from lucky_transport_stubs.run.call_counters import CallCounter
from lucky_transport_stubs.staged.workers import Workers
from lucky_transport_stubs.staged.world import TargetChanges

if TYPE_CHECKING:
    from lucky_transport_stubs.staged.ending import Ending
    from lucky_transport_stubs.staged.shadows import ChannelShadows

__all__ = ["CounterSource", "Staging"]

_log = logging.getLogger("lucky_transport")

#: Gives the counter of calls over a transport ("grpc", "shm") of a method.
CounterSource = Callable[[str, str], CallCounter]


@dataclass
class Staging:
    """board: decides and takes notes, without harm. shadows: asks them. endings: reads calls that are over.

    counter_of: where calls are counted, None without counting.
    """

    board: RoutingPolicy
    shadows: ChannelShadows
    world: TargetChanges
    endings: Workers
    counter_of: CounterSource | None = None
    _counters_by_method: dict[tuple[str, str], CallCounter] = field(default_factory=dict[tuple[str, str], CallCounter])
    _fell_back: set[str] = field(default_factory=set[str])

    def decide(self, method: str) -> Decision:
        """Return the decision about the next call, and count it."""
        decision = self.board.decide(method)
        self._count(decision.authority, method)
        return decision

    def falls_back(self, method: str, ending: Ending) -> None:
        """Count a read that gRPC answers instead of shared memory, and log the first one of each method."""
        self._count("grpc", method)
        if method not in self._fell_back:
            self._fell_back.add(method)
            _log.warning("%s: shared memory did not answer (%s), gRPC answers instead", method, ending.details)

    def _count(self, transport: str, method: str) -> None:
        if self.counter_of is None:
            return
        key = transport, method
        counter = self._counters_by_method.get(key)
        if counter is None:
            counter = self._counters_by_method[key] = self.counter_of(*key)
        counter.add()

    @cached_property
    def default(self) -> str:
        """The transport that stands for the channel as a whole: one that a method got which no rule names.

        It stays the same while the channel lives, also where calls go now this way, now that.
        """
        return self.board.decide("/").authority

"""What all staged channels of a process share: the board, the threads for shadows, and what changed the world.

It is made with the first staged channel, once per process. At the end of the process shadows have a moment to end, then
the board writes what it knows.
"""

from __future__ import annotations

import atexit
from collections import defaultdict
from functools import cache

from lucky_transport.deadline import Deadline
from lucky_transport.routing_policy import RoutingPolicy
from lucky_transport_stubs.staged.boards import open_board
from lucky_transport_stubs.staged.guarded import GuardedBoard
from lucky_transport_stubs.staged.workers import Workers
from lucky_transport_stubs.staged.world import TargetChanges

__all__ = ["StagingRuntime", "staging_runtime"]

_THREADS, _ROOM = 4, 64
#: Endings of streams are only read and noted, which takes no time: this many can come at once.
_ENDINGS = 100_000
_MOMENT_S = 1.0


class StagingRuntime:
    """Behind the calls: `board`; `workers` for shadows, `endings` for what is to be read from calls that are over."""

    def __init__(self, board: RoutingPolicy) -> None:
        self.board = GuardedBoard(board)
        self.workers = Workers("shadow calls", _THREADS, _ROOM)
        self.endings = Workers("ended calls", 1, _ENDINGS)
        self._worlds: defaultdict[str, TargetChanges] = defaultdict(TargetChanges)

    def world(self, target: str) -> TargetChanges:
        """Return the world behind a target; the same one each time."""
        return self._worlds[target]

    def close(self) -> None:
        """Give what is under way a moment, and close the board. Idempotent."""
        moment = Deadline(_MOMENT_S)
        self.endings.drain(moment)
        self.workers.drain(moment)
        self.workers.close()
        self.endings.close()
        self.board.close()


@cache
def staging_runtime() -> StagingRuntime:
    """Return the one of this process; the first call opens the board, and raises what `open_board` raises."""
    found = StagingRuntime(open_board())
    atexit.register(found.close)
    return found

"""What a reader sees that did not look for a while: whether it is the newest.

It is compared with what the engine says of itself just before the look, so a reader that is shown what waited for it is
found out.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from lucky_transport.deadline import Deadline
from lucky_transport.errors import RemoteProtocolError
from lucky_transport_migration.bench.workloads.systems.session_variants import MAP, OPTIONS, RATE_HZ, SessionVariant

__all__ = ["PATIENCE_S", "Pause", "measure_pause"]

#: A machine with much else to do may leave an engine without any time for so long.
PATIENCE_S = 10.0
_AGAIN_S = 0.01


@dataclass(slots=True)
class Pause:
    """The first look after a pause: how long it took, and how many ticks older than the world's newest it was."""

    took_ns: int
    behind_ticks: int
    missed_ticks: int
    n: int = 1

    @property
    def us_each(self) -> float:
        """Microseconds of the look."""
        return self.took_ns / 1e3

    @staticmethod
    def columns(rounds: Sequence[Pause]) -> dict[str, Any]:
        """Return what a row of these rounds has beside its times."""
        return {
            "behind_ticks": max(one.behind_ticks for one in rounds),
            "missed_ticks": min(one.missed_ticks for one in rounds),
        }


def measure_pause(way: SessionVariant, pause_s: float) -> Pause:
    """Run a session at a rate, look at it, pause, and look again; pause longer while the machine gives it no time.

    Raises RemoteProtocolError when the session stood still meanwhile.
    """
    sessions = way.sessions
    session = sessions.create(MAP, 1, OPTIONS)
    sessions.advance(session, 0)
    look = way.watch(session)
    sessions.run(session, RATE_HZ)
    try:
        seen = look(look(-1).ticks)
        time.sleep(pause_s)
        patience = Deadline(PATIENCE_S)
        while (newest := sessions.state(session).ticks) <= seen.ticks:
            if patience.expired:
                waited_s = pause_s + PATIENCE_S
                raise RemoteProtocolError(f"a session that runs freely stood still at tick {newest} for {waited_s:g} s")
            time.sleep(_AGAIN_S)
        start = time.perf_counter_ns()
        after = look(-1)
        took = time.perf_counter_ns() - start
    finally:
        sessions.run(session, None)
        sessions.destroy(session)
    return Pause(took, max(0, newest - after.ticks), newest - seen.ticks)

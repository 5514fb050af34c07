"""What is under way: calls that are not noted yet, and what may change the world behind a target.

Each call is noted, in the order in which their callers went on.
How a stream or a future ended is reported by another thread, which may come late: after its caller has made the next
call, or has ended the program. So a call that begins first has noted what is over by then, and at the end of the
process every call is noted, with what is known of it.

Where the world may have changed between two answers, neither a difference nor an equality says anything. Only calls and
steps of this process are seen, from their begin to their end; not what an engine does by itself or for others.
"""

from __future__ import annotations

import threading
import weakref
from functools import partial
from typing import Protocol

from lucky_transport.deadline import Deadline
from lucky_transport.fork import on_child
from lucky_transport.routing import UNFINISHED, Ending

#: So many calls that began last are looked at when another one begins: among more at once there is no order.
_LOOKS = 32
_NO_TIME = "the program ended before the shadow had answered"


class OpenCall(Protocol):
    """What is asked of a call here."""

    def settle(self, within_s: float) -> None:
        """End it if it is over; wait so long at most for what comes with its end."""
        ...

    def ends(self, ending: Ending) -> None:
        """It has ended so; no effect when that is known."""
        ...

    def has_no_shadow(self, why: str) -> None:
        """Its shadow will not answer; no effect when it has."""
        ...


class OpenCalls:
    """Keeps no call alive that goes on. Safe to use from any thread. A forked child has none of its parent's."""

    def __init__(self) -> None:
        self._calls: dict[int, weakref.ref[OpenCall]] = {}
        self._over: dict[int, OpenCall] = {}
        on_child(self._begin)

    def add(self, call: OpenCall) -> None:
        """A call begins; those that are over by now end first."""
        if self._calls:
            for other in self._now()[-_LOOKS:]:
                other.settle(0.0)
        key = id(call)
        self._calls[key] = weakref.ref(call, partial(self._calls.pop, key))

    def over(self, call: OpenCall) -> None:
        """It is over: it is kept until it is noted."""
        self._over[id(call)] = call
        if id(call) not in self._calls:  # it was noted meanwhile
            self._over.pop(id(call), None)

    def remove(self, call: OpenCall) -> None:
        """It is noted, or never will be."""
        self._calls.pop(id(call), None)
        self._over.pop(id(call), None)

    def end(self, deadline: Deadline) -> None:
        """The process ends: calls that are over end here, those that go on end as unfinished."""
        for call in self._now():
            call.settle(deadline.remaining_s)
            call.ends(UNFINISHED)

    def close(self) -> None:
        """Note what is left: calls whose shadow has not answered."""
        for call in self._now():
            call.has_no_shadow(_NO_TIME)

    def _begin(self) -> None:
        self._calls.clear()
        self._over.clear()

    def _now(self) -> list[OpenCall]:
        return [call for found in list(self._calls.values()) if (call := found()) is not None]


class WorldChanges:
    """The world behind one target: counts what may change it. Safe to use from any thread.

    A change is an object. It has ended at the latest when nobody holds that object any more, as after a signal handler
    that raised.
    """

    def __init__(self) -> None:
        self._lock = threading.RLock()  # reentrant: a finalizer may end calls in the middle of anything
        self._under_way: dict[int, weakref.ref[object]] = {}
        self._changes = 0

    def begin(self, change: object) -> None:
        """Something that may change it begins."""
        key = id(change)
        self._under_way[key] = weakref.ref(change, partial(self._under_way.pop, key))
        with self._lock:
            self._changes += 1

    def end(self, change: object) -> None:
        """It has ended. Idempotent."""
        self._under_way.pop(id(change), None)

    def mark(self) -> int:
        """Return what to give `stood_still` later; negative while a change is under way."""
        changes = self._changes
        return -1 if self._under_way else changes

    def stood_still(self, mark: int) -> bool:
        """Return True when nothing has changed the world since that mark, and nothing was changing it then."""
        return mark == self._changes

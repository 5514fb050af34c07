"""Whether a read changes nothing: an engine that can tell its state is asked for it before and after one more call.

That a method only reads is what the table of methods says, and a shadow makes each call twice because of it. One look
at each method of an engine holds that against the engine. A state that moves by itself differs between two looks
without the read; one that others change does not change with the read each time.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from lucky_transport.messages.methods import BY_NAME, method
from lucky_transport.routing import Ending
from lucky_transport_migration.compare.difference import Difference
from lucky_transport_migration.compare.messages import first_unequal
from lucky_transport_migration.compare.payloads import as_message
from lucky_transport_migration.routing.received import ReceivedItems
from lucky_transport_migration.routing.routed_call import TrackedCall

#: What of a read was not looked at where the engine cannot tell.
UNSEEN = "that it changes nothing"

_STATE = method("MujocoSceneService/GetFullState")
#: How often a read has to change the state, of as many times; how often a look may come to nothing.
_TIMES, _TRIES = 3, 5

#: Asks a call over its shadow's transport, and adds what comes.
Ask = Callable[[TrackedCall, ReceivedItems], Ending]


class ReadCheck:
    """Checks the reads of one engine, each once, as soon as the engine can tell."""

    def __init__(self) -> None:
        self._tries: dict[str, int] = {}
        self._known: set[str] = set()
        self._one = threading.Lock()

    def look(self, call: TrackedCall, ask: Ask, *, is_answered: bool) -> None:
        """Look at the method of a call whose shadow has ended; the call takes what is found, or that nothing was.

        is_answered: both sides have ended well. Other services than LuckyEngine's are not asked for a state.
        """
        if call.method in self._known:
            return
        seen, call.unseen = call.unseen, {**call.unseen, UNSEEN: "its state cannot be asked for, or was not yet"}
        tries = self._tries.get(call.method, 0)
        can_look = is_answered and call.arity == "unary_unary" and call.method in BY_NAME
        if not can_look or tries >= _TRIES or not self._one.acquire(blocking=False):
            return
        try:
            self._tries[call.method] = tries + 1
            mark = call.world.mark()
            could_tell, found = _change(call, ask)
            if could_tell and call.world.stood_still(mark):
                call.unseen, call.changed = seen, found
                self._known.add(call.method)
        finally:
            self._one.release()


def _change(call: TrackedCall, ask: Ask) -> tuple[bool, Difference | None]:
    """Return whether the engine could tell, and where its state is another one after each call."""
    found = None
    for _ in range(_TIMES):
        if (before := _still(call, ask)) is None:
            return False, None
        ask(call, call.room())
        if (after := _still(call, ask)) is None:
            return False, None
        if (found := first_unequal(_STATE.response, before, after)) is None:
            break
    return True, found


def _still(call: TrackedCall, ask: Ask) -> Any:
    """Return the engine's state, None where it cannot tell or does not stand still."""
    request = b"" if isinstance(call.requests[0], bytes) else _STATE.request()
    looks: list[Any] = []
    for _ in range(2):
        received = ReceivedItems()
        if ask(call.beside(_STATE.name, request), received).code != "OK" or not received.items:
            return None
        looks.append(as_message(_STATE, received.items[0]))
        if not isinstance(looks[-1], _STATE.response) or not looks[-1].success:
            return None
    return None if first_unequal(_STATE.response, *looks) else looks[-1]

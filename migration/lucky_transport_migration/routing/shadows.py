"""The second answer: a call's requests, sent again over the other transport, on threads of the router.

A shadow has as much time as its caller gave the primary, and some more where that has answered, so that a late answer
is told from a lost one; 10 seconds at most. When too many are under way, or the channel is closed, none is asked, and
the evidence says so. An absent candidate is evidence while the primary is there: an engine that has ended is missed by
both. A late candidate is evidence where it is late again and the control is not: on a busy machine either is late now
and then. Whatever a shadow does, an outcome or a reason comes of it.
"""

from __future__ import annotations

import contextlib
import threading
import time
from functools import partial

from lucky_transport.errors import Busy
from lucky_transport.fork import on_child
from lucky_transport.routing import SO_FAR, Ending, ShadowCaller
from lucky_transport.rpc.workers.worker_pool import WorkerPool
from lucky_transport.uninterrupted import WaitQueue, start_thread
from lucky_transport_migration.compare.difference import error_text
from lucky_transport_migration.evidence.outcome import CANDIDATE, CONTROL, as_seen
from lucky_transport_migration.routing.received import ReceivedItems
from lucky_transport_migration.routing.routed_call import TrackedCall

_LONGEST_S = 10.0
#: What shadows under way have left once their channel is closed.
_GRACE_S = 1.0
#: Between one transport of an engine that ends and the other.
_MOMENT_S = 0.5
#: How often a candidate that was late is asked again, and how many times its caller's time it has.
_TRIES, _PATIENCE = 3, 4
_LATE, _GONE = "DEADLINE_EXCEEDED", "UNAVAILABLE"
_CLOSED = "the channel was closed before the shadow had answered"


class Shadows:
    """Asks the shadows of one channel through `caller`, on `workers`."""

    def __init__(self, workers: WorkerPool, caller: ShadowCaller) -> None:
        self._workers = workers
        self._caller = caller
        self._is_closing = self._is_closed = False
        self._begin()
        on_child(self._begin)

    def ask(self, call: TrackedCall) -> str:
        """Have the shadow of this call asked; returns why it is not, "" when it will be. Does not wait."""
        if self._is_closing:
            return _CLOSED
        self._under_way[call] = None
        try:
            self._workers.run(partial(self._run, call))
        except BaseException as error:
            self._done(call)
            if isinstance(error, Busy):
                return "too many shadows are under way"
            raise
        return ""

    def close(self) -> None:
        """Ask no more; those under way have a moment, then they end. Does not wait, idempotent."""
        if self._is_closing:
            return
        self._is_closing = True
        if self._under_way:
            with contextlib.suppress(RuntimeError):  # the process ends, and its shadows with it
                start_thread(threading.Thread(target=self._close_later, name="shadow calls", daemon=True))
        else:
            self._close()

    def _begin(self) -> None:
        self._under_way: dict[TrackedCall, None] = {}
        self._less_under_way = WaitQueue()

    def _close_later(self) -> None:
        self._less_under_way.wait_for(lambda: not self._under_way, _GRACE_S)
        self._close()

    def _close(self) -> None:
        self._is_closed = True
        self._caller.close()

    def _done(self, call: TrackedCall) -> None:
        self._under_way.pop(call, None)
        self._less_under_way.wake_all()

    # -- on a worker --------------------------------------------------------------------------------------------------

    def _run(self, call: TrackedCall) -> None:
        received = call.room()
        began_ns = time.perf_counter_ns()
        try:
            if self._is_closed:
                call.has_no_shadow(_CLOSED)
                return
            ending = self._ask(call, received)
            last_ns = received.last_ns if ending.code == "OK" and received.items else time.perf_counter_ns()
            if self._is_closed and ending.code != "OK":
                call.has_no_shadow(_CLOSED)
            elif _is(ending, _GONE) and self._has_gone(call):
                call.has_no_shadow("the engine has gone")
            elif self._was_late(call) and ending.code == "OK" and not self._is_late_again(call):
                call.has_no_shadow("the candidate was late, and is not each time: the machine was busy")
            else:
                took_s, has_s = (last_ns - began_ns) / 1e9, call.timeout_s
                is_answered = ending.code == "OK" and call.ending is not None and call.ending.code == "OK"
                if is_answered and has_s and took_s > has_s and self._is_late_again(call):
                    text = f"it answered after {took_s:.3f} s, and its caller waits {has_s:.3f} s"
                    ending = Ending(_LATE, text, is_local=True)
                call.shadow_answered(received, ending, began_ns, last_ns)
        finally:
            self._done(call)

    def _ask(self, call: TrackedCall, received: ReceivedItems) -> Ending:
        timeout_s = _LONGEST_S if call.timeout_s is None else min(call.timeout_s, _LONGEST_S)
        is_answered = call.ending is not None and not call.ending.is_local
        if is_answered and not call.arity.endswith("stream"):  # so that a late answer is told from a lost one
            timeout_s = _patience_s(timeout_s)
        ending = self._ended(call, call.decision.shadow, timeout_s, received)
        is_late = _is(ending, _LATE) and call.arity.endswith("stream")
        if is_late and call.timeout_s is None and not call.is_over:
            return SO_FAR  # the primary goes on as well: neither is late
        return ending

    def _has_gone(self, call: TrackedCall) -> bool:
        """True when the primary answered, and a moment later cannot be reached either: an engine ends bit by bit."""
        if call.ending is not None and _is(call.ending, _GONE):
            return False
        time.sleep(_MOMENT_S)
        return _is(self._ended(call, call.decision.primary, _MOMENT_S, call.room()), _GONE)

    def _was_late(self, call: TrackedCall) -> bool:
        """True when the candidate is the primary, and was late."""
        return call.decision.primary == CANDIDATE and call.ending is not None and _is(call.ending, _LATE)

    def _is_late_again(self, call: TrackedCall) -> bool:
        """Return whether the candidate is late each time that it is asked again, and the control is not."""
        sides = (CANDIDATE, CONTROL) if CANDIDATE in (call.decision.primary, call.decision.shadow) else ()
        for side in sides * _TRIES:
            began_ns, has_s = time.perf_counter_ns(), call.timeout_s or _LONGEST_S
            ending = self._ended(call, side, _patience_s(has_s), call.room())
            is_late = _is(ending, _LATE) or time.perf_counter_ns() - began_ns > has_s * 1e9
            if is_late != (side == CANDIDATE):
                return False
        return bool(sides)

    def _ended(self, call: TrackedCall, transport: str, timeout_s: float, received: ReceivedItems) -> Ending:
        began_ns = time.perf_counter_ns()
        try:
            ending = self._caller.ask(call, transport, timeout_s, received)
            return as_seen(ending, time.perf_counter_ns() - began_ns, timeout_s)
        except Exception as error:  # foreign code becomes an outcome
            return Ending("INTERNAL", error_text(error))


def _is(ending: Ending, code: str) -> bool:
    """True for an end that the caller's own side made, with that status."""
    return ending.is_local and ending.code == code


def _patience_s(timeout_s: float) -> float:
    return min(max(_PATIENCE * timeout_s, 1.0), _LONGEST_S)

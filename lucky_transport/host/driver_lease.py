"""One lease on the host, kept between the single calls of clients that have no stepping loop of their own.

    state   who has the lease                        left by
    FREE    no client, or it was lost to another     a call that takes it
    HELD    clients that did not attach: all of      `leave`, `release`, and where all of them are gone or idle, the
            them with `shared`, else one             next client that wants it alone; KEPT once its only one attaches
    KEPT    one client that attached, alone          `detach`, `release`, its end

`MOVES` says what a call does in each state, by what it is to the clients that have the lease. Whoever is gone is
forgotten when a client comes that has no part in the lease.
"""

from __future__ import annotations

import math
import threading
import time
from collections import deque
from collections.abc import Callable, Hashable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from enum import Enum
from typing import Any, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from lucky_transport.deadline import Deadline
from lucky_transport.engine import HOLD, RESET, Buffers, Engine
from lucky_transport.errors import Busy, Cancelled, LocalProtocolError, PeerTimeout, TransportError, from_wire
from lucky_transport.host.engine_lock import EngineLock
from lucky_transport.host.lease import Lease
from lucky_transport.messages.methods import Method
from lucky_transport.spec.actions import check_control
from lucky_transport.spec.batch_spec import BatchSpec

R = TypeVar("R")

#: The control byte of an env that steps.
STEP = 0

#: A client that did not attach may be replaced after this long without a call (LuckyEngine's own watchdog).
IDLE_S = 10.0
#: How often a waiting client checks whether the driver has gone.
_POLL_S = 0.01
#: How many clients are remembered as gone; their last calls come within moments.
_MAX_LEFT = 256


def only(spec: BatchSpec, envs: Sequence[int], action: int) -> NDArray[np.uint8]:
    """Return the control bytes by which `envs` do `action` (STEP, RESET or TICK) and all others hold.

    Raises LocalProtocolError when others would have to hold and the engine cannot.
    """
    control = np.full(spec.num_envs, HOLD, np.uint8)
    control[list(envs)] = action
    return check_control(spec, control)


def _never() -> bool:
    return False


@dataclass(frozen=True, slots=True)
class Driver:
    """A client that wants to step.

    key: tells clients apart. name: for error texts, "" for the key. idle_s: after how long without a call the client
    may be replaced. is_gone: True once the client is known to be gone. via: the server that accepted the client.
    handover_s: how long a call waits for an idle driver that may be about to go, as a connection ends a little later
    than its owner lets go of it. is_over: True once the call needs no answer any more.
    """

    key: str
    name: str = ""
    idle_s: float = IDLE_S
    is_gone: Callable[[], bool] = _never
    via: object = None
    handover_s: float = 0.0
    is_over: Callable[[], bool] = _never


class State(Enum):
    """Who has the lease."""

    FREE = "no client"
    HELD = "clients that did not attach"
    KEPT = "one client that attached"

    __hash__ = object.__hash__  # each is one object, and these are looked up in every call


class Claim(Enum):
    """What a client that calls is to the lease."""

    OWN = "it has it, and may"
    SHARES = "it would have it with others that did not attach"
    ALONE = "it wants it alone"

    __hash__ = object.__hash__


class LeaseMove(Enum):
    """What comes of a call."""

    ACT = "it acts at once"
    JOIN = "its client has the lease with the others"
    TAKE = "its client takes the lease"
    REPLACE = "its client takes it from those that are idle, and waits a moment for one that may be about to go"
    REFUSE = "Busy"


#: What comes of a call in each state. The host refuses the last two while the lease is not idle.
MOVES: dict[State, dict[Claim, LeaseMove]] = {
    State.FREE: dict.fromkeys(Claim, LeaseMove.TAKE),
    State.HELD: {Claim.OWN: LeaseMove.ACT, Claim.SHARES: LeaseMove.JOIN, Claim.ALONE: LeaseMove.REPLACE},
    State.KEPT: {Claim.OWN: LeaseMove.ACT, Claim.SHARES: LeaseMove.REFUSE, Claim.ALONE: LeaseMove.REFUSE},
}


class DrivenHost(Protocol):
    """What the clients that drive use of a host; `lucky_transport.host.host.Host` says what each does."""

    spec: BatchSpec
    lock: EngineLock

    @property
    def engine(self) -> Engine: ...

    def drive(self, owner: str, buffers: Buffers, *, is_idle: Callable[[], bool]) -> Lease: ...

    def while_still(self, act: Callable[[bool], R], timeout_s: float = -1) -> R: ...

    def implements(self, method: Method) -> bool: ...

    def call(self, method: Method, request: Any) -> Any: ...


class DriverLease:
    """The lease of the clients that drive, and the state of their envs; both end with the lease.

    A client that attached has the lease alone, and keeps it until it is detached. With `shared`, all clients that did
    not attach have one lease together, as the programs of an engine that knows no drivers: their calls come one after
    the other, in any order. Such a lease is lost to a client that wants the engine alone once all who share it are gone
    or none of them has called for `Driver.idle_s`.

    buffers: what the engine is bound to while clients drive. fresh: bool (num_envs,), reset by ResetAgent and not
    stepped since. frame_numbers: uint32 (num_envs,), 1 after a reset and one more with each step. frames: exchanges of
    the present lease that ended in a frame. leases: how often the lease changed hands.
    """

    def __init__(self, host: DrivenHost, *, shared: bool = False) -> None:
        self.host = host
        self.spec = host.spec
        self.buffers = Buffers.allocate(host.spec)
        self.fresh = np.zeros(host.spec.num_envs, np.bool_)
        self.frame_numbers = np.zeros(host.spec.num_envs, np.uint32)
        self.frames = 0
        self.leases = 0
        self._host_lease: Lease | None = None
        self._runs_in = 0  # the thread inside `run`
        self._shared = shared
        self._drivers: dict[str, Driver] = {}
        self._last_action_s = -math.inf
        self._attached: dict[str, str] = {}
        self._left: deque[str] = deque(maxlen=_MAX_LEFT)
        self._done: dict[Hashable, tuple[int, TransportError | None]] = {}

    def run(self, driver: Driver, timeout_s: float, act: Callable[[], R]) -> R:
        """Return what `act` does while `driver` holds the lease: nobody else touches the buffers or steps.

        It holds the host's own lock, so no second lock can deadlock with it. Raises Busy naming the present driver,
        PeerTimeout if the step before is not over after `timeout_s`, Cancelled if the call ended while it waited.
        """
        handover: tuple[Deadline, float] | None = None  # until when it waits for a driver that has not acted since

        def turn(held: bool) -> list[R]:
            nonlocal handover
            if not held:
                raise PeerTimeout(
                    f"engine {self.spec.engine!r} did not finish the exchange before this one within {timeout_s:.3g} s",
                    backend=self.spec.engine,
                    hint="raise the timeout (LUCKY_STEP_TIMEOUT_S)",
                )
            if driver.is_over():
                raise Cancelled("the call ended before its turn came", backend=self.spec.engine)
            try:
                self._take(driver)
            except Busy:
                handover = handover or (Deadline(min(driver.handover_s, timeout_s)), self._last_action_s)
                if not self._may_be_going(*handover):
                    raise
                return []
            self._last_action_s = time.monotonic()
            self._runs_in = threading.get_ident()
            try:
                done = [act()]
            finally:
                self._runs_in = 0
            self._last_action_s = time.monotonic()
            return done

        while not (done := self.host.while_still(turn, timeout_s)):
            time.sleep(_POLL_S)
        return done[0]

    def has(self, key: str) -> bool:
        """True while the client `key` has the lease, alone or with others."""
        return key in self._drivers and self.state is not State.FREE

    @property
    def state(self) -> State:
        """Who has the lease: what the host and the clients that attached say of it now."""
        lease, drivers = self._host_lease, self._drivers
        if lease is None or not lease.valid:
            return State.FREE
        return State.KEPT if len(drivers) == 1 and not drivers.keys().isdisjoint(self._attached) else State.HELD

    def _claim(self, key: str) -> Claim:
        drivers, wants_alone = self._drivers, not self._shared or key in self._attached
        if key in drivers and (len(drivers) == 1 or not wants_alone):
            return Claim.OWN
        return Claim.ALONE if wants_alone else Claim.SHARES

    def _move(self, key: str) -> LeaseMove:
        return MOVES[self.state][self._claim(key)]

    def _may_be_going(self, until: Deadline, last_action_s: float) -> bool:
        """True while the present driver may be about to go: one that has acted is alive, one that attached detaches."""
        has_acted = self._last_action_s != last_action_s
        return not until.expired and not has_acted and MOVES[self.state][Claim.ALONE] is LeaseMove.REPLACE

    def _take(self, driver: Driver) -> None:
        key = driver.key
        if self._move(key) is LeaseMove.ACT:
            return
        self._keep({key: one for key, one in self._drivers.items() if not one.is_gone()})
        if self._move(key) in (LeaseMove.ACT, LeaseMove.JOIN):
            self._keep(self._drivers | {key: driver})
        else:
            self._host_lease = self.host.drive(self._name_of(driver), self.buffers, is_idle=self._is_idle)
            self._keep({key: driver})
            self.frames = 0
            self.leases += 1
            self.fresh[:] = False
            self._done.clear()
        if key in self._left:
            self.leave(key)
            raise Cancelled(f"client {key} has gone", backend=self.spec.engine)

    def _keep(self, drivers: dict[str, Driver]) -> None:
        """Let these clients, and no other, have the present lease; the first of them stands for all in error texts."""
        lease = self._host_lease
        self._drivers = {key: replace(driver, is_over=_never) for key, driver in drivers.items()}  # no call is kept
        if lease is not None and drivers:
            lease.owner = self._name_of(next(iter(drivers.values())))
        elif lease is not None:
            lease.release()

    def _name_of(self, driver: Driver) -> str:
        return self._attached.get(driver.key) or driver.name or driver.key

    def _is_idle(self) -> bool:
        idle_s = time.monotonic() - self._last_action_s
        is_kept = MOVES[self.state][Claim.ALONE] is LeaseMove.REFUSE
        return not is_kept and all(idle_s > one.idle_s or one.is_gone() for one in self._drivers.values())

    def exchange(self, control: NDArray[np.uint8] | None) -> int:
        """Do one exchange and return how long the engine took, in microseconds.

        Raises LocalProtocolError outside `run`, Busy when the lease was lost, and what the engine's step raises.
        """
        if self._host_lease is None or self._runs_in != threading.get_ident():
            raise LocalProtocolError("an exchange outside `run`", backend=self.spec.engine)
        start_ns = time.perf_counter_ns()
        self._host_lease.step(control)
        took_us = (time.perf_counter_ns() - start_ns) // 1000
        self.frames += 1
        if control is None:
            self.frame_numbers += np.uint32(1)
            self.fresh[:] = False
            return took_us
        moved = ((control & RESET) != 0) | ((control & HOLD) == 0)
        self.frame_numbers[moved] += np.uint32(1)
        self.frame_numbers[(control & RESET) != 0] = 1
        self.fresh[moved] = False
        return took_us

    def last_seq(self, key: Hashable) -> int:
        """Return the number `once` was last called with for `key` under the present lease, 0 if it was not."""
        return self._done[key][0] if key in self._done else 0

    def once(self, key: Hashable, seq: int, action: Callable[[], None]) -> None:
        """Do `action` unless it was done for this `key` and `seq` already; then only repeat its outcome.

        So a client can repeat a call that it gave up. Only inside `run`.
        """
        if self.last_seq(key) == seq:
            error = self._done[key][1]
            if error is not None:
                raise from_wire(error.wire_code, str(error), backend=error.backend)
            return
        self._done[key] = (seq, None)
        try:
            action()
        except TransportError as error:
            self._done[key] = (seq, error)
            raise

    def attach(self, key: str, name: str) -> None:
        """Let the client `key`, called `name`, keep the lease once it has it, until `detach`."""
        self._attached[key] = name
        with suppress(ValueError):
            self._left.remove(key)

    def detach(self, key: str) -> None:
        """Give back the lease of a client that has gone. May wait for its step in progress.

        A late step of a client that was attached is refused: no call would ever give that lease back.
        """
        if self._attached.pop(key, None) is not None:
            self._left.append(key)  # before the check of the lease: either `_take` sees this, or we see its lease
        self.leave(key)

    def leave(self, key: str) -> None:
        """Have the client `key` drive no more: the lease is free when no other shares it."""
        self._remove(lambda driver: driver.key == key)

    def release(self, via: object) -> None:
        """Have the clients that `via` accepted drive no more, as `leave`."""
        self._remove(lambda driver: driver.via is via)

    def _remove(self, is_leaving: Callable[[Driver], bool]) -> None:
        if not any(is_leaving(driver) for driver in tuple(self._drivers.values())):
            return  # without waiting for the step of another client
        with self.host.lock:
            self._keep({key: driver for key, driver in self._drivers.items() if not is_leaving(driver)})

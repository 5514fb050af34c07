"""One lease on the host, kept between the single calls of clients that have no stepping loop of their own."""

from __future__ import annotations

import math
import time
from collections import deque
from collections.abc import Callable, Generator, Hashable, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from functools import cache
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from lucky_transport.deadline import Deadline
from lucky_transport.engine import HOLD, RESET, Buffers
from lucky_transport.errors import Busy, Cancelled, LocalProtocolError, PeerTimeout, TransportError, from_wire
from lucky_transport.host.lease import Lease
from lucky_transport.spec.actions import check_control
from lucky_transport.spec.batch_spec import BatchSpec

if TYPE_CHECKING:
    from lucky_transport.host.host import Host

__all__ = ["IDLE_S", "STEP", "Driver", "DriverLease", "only"]

#: The control byte of an env that steps.
STEP = 0

#: A client that did not attach may be replaced after this long without a call (LuckyEngine's own watchdog).
IDLE_S = 10.0
#: How often a waiting client checks whether the driver has gone.
_POLL_S = 0.01
#: How long a client that shares a lease is known after its last exchange: later its address may be another program's.
_KNOWN_S = 1.0
#: How many clients are remembered as gone; their last calls come within moments.
_MAX_LEFT = 256


def only(spec: BatchSpec, envs: Sequence[int], action: int) -> NDArray[np.uint8]:
    """Return the control bytes by which `envs` do `action` (STEP, RESET or TICK) and all others hold.

    Raises LocalProtocolError when others would have to hold and the engine cannot.
    """
    control = np.full(spec.num_envs, HOLD, np.uint8)
    control[list(envs)] = action
    return check_control(spec, control)


@dataclass(frozen=True, slots=True)
class Driver:
    """A client that wants to step.

    key: tells clients apart. name: for error texts, "" for the key. idle_s: after how long without a call the client
    may be replaced. is_gone: True once the client is known to be gone. via: the server that accepted the client.
    handover_s: how long a call waits for an idle driver that may be about to go, as a connection ends a little later
    than its owner lets go of it. program: returns the program the client belongs to, "" if not known; called only when
    another client has the lease, since clients of one program share it.
    """

    key: str
    name: str = ""
    idle_s: float = IDLE_S
    is_gone: Callable[[], bool] = lambda: False
    via: object = None
    handover_s: float = 0.0
    program: Callable[[], str] = lambda: ""


@dataclass(slots=True)
class _Sharer:
    """A client that has the lease, and when it last used it."""

    driver: Driver
    seen_s: float


@dataclass(frozen=True, slots=True)
class _Handover:
    """Until when to wait for a driver that has not acted since `last_action_s`."""

    until: Deadline
    last_action_s: float


class DriverLease:
    """The lease of the client that drives, and the state of its envs; both end with the lease.

    A client that attached keeps the lease until it is detached. Any other may be replaced once it is idle or gone; the
    clients of one program share a lease, which is idle or gone when all of them are.

    buffers: what the engine is bound to while a client drives. fresh: bool (num_envs,), reset by ResetAgent and not
    stepped since. frame_numbers: uint32 (num_envs,), 1 after a reset and one more with each step. frames: exchanges of
    the present lease that ended in a frame. leases: how often the lease changed hands.
    """

    def __init__(self, host: Host) -> None:
        self.host = host
        self.spec = host.spec
        self.buffers = Buffers.allocate(host.spec)
        self.fresh = np.zeros(host.spec.num_envs, np.bool_)
        self.frame_numbers = np.zeros(host.spec.num_envs, np.uint32)
        self.frames = 0
        self.leases = 0
        self._host_lease: Lease | None = None
        self._driver = Driver("")
        self._sharers: dict[str, _Sharer] = {}
        self._program = ""
        self._last_action_s = -math.inf
        self._attached: dict[str, str] = {}
        self._left: deque[str] = deque(maxlen=_MAX_LEFT)
        self._done: dict[Hashable, tuple[int, TransportError | None]] = {}

    @contextmanager
    def holding(self, driver: Driver, timeout_s: float) -> Generator[None]:
        """Hold the lease for `driver`: only this block touches the buffers and steps.

        It holds the host's own lock, so no second lock can deadlock with it. Raises Busy naming the present driver,
        PeerTimeout if the step before is not over after `timeout_s`.
        """
        handover: _Handover | None = None
        while True:
            with self.host.between_steps(timeout_s) as held:
                if not held:
                    raise PeerTimeout(
                        f"engine {self.spec.engine!r} did not finish the exchange before this one"
                        f" within {timeout_s:.3g} s",
                        backend=self.spec.engine,
                        hint="raise the timeout (LUCKY_STEP_TIMEOUT_S)",
                    )
                try:
                    self._take(driver)
                except Busy:
                    if handover is None:
                        driver = replace(driver, program=cache(driver.program))
                        handover = _Handover(Deadline(min(driver.handover_s, timeout_s)), self._last_action_s)
                    if not self._may_be_going(handover):
                        raise
                else:
                    self._last_action_s = time.monotonic()
                    yield
                    self._last_action_s = time.monotonic()
                    return
            time.sleep(_POLL_S)

    def _may_be_going(self, handover: _Handover) -> bool:
        """True while the present driver may be about to go."""
        lease = self._host_lease
        return (
            not handover.until.expired
            and self._last_action_s == handover.last_action_s  # else it is alive
            and lease is not None
            and lease.valid
            and self._driver.key not in self._attached  # else it detaches when it goes
        )

    def _take(self, driver: Driver) -> None:
        if self._host_lease is not None and self._host_lease.valid and self._shares(driver):
            return
        owner = self._attached.get(driver.key) or driver.name or driver.key
        self._host_lease = self.host.drive(owner, self.buffers, is_idle=self._is_idle)
        self._driver = driver
        self._sharers = {driver.key: _Sharer(driver, time.monotonic())}
        self._program = ""
        if driver.key in self._left:
            self._host_lease.release()
            raise Cancelled(f"client {driver.key} has gone", backend=self.spec.engine)
        self.frames = 0
        self.leases += 1
        self.fresh[:] = False
        self._done.clear()

    def _shares(self, driver: Driver) -> bool:
        """True when the lease is the driver's: it took the lease, or belongs to the program that did."""
        sharer = self._sharers.get(driver.key)
        now_s = time.monotonic()
        if sharer is None or (len(self._sharers) > 1 and now_s - sharer.seen_s > _KNOWN_S):
            self._program = self._program or self._driver.program()
            if not self._program or driver.program() != self._program:
                return False
            left = {key: one for key, one in self._sharers.items() if not one.driver.is_gone()}
            sharer = _Sharer(driver, now_s)
            self._sharers = {**left, driver.key: sharer}
        sharer.seen_s = now_s
        return True

    def _is_idle(self) -> bool:
        if self._driver.key in self._attached:
            return False
        return time.monotonic() - self._last_action_s > self._driver.idle_s or all(
            sharer.driver.is_gone() for sharer in self._sharers.values()
        )

    def exchange(self, control: NDArray[np.uint8] | None) -> int:
        """Do one exchange and return how long the engine took, in microseconds; only inside `holding`."""
        if self._host_lease is None:
            raise LocalProtocolError("an exchange outside holding", backend=self.spec.engine)
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

        So a client can repeat a call that it gave up. Only inside `holding`.
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
        """Give the lease back if the client `key` has it."""
        lease = self._host_lease
        if lease is not None and key in self._sharers:
            lease.release()

    def release(self, via: object) -> None:
        """Give the lease back if `via` accepted its client."""
        lease = self._host_lease
        if lease is not None and self._driver.via is via:
            lease.release()

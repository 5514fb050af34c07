"""The driver's seat of a gRPC server: one lease on the host for whoever drives over this server.

Rule 1: who holds `driven_by` may touch the buffers and step; nobody else does.
Rule 2: a client that attached keeps the seat until its Attach stream ends. One that cannot attach (every legacy client)
may be replaced once it has disconnected, or has done nothing for `idle_s`.
Rule 3: what is remembered of a driver's exchanges ends with its lease.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Hashable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial

import numpy as np
from numpy.typing import NDArray

from lucky_transport.actions import check_control
from lucky_transport.engine import HOLD, RESET, Buffers
from lucky_transport.errors import PeerTimeout, TransportError, from_wire
from lucky_transport.host.host import Host, Lease
from lucky_transport.specs import BatchSpec

__all__ = ["STEP", "Seat", "only"]

#: The control byte of an env that steps.
STEP = 0


def only(spec: BatchSpec, envs: Sequence[int], action: int) -> NDArray[np.uint8] | None:
    """Return the control bytes by which `envs` do `action` (STEP or RESET) and all others hold.

    Raises LocalProtocolError when others would have to hold and the engine cannot.
    """
    if action == STEP and len(envs) == spec.num_envs:
        return None
    control = np.full(spec.num_envs, HOLD, np.uint8)
    control[list(envs)] = action
    return check_control(spec, control)


class Seat:
    """The seat and what it knows of the envs.

    buffers: what the engine is bound to while somebody drives. fresh: bool (num_envs,), reset by ResetAgent and not
    stepped since. frame_numbers: uint32 (num_envs,), 1 after a reset and one more with each step.
    """

    def __init__(self, host: Host, idle_s: float, is_gone: Callable[[str], bool] = lambda client: False) -> None:
        """`is_gone` tells of a client without an Attach stream whether it has disconnected."""
        self.host = host
        self.spec = host.spec
        self.buffers = Buffers.allocate(host.spec)
        self.fresh = np.zeros(host.spec.num_envs, np.bool_)
        self.frame_numbers = np.zeros(host.spec.num_envs, np.uint32)
        self.frames = 0  # exchanges of the present lease that ended in a frame
        self._idle_s = idle_s
        self._is_gone = is_gone
        self._lock = threading.Lock()
        self._lease: Lease | None = None
        self._driver = ""
        self._last_action_s = -math.inf
        self._attached: dict[str, str] = {}
        self._done: dict[Hashable, tuple[int, TransportError | None]] = {}

    @contextmanager
    def driven_by(self, client: str, timeout_s: float) -> Iterator[None]:
        """Hold the seat for `client`, and let nobody else step meanwhile.

        Raises Busy naming the present driver, PeerTimeout when the step of before is still not over after `timeout_s`.
        """
        if not self._lock.acquire(timeout=min(timeout_s, threading.TIMEOUT_MAX)):
            raise PeerTimeout(
                f"engine {self.spec.engine!r} did not finish the exchange before this one within {timeout_s:.3g} s",
                backend="grpc",
                hint="raise the timeout (LUCKY_STEP_TIMEOUT_S)",
            )
        try:
            self._take(client)
            self._last_action_s = time.monotonic()
            yield
            self._last_action_s = time.monotonic()
        finally:
            self._lock.release()

    def _take(self, client: str) -> None:
        if self._lease is not None and self._lease.valid and self._driver == client:
            return
        owner = self._attached.get(client, f"grpc client {client}")
        self._lease = self.host.drive(owner, self.buffers, is_idle=partial(self._is_idle, client))
        self._driver = client
        self.frames = 0
        self.fresh[:] = False
        self._done.clear()

    def _is_idle(self, client: str) -> bool:
        # called under the host's lock: takes none of ours
        if client in self._attached:
            return False
        return time.monotonic() - self._last_action_s > self._idle_s or self._is_gone(client)

    def exchange(self, control: NDArray[np.uint8] | None) -> int:
        """Do one exchange and return how long the engine took, in microseconds; only inside `driven_by`."""
        assert self._lease is not None
        start_ns = time.perf_counter_ns()
        self._lease.step(control)
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
        """Do `action` unless it was done for this `key` and `seq` already; then only repeat how it ended.

        So a call that was given up can be made again. Only inside `driven_by`.
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

    def attach(self, client: str, name: str) -> None:
        """`client`, called `name`, keeps the seat once it has it, until `detach`."""
        self._attached[client] = name

    def detach(self, client: str) -> None:
        """`client` has gone: its lease is given back at once. May wait for its step in progress."""
        self._attached.pop(client, None)
        lease = self._lease
        if lease is not None and self._driver == client:
            lease.release()

    def vacate(self) -> None:
        """Give the lease back, whoever has it."""
        if self._lease is not None:
            self._lease.release()

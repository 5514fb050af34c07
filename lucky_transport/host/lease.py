"""The right to step the engine: every step happens under the host's lock, and a lease that was lost steps no more."""

from __future__ import annotations

import threading
from collections.abc import Callable
from itertools import repeat

import numpy as np
from numpy.typing import NDArray

from lucky_transport.engine import RESET, Buffers
from lucky_transport.errors import Busy, ClosedError, TransportError, raise_wire_error, to_wire_error


class Lease:
    """The right to step the engine; one driver at a time holds it. `valid` is False once it was lost."""

    __slots__ = (
        "_attempts",
        "_buffers",
        "_engine",
        "_engine_step",
        "_is_closed",
        "_lock",
        "_release",
        "is_idle",
        "owner",
        "valid",
    )

    def __init__(
        self,
        release: Callable[[Lease], None],
        owner: str,
        lock: threading.RLock,
        engine: str,
        step: Callable[[NDArray[np.uint8] | None], None],
        buffers: Buffers,
        is_idle: Callable[[], bool],
    ) -> None:
        self.owner = owner
        self.is_idle = is_idle
        self.valid = True
        self._is_closed = False
        self._release = release
        self._lock = lock
        # As `uninterrupted`, made once: entering a `with` block costs as much as a whole fast step.
        self._attempts = map(lock.acquire, repeat(True))
        self._engine = engine
        self._engine_step = step
        self._buffers = buffers

    @property
    def step_parts(self) -> tuple[Callable[[None], object], Callable[[], object], Callable[[], None]]:
        """The engine's step and the host's lock, for a server whose own loop calls acquire, step(None), release.

        Only while it is held, for a lease that can be interrupted and that no client can take over (no `is_idle`).
        """
        return self._engine_step, self._lock.acquire, self._lock.release

    def close(self) -> None:
        """End the lease because the engine ends."""
        self.valid = False
        self._is_closed = True

    def lost(self) -> TransportError:
        """Return the error of a driver whose lease is not valid any more."""
        if self._is_closed:
            return ClosedError("the engine is closing", backend=self._engine)
        return Busy(
            f"engine {self._engine!r} is no longer driven by {self.owner}",
            backend=self._engine,
            hint="connect again",
        )

    def failure(self, error: BaseException) -> TransportError:
        """Return the error that a client gets when the engine's step raised `error`."""
        return to_wire_error(self._engine, "step", error)

    def step(self, control: NDArray[np.uint8] | None = None) -> None:
        """Do one exchange: afterwards the driver's buffers hold the frame.

        Raises EngineFailed when the engine raised (the frame is then undefined), Busy when the lease was lost,
        ClosedError when the engine has ended.
        """
        held = False
        try:
            for held in self._attempts:  # noqa: B007 - a take: acquires the lock (`lucky_transport.uninterrupted`)
                break
            if not self.valid:
                raise self.lost()
            self._engine_step(control)
            if control is not None:
                self.clear_outcome((control & RESET) != 0)  # no engine, ticking or not, rewards a reset
        except BaseException as error:  # an engine is foreign code and may raise anything
            raise_wire_error(self._engine, "step", error)
        finally:
            if held:
                self._lock.release()

    def clear_outcome(self, reset: NDArray[np.bool_] | int) -> None:
        """Zero reward, flags and signals of these envs."""
        buffers = self._buffers
        buffers.rewards[reset] = 0
        buffers.terminated[reset] = 0
        buffers.truncated[reset] = 0
        buffers.signals[:, reset] = 0

    def release(self) -> None:
        """Let another client drive; idempotent."""
        self._release(self)

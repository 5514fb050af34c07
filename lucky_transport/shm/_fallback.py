"""The native module's interface in pure Python, for x86-64 without a compiler.

Rule 1: it never parks. Plain stores may pass later loads even on x86, so a parked Python side could miss its wake-up;
        it polls, with longer and longer naps, at most 1 ms apart.
Rule 2: it wakes a peer that may park unconditionally: the kernel's own fence in FUTEX_WAKE orders our store before
        its look at the word.
Rule 3: words are read and written through `memoryview.cast`, one aligned machine access each; `struct` would tear them.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from mmap import mmap
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from lucky_transport.shm._fallback_ring import RingReader, RingWriter, spin
from lucky_transport.shm._fallback_slot import Slot
from lucky_transport.shm._fallback_words import (
    bytes_at,
    is_cut,
    load32,
    load64,
    store32,
    store64,
    wake,
    wake_parked,
    word32,
    word64,
)
from lucky_transport.shm._kernel import address_of, gone
from lucky_transport.shm.results import PEER_PARKS, Result

__all__ = [
    "GUARDS",
    "ClientChannel",
    "EngineChannel",
    "RingReader",
    "RingWriter",
    "Slot",
    "copied",
    "guard",
    "load32",
    "load64",
    "lost",
    "spin",
    "store32",
    "store64",
    "unguard",
    "wait32",
    "wake",
]

_SPIN = range(2000)
#: Up to so many action values a list is looked through sooner than NumPy has started.
_SMALL = 64
#: Up to so many flags `any` is faster than a comparison of bytes.
_FEW = 16
_YIELD_S = 150e-6
_LONGEST_NAP_S = 1e-3
_PEER_LOOK_S = 0.05


#: Other threads wait meanwhile.
copied = bytes
#: What `mapping.py` asks for: nothing here can catch the signal.
GUARDS = 0


def guard(mapping: mmap) -> None:
    """Guard nothing."""


unguard = guard


def lost(mapping: mmap) -> bool:
    """Return False: a mapping that is touched beyond its file's end takes the process with it."""
    return False


def _any_set(flags: memoryview, none: bytes) -> bool:
    return any(flags) if len(none) <= _FEW else bytes(flags) != none


def _wait(
    mapping: mmap,
    word: memoryview,
    old: int,
    other: memoryview | None,
    other_old: int,
    pidfd: int,
    timeout_ns: int,
    stopped: Callable[[], bool] = lambda: False,
) -> int:
    """Wait until one of two words leaves its value or `stopped()`: 1, TIMED_OUT (also when the file is cut) or
    PEER_GONE.
    """
    if is_cut(mapping):
        return Result.TIMED_OUT

    def changed() -> bool:
        return word[0] != old or (other is not None and other[0] != other_old) or stopped()

    for _ in _SPIN if timeout_ns else range(1):
        if word[0] != old:
            return 1
    if changed():
        return 1
    start = time.monotonic()
    end = start + timeout_ns / 1e9
    look_at_peer = start + _PEER_LOOK_S
    nap = 0.0
    while not changed():
        now = time.monotonic()
        if now >= end:
            return Result.TIMED_OUT
        if now >= look_at_peer:
            look_at_peer = now + _PEER_LOOK_S
            if gone(pidfd):
                return 1 if changed() else Result.PEER_GONE
        nap = 0.0 if now - start < _YIELD_S else min(max(nap * 2, 50e-6), _LONGEST_NAP_S)
        time.sleep(min(nap, end - now))
        if is_cut(mapping):
            return Result.TIMED_OUT
    return 1


def wait32(
    mapping: mmap, offset: int, old: int, park_offset: int, strategy: int, peer: int, pidfd: int, timeout_ns: int
) -> int:
    """Wait until the u32 at `offset` leaves `old`: 1, TIMED_OUT or PEER_GONE. Polls whatever the strategy."""
    return _wait(mapping, word32(mapping, offset), old, None, 0, pidfd, timeout_ns)


class ClientChannel:
    """The client's end of the step counters; the arguments are those of the native class."""

    def __init__(
        self,
        mapping: mmap,
        frame_seq: int,
        frame_status: int,
        action_seq: int,
        park_engine: int,
        park_frame: int,
        actions: int,
        control: int,
        terminated: int,
        truncated: int,
        num_envs: int,
        shape: tuple[int, ...],
        format: str,
        low: float | None,  # None or a value that `format` holds
        high: float | None,
        strategy: int,
        peer: int,
        pidfd: int,
    ) -> None:
        self._mapping = mapping
        self._frame_seq = word64(mapping, frame_seq)
        self._frame_status = word32(mapping, frame_status)
        self._action_seq = word64(mapping, action_seq)
        self._park = word32(mapping, park_engine)
        self._park_address = address_of(mapping, park_engine)
        self._dtype = np.dtype(format)
        self._shape = shape
        self._actions = np.frombuffer(
            bytes_at(mapping, actions, math.prod(shape) * self._dtype.itemsize), self._dtype
        ).reshape(shape)
        self._actions_address = self._actions.ctypes.data
        self._in_place: NDArray[Any] | None = None
        region = bytes_at(mapping, actions, self._actions.nbytes)
        self._bytes = region
        small = self._actions.size <= _SMALL and self._dtype.char in "fdl"
        code: Any = "q" if self._dtype.char == "l" else self._dtype.char
        self._values: memoryview[Any] | None = region.cast(code) if small else None
        self._control = np.frombuffer(bytes_at(mapping, control, num_envs), np.uint8)
        self._terminated = bytes_at(mapping, terminated, num_envs)
        self._truncated = bytes_at(mapping, truncated, num_envs)
        self._no_env = bytes(num_envs)
        self._bounds = (low, high) if low is not None and high is not None else None
        self._control_dirty = True
        self._peer_parks = bool(peer & PEER_PARKS)
        self._pidfd = pidfd
        self.seq: int = self._action_seq[0]
        self.frames = 0
        self.out_of_bounds = 0
        self._received = self.seq
        self._fused: tuple[Any, Any, int] | None = None

    def send(self, actions: Any, control: Any) -> int:
        """Publish one exchange; see the native class."""
        if is_cut(self._mapping):
            return Result.OUT_OF_ORDER
        if not isinstance(actions, np.ndarray):
            return Result.UNFIT_ACTIONS
        array = cast(NDArray[Any], actions)
        if array.dtype != self._dtype or array.shape != self._shape or not array.flags.c_contiguous:
            return Result.UNFIT_ACTIONS
        if array is self._in_place or array.ctypes.data == self._actions_address:
            self._in_place = array  # the next look costs no address
        else:
            lowest, highest = array.min(), array.max()  # NaN wins both
            if not (math.isfinite(lowest) and math.isfinite(highest)):
                return Result.NOT_FINITE
            self._actions[:] = array
            if self._bounds is not None and (lowest < self._bounds[0] or highest > self._bounds[1]):
                low, high = self._bounds
                self.out_of_bounds += int(np.count_nonzero((array < low) | (array > high)))
        if control is not None:
            if not isinstance(control, np.ndarray):
                return Result.UNFIT_CONTROL
            bits = cast(NDArray[Any], control)
            if bits.dtype != np.uint8 or bits.shape != self._control.shape:
                return Result.UNFIT_CONTROL
            self._control[:] = bits
            self._control_dirty = True
        elif self._control_dirty:
            self._control[:] = 0
            self._control_dirty = False
        self.seq += 1
        self._action_seq[0] = self.seq
        if self._peer_parks:
            wake_parked(self._park, self._park_address)
        return Result.FRAME

    def recv(self, timeout_ns: int) -> int:
        """Wait for the frame of the last send; see the native class."""
        result = _wait(self._mapping, self._frame_seq, self.seq - 1, None, 0, self._pidfd, timeout_ns)
        if result != 1:
            return result
        if self._frame_seq[0] != self.seq:
            return Result.OUT_OF_ORDER
        self._received = self.seq
        if self._frame_status[0]:
            return Result.FRAME_REFUSED
        self.frames += 1
        return Result.FRAME_ENDED if self._any_ended() else Result.FRAME

    def _any_ended(self) -> bool:
        return _any_set(self._terminated, self._no_env) or _any_set(self._truncated, self._no_env)

    def _exchange_small(self, actions: Any, slice_ns: int) -> int:
        """`step` for a few values, without NumPy and with everything that can wait done while the engine works."""
        values = self._values
        if (
            values is None
            or is_cut(self._mapping)
            or type(actions) is not np.ndarray
            or actions.dtype is not self._dtype  # an equal one that is another object goes the long way
            or actions.shape != self._shape
            or not actions.flags.owndata  # perhaps it lies in the segment
            or self._control_dirty
        ):
            return self.step(actions, None, slice_ns)
        self._bytes[:] = actions.tobytes()  # nobody reads it before the counter moves
        numbers: list[Any] = values.tolist()
        if not math.isfinite(sum(numbers)):  # or the sum alone overflows: the long way looks closely
            return self.step(actions, None, slice_ns)
        self.seq = seq = self.seq + 1
        self._action_seq[0] = seq
        if self._peer_parks:
            wake_parked(self._park, self._park_address)
        if self._bounds is not None and (min(numbers) < self._bounds[0] or max(numbers) > self._bounds[1]):
            low, high = self._bounds
            self.out_of_bounds += sum(number < low or number > high for number in numbers)
        word = self._frame_seq
        for _ in _SPIN:
            if word[0] == seq:
                if self._frame_status[0]:
                    break
                self._received = seq
                self.frames += 1
                return Result.FRAME_ENDED if self._any_ended() else Result.FRAME
        return self.recv(slice_ns)

    def step(self, actions: Any, control: Any, timeout_ns: int) -> int:
        """`send` and `recv` in one call."""
        result = self.send(actions, control)
        return self.recv(timeout_ns) if result == Result.FRAME else result

    def fuse(self, frame: Any, slow: Any, slice_ns: int) -> None:
        """Make `exchange` return `frame`; see the native class."""
        self._fused = (frame, slow, slice_ns)
        self._may_exchange = True

    def unfuse(self) -> None:
        """Leave every exchange to the slow path from now on."""
        self._may_exchange = False

    def exchange(self, actions: Any, control: Any = None, deadline: Any = None) -> Any:
        """A plain exchange returns the frame; anything else is left to `slow(code, actions, control, deadline)`."""
        if self._fused is None:
            raise TypeError("exchange() before fuse()")
        frame, slow, slice_ns = self._fused
        code = Result.NOT_TRIED
        if control is None and deadline is None and self._received == self.seq and self._may_exchange:
            try:
                code = self._exchange_small(actions, slice_ns)
            except BaseException:
                slow(Result.INTERRUPTED, actions, None, None)
                raise
            if code == Result.FRAME or code == Result.FRAME_ENDED:
                frame.seq = self.frames
                frame.any_ended = code == Result.FRAME_ENDED
                return frame
        return slow(code, actions, control, deadline)


class EngineChannel:
    """The engine's end of the step counters; the arguments are those of the native class."""

    def __init__(
        self,
        mapping: mmap,
        frame_seq: int,
        frame_status: int,
        action_seq: int,
        heartbeat: int,
        park_engine: int,
        park_frame: int,
        commands: int,
        control: int,
        num_envs: int,
        strategy: int,
    ) -> None:
        self._mapping = mapping
        self._frame_seq = word64(mapping, frame_seq)
        self._frame_status = word32(mapping, frame_status)
        self._action_seq = word64(mapping, action_seq)
        self._heartbeat = word64(mapping, heartbeat)
        self._park = word32(mapping, park_frame)
        self._park_address = address_of(mapping, park_frame)
        self._commands = word32(mapping, commands)
        self._control = bytes_at(mapping, control, num_envs)
        self._no_control = bytes(num_envs)
        self._commands_read = 0
        self._interrupted = False
        self._pidfd = -1
        self._peer_parks = True
        self.seq: int = self._frame_seq[0]

    def next(self, timeout_ns: int) -> int:
        """Wait for actions or commands; see the native class."""
        if is_cut(self._mapping):
            return Result.TIMED_OUT
        self._heartbeat[0] = (self._heartbeat[0] + 1) & 0xFFFFFFFFFFFFFFFF
        words = self._action_seq, self.seq, self._commands, self._commands_read
        result = _wait(self._mapping, *words, self._pidfd, timeout_ns, self._is_interrupted)
        if result != 1:
            return result
        if self._interrupted:
            self._interrupted = False
            return Result.TIMED_OUT  # nothing is consumed yet: what there is is found again
        actions = self._action_seq[0]
        found = Result.HAS_COMMANDS if self._commands[0] != self._commands_read else 0
        if actions == self.seq + 1:
            return found | Result.HAS_ACTIONS | (Result.HAS_CONTROL if self._any_control() else 0)
        return found if actions == self.seq else Result.OUT_OF_ORDER

    def _is_interrupted(self) -> bool:
        return self._interrupted

    def _any_control(self) -> bool:
        return _any_set(self._control, self._no_control)

    def publish(self, status: int) -> None:
        """Announce the frame, or status != 0: there is none."""
        self._frame_status[0] = status
        self.seq += 1
        self._frame_seq[0] = self.seq
        if self._peer_parks:
            wake_parked(self._park, self._park_address)

    def serve(self, step: Any, acquire: Any, release: Any, timeout_ns: int) -> int:
        """Answer plain actions by `step(None)` until something else; see the native class."""
        while (found := self._soon() or self.next(timeout_ns)) == Result.HAS_ACTIONS:
            if self._interrupted:
                self._interrupted = False
                return Result.TIMED_OUT
            acquire()
            try:
                step(None)
            finally:
                release()
            self.publish(0)
        return found

    def _soon(self) -> int:
        """HAS_ACTIONS when plain actions and nothing else come within the first looks, else 0."""
        if is_cut(self._mapping):
            return 0
        word, next_seq = self._action_seq, self.seq + 1
        self._heartbeat[0] = (self._heartbeat[0] + 1) & 0xFFFFFFFFFFFFFFFF
        for _ in _SPIN:
            if word[0] == next_seq:
                break
        else:
            return 0
        if self._commands[0] != self._commands_read or self._any_control():
            return 0
        return Result.HAS_ACTIONS

    def interrupt(self) -> None:
        """Make `next` return at once, and `serve` after its present step."""
        self._interrupted = True

    def commands_read(self, position: int) -> None:
        """Commands up to this ring position are read."""
        self._commands_read = position

    def set_peer(self, pidfd: int, peer: int) -> None:
        """The client's pidfd, and what it does; whether it wakes us does not matter to a side that polls."""
        self._pidfd = pidfd
        self._peer_parks = bool(peer & PEER_PARKS)

    def resync(self) -> None:
        """Drop an exchange that a dead client left behind."""
        self._action_seq[0] = self.seq

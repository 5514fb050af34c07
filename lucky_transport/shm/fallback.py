"""The native module in pure Python, correct and untuned, for x86-64 without a compiler; see `_native.pyi`."""

from __future__ import annotations

import math
from mmap import mmap
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from lucky_transport.shm.channel import PEER_PARKS, ActionFormat, ChannelOffsets, Result
from lucky_transport.shm.fallback_ring import RingReader, RingWriter, spin
from lucky_transport.shm.fallback_words import (
    Doorbell,
    bytes_at,
    is_cut,
    load32,
    load64,
    poll,
    store32,
    store64,
    wait32,
    wake,
    word32,
    word64,
)

__all__ = [
    "GUARDS",
    "ClientChannel",
    "EngineChannel",
    "ImageSlot",
    "RingReader",
    "RingWriter",
    "SpinBudget",
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

#: Other threads wait meanwhile.
copied = bytes
#: Nothing here can catch the signal of a truncated file.
GUARDS = 0


def guard(mapping: mmap) -> None:
    """Guard nothing."""


unguard = guard


def lost(mapping: mmap) -> bool:
    """Return False: a mapping that is touched beyond its file's end takes the process with it."""
    return False


class SpinBudget:
    """None: a side that waits in Python looks once before it parks."""

    ns = 0

    def __init__(self, strategy: int) -> None:
        pass

    def learn(self, waited_ns: int) -> None:
        pass


class ImageSlot:
    """The words of a slot of images."""

    __slots__ = ("_engine", "_number", "_owner")

    def __init__(self, mapping: mmap, /, number: int, owner: int, park: int) -> None:
        self._number, self._owner = word32(mapping, number), word32(mapping, owner)
        self._engine = Doorbell(mapping, park)

    def number(self) -> int:
        return self._number[0]

    def owner(self) -> int:
        return self._owner[0]

    def take(self, number: int) -> bool:
        if self._owner[0]:
            return False
        self._number[0] = number - 1
        return True

    def hand_over(self, number: int) -> None:
        self._number[0] = number
        self._owner[0] = number

    def give_back(self, number: int) -> None:
        if self._owner[0] == number:
            self._owner[0] = 0
            self._engine.wake()


def _flags(mapping: mmap, offset: int, num_envs: int) -> NDArray[np.uint8]:
    return np.frombuffer(bytes_at(mapping, offset, num_envs), np.uint8)


class ClientChannel:
    """The client's end of the step counters."""

    def __init__(
        self, mapping: mmap, offsets: ChannelOffsets, actions: ActionFormat, /, strategy: int, peer: int
    ) -> None:
        self._mapping = mapping
        self._frame_seq = word64(mapping, offsets.frame_seq)
        self._frame_status = word32(mapping, offsets.frame_status)
        self._action_seq = word64(mapping, offsets.action_seq)
        self._engine = Doorbell(mapping, offsets.park_engine, needed=bool(peer & PEER_PARKS))
        dtype = np.dtype(actions.code)
        region = bytes_at(mapping, offsets.actions, math.prod(actions.shape) * dtype.itemsize)
        self._actions: NDArray[Any] = np.frombuffer(region, dtype).reshape(actions.shape)
        self._control = _flags(mapping, offsets.control, offsets.num_envs)
        self._terminated = _flags(mapping, offsets.terminated, offsets.num_envs)
        self._truncated = _flags(mapping, offsets.truncated, offsets.num_envs)
        self._bounds = None if actions.low is None or actions.high is None else (actions.low, actions.high)
        self.seq: int = self._action_seq[0]
        self.frames = 0
        self.out_of_bounds = 0
        self.received = self.seq
        self._fused: tuple[Any, Any, int] | None = None
        self._may_exchange = False

    def send(self, actions: object, control: object) -> int:
        if is_cut(self._mapping):
            return Result.OUT_OF_ORDER
        if not isinstance(actions, np.ndarray):
            return Result.UNFIT_ACTIONS
        array = cast(NDArray[Any], actions)
        if array.dtype != self._actions.dtype or array.shape != self._actions.shape or not array.flags.c_contiguous:
            return Result.UNFIT_ACTIONS
        outside = 0
        if array.ctypes.data != self._actions.ctypes.data:  # in place, the caller answers for the values
            if not np.isfinite(array).all():
                return Result.NOT_FINITE
            self._actions[:] = array
            if self._bounds is not None:
                low, high = self._bounds
                outside = int(np.count_nonzero((array < low) | (array > high)))
        if control is None:
            self._control[:] = 0
        elif not isinstance(control, np.ndarray):
            return Result.UNFIT_CONTROL
        else:
            bits = cast(NDArray[Any], control)
            if bits.dtype != np.uint8 or bits.shape != self._control.shape:
                return Result.UNFIT_CONTROL
            self._control[:] = bits
        self.out_of_bounds += outside
        self.seq += 1
        self._action_seq[0] = self.seq
        self._engine.wake()
        return Result.FRAME

    def recv(self, timeout_ns: int) -> int:
        cut = lambda: is_cut(self._mapping)  # noqa: E731
        result = poll(lambda: not cut() and self._frame_seq[0] != self.seq - 1, cut, timeout_ns)
        if result != 1:
            return result
        if self._frame_seq[0] != self.seq:
            return Result.OUT_OF_ORDER
        self.received = self.seq
        if self._frame_status[0]:
            return Result.FRAME_REFUSED
        self.frames += 1
        return Result.FRAME_ENDED if self._terminated.any() or self._truncated.any() else Result.FRAME

    def step(self, actions: object, control: object, timeout_ns: int) -> int:
        result = self.send(actions, control)
        return self.recv(timeout_ns) if result == Result.FRAME else result

    def fuse(self, frames: Any, slow: Any, slice_ns: int) -> None:
        self._fused = (frames, slow, slice_ns)
        self._may_exchange = True

    def unfuse(self) -> None:
        self._may_exchange = False

    def exchange(self, actions: object, control: object = None, deadline: object = None) -> Any:
        if self._fused is None:
            raise TypeError("exchange() before fuse()")
        frames, slow, slice_ns = self._fused
        code = Result.NOT_TRIED
        if control is None and deadline is None and self.received == self.seq and self._may_exchange:
            code = self.step(actions, None, slice_ns)
            if code in (Result.FRAME, Result.FRAME_ENDED):
                frame = frames[self.seq % len(frames)]
                frame.seq = self.frames
                frame.any_ended = code == Result.FRAME_ENDED
                return frame
        return slow(code, actions, control, deadline)


class EngineChannel:
    """The engine's end of the step counters."""

    def __init__(self, mapping: mmap, offsets: ChannelOffsets, /, strategy: int) -> None:
        self._mapping = mapping
        self._frame_seq = word64(mapping, offsets.frame_seq)
        self._frame_status = word32(mapping, offsets.frame_status)
        self._action_seq = word64(mapping, offsets.action_seq)
        self._heartbeat = word64(mapping, offsets.heartbeat)
        self._client = Doorbell(mapping, offsets.park_frame)
        self._commands = word32(mapping, offsets.commands)
        self._control = _flags(mapping, offsets.control, offsets.num_envs)
        self._commands_read = 0
        self._interrupted = False
        self.seq: int = self._frame_seq[0]

    def next(self, timeout_ns: int) -> int:
        if is_cut(self._mapping):
            return Result.TIMED_OUT
        self._heartbeat[0] = (self._heartbeat[0] + 1) & 0xFFFFFFFFFFFFFFFF
        result = poll(self._has_work, self._must_stop, timeout_ns)
        if self._interrupted:
            self._interrupted = False
            return Result.TIMED_OUT  # nothing is consumed yet: what there is is found again
        if result != 1:
            return result
        actions = self._action_seq[0]
        found = Result.HAS_COMMANDS if self._commands[0] != self._commands_read else 0
        if actions == self.seq + 1:
            return found | Result.HAS_ACTIONS | (Result.HAS_CONTROL if self._control.any() else 0)
        return found if actions == self.seq else Result.OUT_OF_ORDER

    def _has_work(self) -> bool:
        if self._must_stop():
            return False
        return self._action_seq[0] != self.seq or self._commands[0] != self._commands_read

    def _must_stop(self) -> bool:
        return self._interrupted or is_cut(self._mapping)

    def publish(self, status: int) -> None:
        self._frame_status[0] = status
        self.seq += 1
        self._frame_seq[0] = self.seq
        self._client.wake()

    def serve(self, step: Any, acquire: Any, release: Any, timeout_ns: int) -> int:
        while (found := self.next(timeout_ns)) == Result.HAS_ACTIONS:
            acquire()
            try:
                step(None)
            finally:
                release()
            self.publish(0)
        return found

    def interrupt(self) -> None:
        self._interrupted = True

    def commands_read(self, position: int) -> None:
        self._commands_read = position

    def set_peer(self, peer: int) -> None:
        self._client.needed = bool(peer & PEER_PARKS)

    def resync(self) -> None:
        self._action_seq[0] = self.seq

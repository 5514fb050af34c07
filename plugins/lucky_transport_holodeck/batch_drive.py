"""The right to step an engine of ours, and how it is stepped; see `lucky_transport_holodeck.batch_seat`.

One process drives: who has the client's byte of the segment's lock and the client's turn. Hello and goodbye are turns
of their own, so the next client finds its semaphore posted. A wait for a turn is cut into slices: a dead or closing
engine ends it. Whatever a killed engine left behind is removed by the client that saw it die.
"""

from __future__ import annotations

import os
import time
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lucky_transport.config import Settings
from lucky_transport.deadline import Deadline
from lucky_transport.errors import Busy, NotReachable, PeerDied, PeerTimeout
from lucky_transport.shm import header, lockfile
from lucky_transport.shm.layout import EngineState
from lucky_transport.shm.liveness import Peer, start_time
from lucky_transport.shm.segment import Segment
from lucky_transport.shm.segment_files import remove_stale
from lucky_transport.transport import Frame
from lucky_transport_holodeck.batch_fields import BatchFields
from lucky_transport_holodeck.names import COMMAND_BUFFER, Names
from lucky_transport_holodeck.semaphores import Semaphore, unlink
from lucky_transport_holodeck.sharers import sharers

__all__ = ["BatchDrive"]

_SLICE_S = 0.05
_SLEEP_S = 0.0005
_GOODBYE_S = 0.5


class BatchDrive:
    """Drives from the constructor's return until `leave` or `drop`, one of which must be called.

    Raises Busy when another client drives, PeerDied, PeerTimeout, NotReachable.
    """

    def __init__(self, segment: Segment, names: Names, settings: Settings) -> None:
        self._segment = segment
        self._names = names
        self._step_timeout_s = settings.step_timeout_s
        self._fields = BatchFields(segment.mapping)
        buffers = segment.buffers()
        self._actions = buffers.actions
        self._frame = Frame.showing(buffers)
        self._control = segment.control()
        self._has_control = True  # what the last client left there
        if not lockfile.acquire(segment.lock_path, lockfile.CLIENT):
            raise self._busy(lockfile.holder(segment.lock_path, lockfile.CLIENT))
        self._engine = Peer(header.get(segment.mapping, "server_pid"), header.get(segment.mapping, "server_start"))
        deadline = Deadline(settings.connect_timeout_s)
        try:
            self._server = self._open(names.server, settings.wait, deadline)
            self._client = self._open(names.client, settings.wait, deadline)
            self._say_hello(deadline)
        except BaseException:
            self._engine.close()
            lockfile.release(segment.lock_path, lockfile.CLIENT)
            raise
        self._number = self._fields.frame_seq[0]
        self._first = self._number

    def _open(self, name: str, wait: str, deadline: Deadline) -> Semaphore:
        """Open a semaphore that the engine may just be making."""
        while True:
            try:
                return Semaphore.open(name, wait)
            except NotReachable:
                if deadline.expired:
                    raise
            self._check_engine()
            time.sleep(_SLEEP_S)

    def _busy(self, pid: int) -> Busy:
        who = f"the client of pid {pid}" if pid else "another client"
        return Busy(
            f"engine {self._segment.spec.engine!r} at holodeck://{self._names.uuid} is driven by {who}",
            backend="holodeck",
            hint="close that one first; until then this one can send commands only",
        )

    def _say_hello(self, deadline: Deadline) -> None:
        """Take the client's turn, say who is there, and have the turn back."""
        while not self._client.take(min(deadline.remaining_s, _SLICE_S)):
            self._check_engine()
            guests = [pid for pid in sharers(self._names.block(COMMAND_BUFFER)) if pid != self._engine.pid]
            if guests or deadline.expired:
                raise self._busy(guests[0] if guests else 0)
        pid = os.getpid()
        self._fields.client_start[0] = start_time(pid)
        self._fields.client_pid[0] = pid
        self._server.give()
        self._take_turn(deadline)

    def send(self, actions: NDArray[Any], control: NDArray[np.uint8] | None) -> None:
        """Publish an exchange; both were checked."""
        np.copyto(self._actions, actions)
        if control is not None or self._has_control:
            self._control[...] = 0 if control is None else control
            self._has_control = control is not None
        self._number += 1
        self._fields.action_seq[0] = self._number
        self._server.give()

    def recv(self, deadline: Deadline | None) -> Frame:
        """Return the frame; raises PeerTimeout, after which it may still come, PeerDied, or what the engine raised."""
        if deadline is not None or not self._client.take(min(self._step_timeout_s, _SLICE_S)):
            self._take_turn(Deadline.after(deadline, self._step_timeout_s))
        if self._segment.mapping.is_lost:
            raise self._segment.mapping.error()
        if self._fields.frame_status[0]:
            raise self._segment.read_error("holodeck")
        frame = self._frame
        frame.seq = self._number - self._first
        frame.any_ended = bool(np.count_nonzero(frame.terminated) or np.count_nonzero(frame.truncated))
        return frame

    def _take_turn(self, deadline: Deadline) -> None:
        while not self._client.take(min(deadline.remaining_s, _SLICE_S)):
            try:
                self._check_engine()
            except PeerDied:
                if self._client.take(0):  # its last word
                    return
                raise
            if deadline.expired:
                raise PeerTimeout(
                    f"the engine (pid {self._engine.pid}) sent no frame within {deadline.timeout_s} s",
                    backend="holodeck",
                    hint="recv() again, or raise step_timeout_s (LUCKY_STEP_TIMEOUT_S)",
                )

    def _check_engine(self) -> None:
        """Raise PeerDied when the engine is gone or going, SegmentError when its segment was truncated."""
        self._segment.mapping.check()
        if self._is_served:
            return
        if self._engine.alive:
            text = "the engine closed"
        else:
            text = f"the engine's process (pid {self._engine.pid}) ended"
        raise PeerDied(text, backend="holodeck", hint="start the engine and connect again")

    @property
    def _is_served(self) -> bool:
        return self._fields.engine_state[0] != EngineState.CLOSING and self._engine.alive

    def leave(self, *, is_owed: bool) -> None:
        """Drive no more; the engine is free for the next one. is_owed: a frame is still to come."""
        if self._is_served:
            self._say_goodbye(is_owed)
        self.drop()

    def _say_goodbye(self, is_owed: bool) -> None:
        """Give the turn back, once the engine has finished what it was asked for."""
        has_turn = not is_owed or self._client.take(_GOODBYE_S)
        self._fields.client_pid[0] = 0
        if not has_turn:
            return  # it comes late, and lies there for the next one
        self._server.give()
        deadline = Deadline(_GOODBYE_S)
        while self._fields.client_start[0] and not deadline.expired and self._is_served:
            time.sleep(_SLEEP_S)

    def drop(self) -> None:
        """Let go of everything, without a goodbye; clean up after an engine that is dead."""
        self._server.close()
        self._client.close()
        lockfile.release(self._segment.lock_path, lockfile.CLIENT)
        if not self._engine.alive:
            remove_stale(self._segment.path.parent)
            if not self._segment.path.exists():  # no other engine has come under the same uuid meanwhile
                for name in (self._names.server, self._names.client, self._names.loading):
                    unlink(name)
        self._engine.close()

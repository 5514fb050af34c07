"""The engine's end for clients of ours: whole frames, bit for bit, and typed calls, beside Holodeck's semaphores.

What Holodeck has no block for lies in one segment of ours, `Names.extension`: the spec, actions, control bytes and the
frame. Turns are taken by the same two semaphores; typed calls and streams go through a listener of the core. A
turn of a client of ours is one exchange: the engine steps when `action_seq` has moved, and answers by `frame_seq`, with
the reason in the error region where there is no frame. The first turn after `client_pid` was written opens the
connection, the first one after it was cleared closes it.
"""

from __future__ import annotations

import logging
from functools import partial

import numpy as np

from lucky_transport.config import Settings
from lucky_transport.errors import ClosedError, TransportError
from lucky_transport.host.dispatch import Dispatcher
from lucky_transport.host.foreign import foreign_services
from lucky_transport.host.host import Host, Lease
from lucky_transport.shm.layout import EngineState
from lucky_transport.shm.liveness import Peer
from lucky_transport.shm.segment import create
from lucky_transport.shm.server_loop import serve_listener
from lucky_transport.shm.slot_files.image_store import ImageStores
from lucky_transport.shm.wait import strategy_code
from lucky_transport_holodeck.batch_fields import BatchFields
from lucky_transport_holodeck.names import Names
from lucky_transport_holodeck.turns import EngineTurns

__all__ = ["LEAST_RING_BYTES", "BatchSeat"]

_log = logging.getLogger("lucky_transport")

#: The segment's own rings are not used: calls go through the listener.
LEAST_RING_BYTES = 4096


class BatchSeat:
    """One host's clients of ours, one after the other. Raises Busy when the uuid is taken, NoSpace."""

    def __init__(self, host: Host, names: Names, settings: Settings) -> None:
        self._host = host
        self._segment = create(names.extension, host.spec, ring_bytes=LEAST_RING_BYTES)
        try:
            segment, spec = self._segment, host.spec
            self._buffers = segment.buffers()
            self._segment_control = segment.control()
            self._control = np.zeros(spec.num_envs, np.uint8)
            self._fields = BatchFields(segment.mapping)
            self._dispatcher = Dispatcher(host, foreign=foreign_services(host))
            strategy = strategy_code(settings.wait)
            images = ImageStores(segment.path, strategy=strategy, native=settings.native)
            self._commands = serve_listener(
                segment.name,
                partial(self._dispatcher.serve, open_images=images.open, max_message_bytes=settings.max_message_bytes),
                self._dispatcher.leave,
                slots=self._dispatcher.slots,
                strategy=strategy,
                native=settings.native,
            )
        except BaseException:
            self._segment.unlink()
            raise
        self._lease: Lease | None = None
        self._peer: Peer | None = None
        segment.publish_ready()

    @property
    def is_taken(self) -> bool:
        """True while a client of ours is there, or has just left and was not seen off yet."""
        return self._peer is not None or bool(self._fields.client_pid[0])

    def tick(self) -> None:
        """Do the exchange that the client's turn asks for, or see it off."""
        if not self._fields.client_pid[0]:
            self._see_off()
            return
        self._know()
        number = self._fields.action_seq[0]
        if number == self._fields.frame_seq[0]:
            return
        try:
            self._exchange()
        except TransportError as error:
            self._publish(number, error)
        else:
            self._publish(number, None)

    def _exchange(self) -> None:
        if self._lease is None:
            self._lease = self._host.drive(f"Holodeck client of pid {self._fields.client_pid[0]}", self._buffers)
        if not np.count_nonzero(self._segment_control):
            self._lease.step()
            return
        np.copyto(self._control, self._segment_control)  # read once: the client could change it under us
        self._lease.step(self._control)

    def _publish(self, number: int, error: TransportError | None) -> None:
        """Answer exchange `number`; the client reads it after the semaphore, which orders these stores."""
        if error is not None:
            self._segment.write_error(error)
        self._fields.frame_status[0] = 0 if error is None else error.wire_code
        self._fields.frame_seq[0] = number

    def look_after(self, turns: EngineTurns) -> None:
        """While no turn comes: notice a client that came, or that died."""
        if not self._fields.client_pid[0]:  # it left while it was owed a frame
            self._see_off()
            return
        self._know()
        if self._peer is not None and not self._peer.alive:
            _log.warning("the Holodeck client of pid %d ended without a goodbye", self._peer.pid)
            self._fields.frame_seq[0] = self._fields.action_seq[0]
            self._see_off()
            turns.offer()

    def _know(self) -> None:
        """Hold the present client by its process."""
        pid = self._fields.client_pid[0]
        if self._peer is None or self._peer.pid != pid:
            if self._peer is not None:
                self._peer.close()
            self._peer = Peer(pid, self._fields.client_start[0])

    def _see_off(self) -> None:
        """Forget the client; the engine is free for the next driver, the seat for the next client."""
        if self._lease is not None:
            self._lease.release()
            self._lease = None
        if self._peer is not None:
            self._peer.close()
            self._peer = None
        self._fields.client_pid[0] = 0
        self._fields.client_start[0] = 0  # last: who leaves waits for it

    def announce_end(self) -> None:
        """Tell clients that the engine closes."""
        self._fields.engine_state[0] = EngineState.CLOSING

    def close(self, grace_s: float) -> bool:
        """End everything and leave nothing behind; True when a client still waits for the answer that it gets now."""
        number = self._fields.action_seq[0]
        is_owed = bool(self._fields.client_pid[0]) and number != self._fields.frame_seq[0]
        if is_owed:
            self._publish(number, ClosedError("the engine is closing", backend="holodeck"))
        self._see_off()
        self._commands.close(grace_s)
        self._dispatcher.close(grace_s)
        self._segment.unlink()
        return is_owed

    def abandon(self) -> None:
        """Remove what has a name: the engine hangs in a step, and its thread with it."""
        self._commands.close(0.0)
        self._segment.unlink()

"""How a client takes the one place that a segment has for a client that steps, and leaves it."""

from __future__ import annotations

import os
import time

from lucky_transport import native
from lucky_transport.deadline import Deadline
from lucky_transport.errors import PeerDied, PeerTimeout
from lucky_transport.shm.files.liveness import Process, pid_namespace, start_time
from lucky_transport.shm.files.lockfile import Lock
from lucky_transport.shm.segment import header
from lucky_transport.shm.segment.layout import FIELDS, EngineState, Feature
from lucky_transport.shm.segment.segment import Segment
from lucky_transport.shm.timing import HAND_OVER_POLL_S, HAND_OVER_S

#: What this side understands.
UNDERSTOOD = header.ENGINE_FEATURES | Feature.SLOTS | Feature.PARKS | Feature.ARENAS | Feature.EVENTS


def attach(segment: Segment, lock: Lock, engine: Process, deadline: Deadline) -> None:
    """Take the client's place once the engine has let go of the last client and finished its exchange.

    The words are written in an order in which the engine never takes a client that comes for one that left: that has
    features, and neither a pid nor a start time any more. Raises PeerDied, PeerTimeout.
    """
    mapping = segment.mapping
    if not header.get(mapping, "client_pid"):
        header.put(mapping, "client_start", 0)  # of one that died while it came: the lock says that no client comes
    while (
        header.get(mapping, "client_pid")
        or header.get(mapping, "client_features")
        or header.get(mapping, "frame_seq") != header.get(mapping, "action_seq")
    ):
        if not engine.alive:
            raise PeerDied(f"the engine ({engine.name}) ended", backend="shm", hint="start it again")
        if deadline.expired:
            raise PeerTimeout(
                f"the engine ({engine.name}) did not let go of its last client within {deadline.timeout_s} s",
                backend="shm",
                hint="it may hang in a step: restart it; one that is stopped goes on after `kill -CONT`",
            )
        native.wake(mapping, FIELDS["park_engine"].offset)
        time.sleep(HAND_OVER_POLL_S)
    pid = os.getpid()
    header.put(mapping, "client_lock", lock.own)
    header.put(mapping, "client_pid_namespace", pid_namespace())
    header.put(mapping, "client_start", start_time(pid) or 1)  # not 0, also without /proc
    header.put(mapping, "client_features", int(UNDERSTOOD))
    native.wake(mapping, FIELDS["park_engine"].offset)  # it looks after us even if we die before the next one
    header.put(mapping, "client_pid", pid)  # last: from here the engine looks at us
    native.wake(mapping, FIELDS["park_engine"].offset)


def detach(segment: Segment, engine: Process) -> None:
    """Leave, and wait a moment until the engine let go, so that the next driver finds it free."""
    mapping = segment.mapping
    header.put(mapping, "client_start", 0)
    header.put(mapping, "client_pid", 0)
    deadline = Deadline(HAND_OVER_S)
    while header.get(mapping, "client_features") and not deadline.expired and engine.alive:
        if header.get(mapping, "engine_state") == EngineState.CLOSING:
            return
        native.wake(mapping, FIELDS["park_engine"].offset)
        time.sleep(HAND_OVER_POLL_S)

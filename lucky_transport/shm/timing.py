"""How long each side of shared memory waits in Python, with its reasons; `_native/timing.h` has the times of C."""

from __future__ import annotations

__all__ = [
    "ACCEPT_PAUSE_S",
    "ANSWER_S",
    "CONNECT_FIRST_SLEEP_S",
    "CONNECT_LONGEST_SLEEP_S",
    "DRAIN_SLICE_NS",
    "FALLBACK_PEER_POLL_S",
    "FALLBACK_SLEEP_S",
    "FALLBACK_SPIN_S",
    "FALLBACK_YIELD_NS",
    "FRESH_NS",
    "HANDSHAKE_S",
    "HAND_OVER_POLL_S",
    "LISTENER_POLL_NS",
    "LISTENER_S",
    "LONGEST_SLEEP_NS",
    "LOOP_SLICE_NS",
    "PEER_POLL_NS",
    "SEGMENT_POLL_S",
    "SOCKET_POLL_NS",
    "THROTTLE_NS",
    "TRUNCATION_POLL_NS",
]

# Connecting.

#: Between two tries of a client to reach a listener; doubled up to the longest, so that a late engine costs little CPU.
CONNECT_FIRST_SLEEP_S = 0.002
CONNECT_LONGEST_SLEEP_S = 0.05
#: What a client gives an engine for its answer beyond the deadline: a listener that is there answers at once.
ANSWER_S = 0.001
#: An engine that serves a segment listens within this time of making it.
LISTENER_S = 0.02
#: A client that connects has this long for its hello; a listener serves others meanwhile.
HANDSHAKE_S = 1.0
#: A listener that had no descriptor for a client tries again after this time.
ACCEPT_PAUSE_S = 0.1
#: A client that waits for a segment looks for it this often.
SEGMENT_POLL_S = 0.002
#: A client that waits for the engine to let go of its predecessor looks this often: it takes some 100 us.
HAND_OVER_POLL_S = 0.0005

# Waiting.

#: The engine's loop notices its end and signals this often; its client's wait polls the pidfd by itself.
PEER_POLL_NS = 50_000_000
#: A wait for free space polls the peer's socket this often.
SOCKET_POLL_NS = 50_000_000
#: A wait returns to Python this often: whether the file was truncated or the engine is closing is seen there.
TRUNCATION_POLL_NS = 200_000_000
#: A side that sleeps in an epoll wakes at least this often: more is not needed, since every event wakes it.
LONGEST_SLEEP_NS = 10_000_000_000
#: However busy the rings are, new clients and ends of clients are handled this often.
LISTENER_POLL_NS = 2_000_000
#: A throttled pipe is offered again after this time.
THROTTLE_NS = 1_000_000
#: A server's loop runs its own checks at least this often.
LOOP_SLICE_NS = 1_000_000_000
#: While a closing server lets its calls end, they are counted this often.
DRAIN_SLICE_NS = 5_000_000

# Images.

#: A stream may be further ahead of its client while the oldest image is younger than this: threads wake within it.
FRESH_NS = 5_000_000

# The pure-Python fallback.

#: Between two polls of a wait: a thousand a second cost little CPU, and a record waits no longer.
FALLBACK_SLEEP_S = 0.5e-3
#: A wait yields the core without sleeping for this time: most peers answer within it.
FALLBACK_YIELD_NS = 150_000
#: A wait polls the peer's process this often.
FALLBACK_PEER_POLL_S = 0.05
#: `spin` returns after this time, so that its caller can poll the peer and signals.
FALLBACK_SPIN_S = 10e-3

"""How long each side of shared memory looks, yields, sleeps and parks, each time with its reason.

`_native/constants.h` is made from `NATIVE`.

    phase     until                            what a waiting thread does in C
    look      GIL_LOOKS looks                  looks with the GIL held
    pause     PAUSE_NS                         looks and pauses without the GIL
    yield     YIELD_NS; SOON_NS when learnt    looks and gives the core away in between
    park      the timeout, in slices           sleeps on its park word; polls a peer that never wakes it

    strategy              look   pause   yield              park
    WAIT_SPIN             yes    yes     to the slice end   never
    WAIT_ADAPTIVE         yes    yes     yes                yes; at once after two long waits; without a yield for some
                                                            waits after one that gave the core to another program
    WAIT_BLOCK            no     no      no                 at once
    WAIT_OVERSUBSCRIBED   no     no      yes                yes

A peer that published on the CPU of the waiting thread does not run while that looks: a wait for it parks at once, and
the kernel wakes the sleeper on another CPU where one is idle. WAIT_SPIN yields at once.
"""

from __future__ import annotations

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
#: A client that waits for the engine to let go of it, or of its predecessor, looks this often: it takes some 100 us.
HAND_OVER_POLL_S = 0.0002
#: A client that leaves waits for that at most so long.
HAND_OVER_S = 0.5

# Waiting.

#: A wait at a segment returns to Python this often. There the peer's lock is looked at (3 us), and whether the file was
#: truncated, or the peer is closing. Three of these fit into the 100 ms in which a death is noticed: the first may find
#: what the peer published before it died, and on a busy machine the last is late. An engine whose client holds a lock
#: looks at that in C, and returns every LOOP_SLICE_NS, as one without a client does.
PEER_POLL_NS = 30_000_000
#: A wait for free space looks this often whether the peer has left or the file was truncated.
WRITABLE_SLICE_NS = 50_000_000
#: A side that sleeps in an epoll wakes at least this often: more is not needed, since every event wakes it.
LONGEST_SLEEP_NS = 10_000_000_000
#: However busy the rings are, new clients and ends of clients are handled this often.
LISTENER_POLL_NS = 2_000_000
#: A throttled pipe is offered again after this time.
THROTTLE_NS = 1_000_000
#: A server's loop runs its own checks at least this often, and so does an engine's that steps.
LOOP_SLICE_NS = 1_000_000_000
#: While a closing server lets its calls end, they are counted this often.
DRAIN_SLICE_NS = 5_000_000

# Images.

#: A stream may be further ahead of its client while the oldest image is younger than this: threads wake within it.
FRESH_NS = 5_000_000

# The native module.

NATIVE = {
    # 1 to 3 us: a fast step pays neither for releasing the GIL nor for reading a clock.
    "GIL_LOOKS": 64,
    # A peer may share our core without our knowledge, so pausing is short.
    "PAUSE_NS": 10_000,
    # A yield that took longer than this gave the core to another program for its slice, and the next one would again,
    # however soon the peer is done. So many waits pause and then park: the kernel runs a sleeper that is woken before
    # programs that compute.
    "LOST_CORE_NS": 1_000_000,
    "LOST_CORE_WAITS": 256,
    # Looks between two readings of the clock: yields alone slow the other thread of a hyperthreaded core.
    "PAUSES": 16,
    # Being woken costs either side 100 us and more, so yielding for about as long is no loss; longer only delays the
    # park.
    "YIELD_NS": 150_000,
    # Where the last waits were over within this time, being woken takes a good part of it: looking on is cheaper.
    "SOON_NS": 800_000,
    # Waits that have to agree before a waiter believes an extreme: four that were over soon, two that were not.
    "SCORE_SOON": 4,
    "SCORE_LATE": -2,
    # A parked wait looks at Python's signals and at its peer's lock this often (see PEER_POLL_NS). An engine that knows
    # no lock parks until its timeout.
    "SLICE_NS": 30_000_000,
    # An engine looks at Python's signals once in so many exchanges, if all are there at once.
    "SIGNAL_LOOKS": 64,
    # A spinning wait looks at Python's signals this often.
    "SPIN_SLICE_NS": 10_000_000,
    # A peer that never wakes us is polled this often: at most 1 ms apart, at little CPU.
    "POLL_NS": 500_000,
    # An engine asks so long for its place: a process that removes what a dead engine left has it for some milliseconds.
    "TAKE_OVER_NS": 200_000_000,
    # A reader that does not know the writer's park word is polled this often by a writer that waits for free space.
    "FREED_POLL_NS": 1_000_000,
    # Such a writer looks at Python's signals this often: it holds up a thread that has more to do.
    "FREED_SLICE_NS": 20_000_000,
}

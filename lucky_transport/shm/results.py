"""What the channels' methods return; the numbers are those of `_atomics.c`."""

from __future__ import annotations

__all__ = ["PEER_PARKS", "PEER_WAKES", "Result"]

#: What a peer does: it wakes us when we are parked; it may itself be parked and need our wake-up.
PEER_WAKES, PEER_PARKS = 1, 2


class Result:
    """Outcomes of `send` / `recv` / `step` (first two groups) and bits of `EngineChannel.next` (last group)."""

    FRAME, FRAME_ENDED, FRAME_REFUSED = 0, 1, 2
    TIMED_OUT, PEER_GONE, OUT_OF_ORDER = -1, -2, -3
    NOT_TRIED, INTERRUPTED = -10, -100
    UNFIT_ACTIONS, NOT_FINITE, UNFIT_CONTROL = -11, -12, -13
    HAS_ACTIONS, HAS_CONTROL, HAS_COMMANDS = 1, 2, 4

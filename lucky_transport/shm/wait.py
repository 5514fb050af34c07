"""How a side waits: three named strategies, and the look at ring ends before it parks.

    spin        looks all the time (a core per waiting side), giving the core away after 10 us
    adaptive    looks for 10 us, yields until 150 us (0 to 800 us: as its last waits taught it), then parks; the default
    block       parks at once

`adaptive` neither loses to `block` at control rates nor to `spin` flat out: spinning longer before parking keeps a
woken peer off the core, parking sooner sticks in the machine's slow wake-up.
"""

from __future__ import annotations

from lucky_transport import native
from lucky_transport.errors import ConfigError

__all__ = ["OVERSUBSCRIBED", "PEER_WAKES", "STRATEGIES", "spin", "strategy_code"]

#: Name to the code the native module knows.
STRATEGIES = {"spin": 0, "adaptive": 1, "block": 2}
#: As adaptive, without the first 10 us: for a process whose own threads want the core. Never chosen by a user.
OVERSUBSCRIBED = 3
#: What a peer may do: it wakes us when we are parked.
PEER_WAKES = 1


def strategy_code(name: str) -> int:
    """Return the code of a strategy; raises ConfigError for an unknown name."""
    if name not in STRATEGIES:
        raise ConfigError(f"wait {name!r}", backend="shm", hint=f"expected one of {', '.join(STRATEGIES)}")
    return STRATEGIES[name]


def spin(
    readers: tuple[native.RingReader, ...], strategy: int, longest_ns: int, *, oversubscribed: bool = False
) -> bool:
    """Look at the readers for at most so long, with `block` once; True when one has something to pop.

    oversubscribed: threads of this process want the core too, so `adaptive` gives it away between all looks.
    """
    code = OVERSUBSCRIBED if oversubscribed and strategy == STRATEGIES["adaptive"] else strategy
    return native.spin(readers, code, longest_ns)

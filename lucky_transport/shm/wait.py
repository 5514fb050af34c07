"""How a side waits: three named strategies.

    spin        looks all the time (a core per waiting side), giving the core away after 10 us
    adaptive    looks for 10 us, yields until 150 us (0 to 800 us: as its last waits taught it), then parks; the default
    block       parks at once

Rule 1: `adaptive` is the default because it neither loses to `block` at control rates nor to `spin` flat out: spinning
        longer before parking keeps a woken peer off the core, parking sooner sticks in the machine's slow wake-up.
Rule 2: in a segment, who had to wake the peer parks at once: that takes longer than looking helps, and perhaps this
        very core. (At a rendezvous, where waking is dearer, that was measured to lose.)
"""

from __future__ import annotations

from lucky_transport.errors import ConfigError

__all__ = ["CROWDED", "STRATEGIES", "strategy_code"]

#: Name to the code the native module knows.
STRATEGIES = {"spin": 0, "adaptive": 1, "block": 2}
#: As adaptive, without the first 10 us: for a side whose own threads want the core. Chosen by us, never by a user.
CROWDED = 3


def strategy_code(name: str) -> int:
    """Return the code of a strategy; raises ConfigError for an unknown name."""
    if name not in STRATEGIES:
        raise ConfigError(f"wait {name!r}", backend="shm", hint=f"expected one of {', '.join(STRATEGIES)}")
    return STRATEGIES[name]

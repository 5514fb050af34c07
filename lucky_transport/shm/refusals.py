"""What the native ring finds wrong, as the errors that the pure-Python ring raises.

Rule 1: the native module only says which check failed and on what values; the check and its text are Python's, once.
"""

from __future__ import annotations

from lucky_transport.shm.record import check_length, check_outgoing, check_skip
from lucky_transport.shm.ring import distance

__all__ = ["refuse"]

#: What `_ring.h` calls REFUSE_...: the check, and how many values it takes.
_CHECKS = ((distance, 3), (check_outgoing, 2), (check_length, 4), (check_skip, 3))


def refuse(kind: int, *values: int) -> None:
    """Raise the RemoteProtocolError or SpecError of check `kind` on those values (surplus ones are 0)."""
    check, count = _CHECKS[kind]
    check(*values[:count])

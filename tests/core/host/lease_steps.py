"""A step of a client that shares or has a driver's lease."""

from __future__ import annotations

from typing import Any

from lucky_transport.host.driver_lease import Driver, DriverLease

__all__ = ["step_as"]


def step_as(lease: DriverLease, client: str, idle_s: float = 10.0, **more: Any) -> None:
    lease.run(Driver(client, idle_s=idle_s, **more), 1.0, lambda: lease.exchange(None))

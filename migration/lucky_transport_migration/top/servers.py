"""The gRPC servers in shared memory, with the calls a second between two looks."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lucky_transport.diagnosis import servers
from lucky_transport.diagnosis.servers import ServerReport


@dataclass(frozen=True, slots=True)
class ServerActivity:
    """A server and its calls a second since the last look; None where calls are not counted."""

    report: ServerReport
    rate: float | None

    def plain(self) -> dict[str, Any]:
        """Return it as JSON values."""
        return self.report.plain() | {"rate": self.rate}


class ServerRates:
    """Looks at the servers of this user again and again."""

    def __init__(self, proc: Path = Path("/proc")) -> None:
        self._proc = proc
        self._before: dict[tuple[str, int], tuple[float, int]] = {}

    def read(self) -> tuple[ServerActivity, ...]:
        """Return what there is now; a server that is seen for the first time has the rate 0."""
        found = servers.find(self._proc)
        before, now = self._before, time.monotonic()
        self._before = {(one.name, one.pid): (now, one.total) for one in found if one.total is not None}
        return tuple(ServerActivity(one, self._rate(one, before, now)) for one in found)

    @staticmethod
    def _rate(one: ServerReport, before: dict[tuple[str, int], tuple[float, int]], now: float) -> float | None:
        if one.total is None:
            return None
        then, count = before.get((one.name, one.pid), (now, one.total))
        return (one.total - count) / (now - then) if now > then else 0.0

"""What a client knows of a Holodeck engine's process: `is_alive`, and `check`, which raises PeerDied once it is dead.

`close` leaves it, or ends it where `ends_with_us`.
"""

from __future__ import annotations

from contextlib import ExitStack

from lucky_transport.config import environment
from lucky_transport.deadline import Deadline
from lucky_transport.errors import PeerDied
from lucky_transport.process import ChildProcess
from lucky_transport_holodeck.names import Names, find_peer
from lucky_transport_holodeck.options import WorldOptions
from lucky_transport_holodeck.scenario import Scenario
from lucky_transport_holodeck.semaphores import Semaphore, unlink


class AttachedEngine:
    """An engine that was running before. Where its process cannot be seen, only deadlines end a wait for it."""

    ends_with_us = False

    def __init__(self, names: Names) -> None:
        self._peer = find_peer(Names.file_of(names.server))

    @property
    def is_alive(self) -> bool:
        """False once the engine is known to be dead."""
        return self._peer is None or self._peer.alive

    def check(self) -> None:
        if self._peer is not None and not self._peer.alive:
            raise PeerDied(
                f"the Holodeck engine (pid {self._peer.pid}) ended",
                backend="holodeck",
                hint="start it and connect again",
            )

    def close(self) -> None:
        if self._peer is not None:
            self._peer.close()


class StartedEngine(ChildProcess):
    """An engine that is started here, with the original's command line.

    Raises NotReachable when it ends before it posts LOADING, or does not post it in time.
    """

    ends_with_us = True

    def __init__(self, names: Names, scenario: Scenario, options: WorldOptions, start_timeout_s: float) -> None:
        width, height = scenario.window
        unlink(names.loading)
        loading = Semaphore.create(names.loading, 0, "block")
        try:
            super().__init__(
                "holodeck",
                [
                    *(options.binary, scenario.world, "-HolodeckOn", "-LOG=HolodeckLog.txt", "-ForceRes"),
                    *(f"-ResX={width}", f"-ResY={height}", f"--HolodeckUUID={names.uuid}"),
                    f"-TicksPerSec={scenario.ticks_per_second}",
                    *scenario.launch,
                ],
                environ=environment(),
            )
            with ExitStack() as stack:
                stack.callback(self.close)
                late = "raise start_timeout_s, or run it by hand"
                self.await_ready(loading.wait, Deadline(start_timeout_s), late=late, ended="run it by hand")
                stack.pop_all()
        finally:
            unlink(names.loading)
            loading.close()

    def check(self) -> None:
        if report := self.exit_report(0.0):
            raise PeerDied(f"the Holodeck engine ended: {report}", backend="holodeck", hint="start it again")

    def close(self) -> None:
        self.kill()  # as the original does: it has no other way to end
        self.stop()

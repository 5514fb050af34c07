"""What a client knows of a Holodeck engine's process: whether it lives."""

from __future__ import annotations

import subprocess
import tempfile
from abc import ABC, abstractmethod

from lucky_transport.config import environment
from lucky_transport.deadline import Deadline
from lucky_transport.errors import NotReachable, PeerDied
from lucky_transport_holodeck.names import Names
from lucky_transport_holodeck.peer_lookup import find_peer
from lucky_transport_holodeck.scenario import Scenario
from lucky_transport_holodeck.semaphores import Semaphore, unlink
from lucky_transport_holodeck.world_options import WorldOptions

__all__ = ["AttachedEngine", "EngineLink", "StartedEngine"]

_SLICE_S = 0.05
_OUTPUT_TAIL = 2000


class EngineLink(ABC):
    """The engine's process. `ends_with_us`: True when `close` ends it."""

    ends_with_us: bool

    @property
    @abstractmethod
    def is_alive(self) -> bool:
        """False once the engine is known to be dead."""

    @abstractmethod
    def check(self) -> None:
        """Raise PeerDied once the engine is known to be dead."""

    @abstractmethod
    def close(self) -> None:
        """Let go of it, or end it; idempotent."""


class AttachedEngine(EngineLink):
    """An engine that was running before. Where its process cannot be seen, only deadlines end a wait for it."""

    ends_with_us = False

    def __init__(self, names: Names) -> None:
        self._peer = find_peer(Names.file_of(names.server))

    @property
    def is_alive(self) -> bool:
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


class StartedEngine(EngineLink):
    """An engine that we start. Raises NotReachable when it ends or stays silent before it is there."""

    ends_with_us = True

    def __init__(self, names: Names, scenario: Scenario, options: WorldOptions, start_timeout_s: float) -> None:
        width, height = scenario.window
        unlink(names.loading)
        loading = Semaphore.create(names.loading, 0, "block")
        self._output = tempfile.TemporaryFile()  # noqa: SIM115 - lives as long as the process
        try:
            self._process = subprocess.Popen(
                [
                    *(options.binary, scenario.world, "-HolodeckOn", "-opengl4", "-LOG=HolodeckLog.txt", "-ForceRes"),
                    *(f"-ResX={width}", f"-ResY={height}", f"--HolodeckUUID={names.uuid}"),
                    f"-TicksPerSec={options.ticks_per_second}",
                ],
                stdin=subprocess.DEVNULL,
                stdout=self._output,
                stderr=subprocess.STDOUT,
                env=environment(),
                start_new_session=True,  # Ctrl-C belongs to us; we end the child in order
            )
        except OSError as error:
            self._output.close()
            raise NotReachable(
                f"the Holodeck engine {options.binary} cannot be started: {error}", backend="holodeck"
            ) from error
        else:
            self._await(loading, Deadline(start_timeout_s))
        finally:
            unlink(names.loading)
            loading.close()

    def _await(self, loading: Semaphore, deadline: Deadline) -> None:
        while not loading.wait(min(deadline.remaining_s, _SLICE_S)):
            ended = self._process.poll() is not None
            if ended or deadline.expired:
                why = f"ended: {self._exit_report()}" if ended else f"was not there within {deadline.timeout_s} s"
                self.close()
                raise NotReachable(
                    f"the Holodeck engine {why}", backend="holodeck", hint="raise start_timeout_s, or run it by hand"
                )

    @property
    def is_alive(self) -> bool:
        return self._process.poll() is None

    def check(self) -> None:
        if self._process.poll() is not None:
            raise PeerDied(
                f"the Holodeck engine ended: {self._exit_report()}", backend="holodeck", hint="start it again"
            )

    def _exit_report(self) -> str:
        self._output.seek(0)
        output = self._output.read()[-_OUTPUT_TAIL:].decode(errors="replace").strip()
        return f"exit status {self._process.returncode}" + (f"\n  {output}" if output else "")

    def close(self) -> None:
        if self._process.poll() is None:
            self._process.kill()  # as the original does: it has no other way to end
            self._process.wait()
        self._output.close()

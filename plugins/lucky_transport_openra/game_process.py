"""The real engine's process: how it is started, its health, its end. What it wrote last is part of each error of it."""

from __future__ import annotations

import logging
import socket
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from lucky_transport.config import environment
from lucky_transport.deadline import Deadline
from lucky_transport.endpoint import Endpoint
from lucky_transport.errors import NotReachable, PeerDied, PeerTimeout
from lucky_transport.process import ChildProcess

_log = logging.getLogger("lucky_transport")
_LOOK_S = 0.05
_MOST_FAILURES = 3


@dataclass(frozen=True, slots=True)
class GameLaunch:
    """How to start the real engine.

    openra_path: the folder with bin/OpenRA.dll. port: where its bridge listens. is_multi_session: many sessions in one
    process (the newer generation), else one game on `map_name` against `bots`. records_replays: it writes a .orarep of
    every game. replay: a .orarep to show instead of a game. command: what comes before its arguments ("dotnet" and the
    path of its program, unless given). arguments: more of them, "Key=value".
    """

    openra_path: str
    port: int = 9999
    mod: str = "ra"
    is_multi_session: bool = True
    map_name: str = ""
    bots: str = ""
    records_replays: bool = False
    replay: str = ""
    command: Sequence[str] = ()
    arguments: Mapping[str, str] = field(default_factory=dict[str, str])

    def command_line(self) -> list[str]:
        """Return the process's command line."""
        settings = {"Engine.EngineDir": self.openra_path, "Game.Mod": self.mod, "Game.Platform": "Null"}
        if self.replay:
            settings["Launch.Replay"] = self.replay
        elif self.is_multi_session:
            settings["Launch.MultiSession"] = str(self.port)
        else:
            settings |= {"Launch.Map": self.map_name, "Launch.Bots": self.bots}
        if self.records_replays:
            settings["Server.RecordReplays"] = "True"
        program = self.command or ("dotnet", str(Path(self.openra_path) / "bin" / "OpenRA.dll"))
        return [*program, *(f"{key}={value}" for key, value in {**settings, **self.arguments}.items())]

    def environ(self) -> dict[str, str]:
        """Return the process's environment: ours, and where its bridge is to listen."""
        return {**environment(), "RL_GRPC_PORT": str(self.port)}

    @property
    def endpoint(self) -> Endpoint:
        """Where its bridge listens."""
        return Endpoint("openra", f"127.0.0.1:{self.port}")


class GameProcess(ChildProcess):
    """A running engine. Raises NotReachable."""

    def __init__(self, launch: GameLaunch) -> None:
        super().__init__("openra", launch.command_line(), environ=launch.environ(), cwd=launch.openra_path)
        self._port = launch.port

    def await_serving(self, deadline: Deadline) -> None:
        """Return once the bridge accepts connections. Raises NotReachable with its last words."""
        late = f"it has to serve port {self._port}; raise start_timeout_s (LUCKY_START_TIMEOUT_S)"
        self.await_ready(self._accepts, deadline, late=late)

    def await_end(self, deadline: Deadline) -> None:
        """Return once it has ended by itself. Raises PeerDied when it failed, PeerTimeout."""
        while self.is_alive:
            if deadline.expired:
                raise PeerTimeout(
                    f"the engine did not end within {deadline.timeout_s:g} s",
                    backend="openra",
                    hint="raise the timeout",
                )
            time.sleep(min(_LOOK_S, deadline.remaining_s))
        if self._process.returncode:
            raise PeerDied(f"the engine failed: {self.exit_report()}", backend="openra")

    def _accepts(self, within_s: float) -> bool:
        try:
            socket.create_connection(("127.0.0.1", self._port), timeout=1.0).close()
        except OSError:
            time.sleep(within_s)
            return False
        return True


class Supervisor:
    """Keeps an engine running: it is started when it is needed, and started again when it has died.

    Each start counts as a failure until `note_success`. An engine that failed three times in a row is given up: it is
    not started any more.
    """

    def __init__(self, launch: GameLaunch) -> None:
        self._launch = launch
        self._failures = 0
        self._process: GameProcess | None = None

    @property
    def pid(self) -> int:
        """The running process, 0 when none runs."""
        process = self._process
        return process.pid if process is not None and process.is_alive else 0

    def ensure(self) -> GameProcess:
        """Return the running process, a new one where none runs.

        Raises NotReachable when it is given up, cannot be started or when another program has the port.
        """
        if self._process is not None and self._process.is_alive:
            return self._process
        words = self.exit_report()
        self.stop()
        if self._failures >= _MOST_FAILURES:
            raise NotReachable(
                f"openra failed {self._failures} times in a row, last with {words or 'no process'}",
                backend="openra",
                hint="mend it, then start anew",
            )
        if words:
            _log.warning("openra ended with %s; it is started again", words)
        self._failures += 1
        _check_free(self._launch.port)
        self._process = GameProcess(self._launch)
        return self._process

    def note_success(self) -> None:
        """The engine does what it should: earlier failures are forgotten."""
        self._failures = 0

    def exit_report(self) -> str:
        """Return how the process ended and what it wrote last; "" while it runs. It may take a moment to end."""
        return "" if self._process is None else self._process.exit_report()

    def stop(self) -> None:
        """End the process; idempotent."""
        process, self._process = self._process, None
        if process is not None:
            process.stop()


def _check_free(port: int) -> None:
    """Raise NotReachable when another program listens at the port: it would be taken for the engine."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError as error:
            raise NotReachable(
                f"port {port} is taken: {error}", backend="openra", hint="choose another port"
            ) from error

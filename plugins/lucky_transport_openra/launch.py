"""How the real engine is started: its command line and environment.

Names and spelling of arguments are the engine's own; what is not here can be added by `arguments`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from lucky_transport.config import environment
from lucky_transport.endpoint import Endpoint

__all__ = ["GameLaunch"]


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

"""`import lucky_transport.auto`, as the first line of a program: its gRPC channels go where the settings say.

The way in for programs that `lucky-transport run` cannot reach: frozen ones, and those started with -I or -E. The
processes it starts are switched too. It takes `LUCKY_TRANSPORT`, `LUCKY_ENDPOINT` and `LUCKY_GRPC_MAP`, or the settings
of `lucky_transport.toml`; without any of them it raises ConfigError, so that nothing stays on gRPC in silence.

Rule 1: which libraries can be switched is the plugins' business; this file knows none of them.
"""

from __future__ import annotations

from lucky_transport.registry import load, registry

__all__: list[str] = []

for _info in registry().switches.values():
    load(_info.activate, owner=f"switch {_info.name!r}", extra=_info.extra)()

"""`import lucky_transport.auto`, as the first line of a program: its gRPC channels go where the settings say.

Use it for programs that `lucky-transport run` cannot reach: frozen ones, and those started with -I or -E. The processes
that the program starts are patched too. It reads `LUCKY_TRANSPORT`, `LUCKY_ENDPOINT` and `LUCKY_GRPC_MAP`, or the
settings of `lucky_transport.toml`; without any of them it raises ConfigError, so that nothing stays on gRPC unnoticed.
"""

from __future__ import annotations

from lucky_transport.registry import load, registry

for _info in registry().patches.values():
    load(_info.activate, owner=f"patch {_info.name!r}", extra=_info.extra)()

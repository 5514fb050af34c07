"""One place where a code base still depends on gRPC.

    import      a gRPC module, generated stubs, or a package that is made of them
    channel     makes a channel, or names where one leads
    stub        makes a client of a service
    server      makes a server, or binds a port
    servicer    implements a service, or adds it to a server
    dependency  asks an installer for gRPC
    build       generates code from .proto files, opens gRPC's port, sets gRPC as the transport

The kinds and the keys of `plain` are fixed; scripts are written against them.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, Literal

__all__ = ["DOORS", "KINDS", "Finding", "Kind"]

Kind = Literal["import", "channel", "stub", "server", "servicer", "dependency", "build"]

KINDS: tuple[Kind, ...] = ("import", "channel", "stub", "server", "servicer", "dependency", "build")

#: What a door is called where there is room for a few words.
DOORS = {1: "unchanged, or a drop-in", 2: "typed calls: connect()", 3: "the env: make()"}


@dataclass(frozen=True, slots=True)
class Finding:
    """What was found: `symbol` at `line` (from 1) of `path` (relative to the scanned folder, with slashes).

    door: which of the three doors fits it. why: the reason for that door, one sentence.
    """

    path: str
    line: int
    kind: Kind
    symbol: str
    door: int
    why: str

    @property
    def where(self) -> str:
        """The place as editors and terminals know it."""
        return f"{self.path}:{self.line}"

    def plain(self) -> dict[str, Any]:
        """Return the finding as JSON values."""
        return asdict(self)

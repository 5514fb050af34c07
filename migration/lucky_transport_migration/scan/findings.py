"""What a scan finds, one place at a time and as a whole: for the table, for JSON, for the exit code."""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict, dataclass, field
from typing import Any, Literal, get_args

from lucky_transport.errors import plural
from lucky_transport_migration.scan.known import is_stub_module

# The kinds and the keys of `plain` are fixed; scripts are written against them.

#: import: a gRPC module, generated stubs, or a package that is made of them. channel: makes a channel, or names where
#: one leads. stub: makes a client of a service. server: makes a server, or binds a port. servicer: implements a
#: service, or adds it to a server. interceptor: derives from one of gRPC's. dependency: asks an installer for gRPC.
#: build: generates code from .proto files, opens gRPC's port, sets gRPC as the transport.
Kind = Literal["import", "channel", "stub", "server", "servicer", "interceptor", "dependency", "build"]

KINDS: tuple[Kind, ...] = get_args(Kind)

#: What an API level is called where there is room for a few words.
LEVELS = {1: "unchanged, or a drop-in", 2: "typed calls: connect()", 3: "the env: make()"}


@dataclass(frozen=True, slots=True, order=True)
class GrpcUse:
    """Something of gRPC in a file, before it is judged."""

    line: int
    kind: Kind
    symbol: str


@dataclass(frozen=True, slots=True)
class Finding:
    """What was found: `symbol` at `line` (from 1) of `path` (relative to the scanned folder, with slashes).

    level: which of the three API levels fits it. why: the reason for that level, one sentence. wire: calls go over
    gRPC's wire there; everything else needs gRPC's package alone.
    """

    path: str
    line: int
    kind: Kind
    symbol: str
    level: int
    why: str
    wire: bool = False

    @property
    def where(self) -> str:
        """The place as editors and terminals know it."""
        return f"{self.path}:{self.line}"

    def plain(self) -> dict[str, Any]:
        """Return the finding as JSON values."""
        return asdict(self)


_PLURALS = {"dependency": "dependencies", "build": "build steps", "channel": "channels and targets"}


@dataclass(frozen=True, slots=True, order=True)
class Unmoved:
    """A use of a package that has a gRPC of its own in its wheel: no step of a migration reaches it."""

    path: str
    line: int
    symbol: str
    why: str

    def plain(self) -> dict[str, Any]:
        """Return it as JSON values."""
        return asdict(self)


@dataclass(frozen=True, slots=True)
class Unread:
    """A file that may hold gRPC and could not be understood; line: where it broke off."""

    path: str
    line: int
    why: str

    def plain(self) -> dict[str, Any]:
        """Return it as JSON values."""
        return asdict(self)


@dataclass
class ScanResult:
    """findings: sorted by path and line. generated: paths of generated code. files: how many were looked at.

    unmoved: what stays on gRPC whatever is done; it counts neither as left nor as on the wire.
    foreign: names of services that mean another service here than the engine's.
    """

    root: str
    files: int = 0
    findings: list[Finding] = field(default_factory=list[Finding])
    generated: list[str] = field(default_factory=list[str])
    unread: list[Unread] = field(default_factory=list[Unread])
    unmoved: list[Unmoved] = field(default_factory=list[Unmoved])
    foreign: frozenset[str] = frozenset()

    def add(self, other: ScanResult) -> None:
        """Take in what was found elsewhere below the same root."""
        self.files += other.files
        self.findings += other.findings
        self.generated += other.generated
        self.unread += other.unread
        self.unmoved += other.unmoved

    @property
    def generated_stubs(self) -> list[str]:
        """The generated files that import gRPC; the others are messages of Protobuf."""
        return [path for path in self.generated if is_stub_module(path.rpartition("/")[2].partition(".")[0])]

    @property
    def nothing_left(self) -> bool:
        """True when the scan proves that nothing of gRPC is left."""
        return not (self.findings or self.generated_stubs or self.unread)

    @property
    def on_wire(self) -> int:
        """How many places go over gRPC's wire."""
        return sum(one.wire for one in self.findings)

    @property
    def nothing_on_wire(self) -> bool:
        """True when the scan proves that no place goes over gRPC's wire; its package may still be needed."""
        return not (self.on_wire or self.unread)

    @property
    def sentence(self) -> str:
        """The result as one sentence."""
        if self.nothing_left:
            return f"Nothing of gRPC is left in {plural(self.files, 'file')}."
        parts = [self._of_findings()] if self.findings else []
        if self.generated:
            stubs = f" ({len(self.generated_stubs):,} with stubs)" if self.generated_stubs else ""
            parts.append(f"{plural(len(self.generated), 'generated file')}{stubs}")
        if self.unread:
            parts.append(f"{plural(len(self.unread), 'file')} not understood")
        return f"Left of gRPC: {'; '.join(parts)}."

    def _of_findings(self) -> str:
        kinds = Counter(one.kind for one in self.findings)
        listed = ", ".join(
            f"{kinds[kind]:,} {_PLURALS.get(kind, f'{kind}s') if kinds[kind] > 1 else _singular(kind)}"
            for kind in KINDS
            if kinds[kind]
        )
        levels = Counter(one.level for one in self.findings)
        through = ", ".join(f"{levels[level]:,} at level {level}" for level in sorted(levels))
        places = plural(len(self.findings), "place")
        files = plural(len({one.path for one in self.findings}), "file")
        parts = f"{self.on_wire:,} on its wire and {len(self.findings) - self.on_wire:,} that need its package"
        return f"{places} in {files}, {parts} ({listed}); {through}"

    def plain(self) -> dict[str, Any]:
        """Return the result as JSON values."""
        return {
            "root": self.root,
            "files": self.files,
            "nothing_left": self.nothing_left,
            "nothing_on_wire": self.nothing_on_wire,
            "summary": self.sentence,
            "findings": [one.plain() for one in self.findings],
            "generated": {"files": len(self.generated), "stubs": len(self.generated_stubs), "paths": self.generated},
            "unread": [one.plain() for one in self.unread],
            "unmoved": [one.plain() for one in self.unmoved],
        }


def _singular(kind: str) -> str:
    return {"build": "build step", "channel": "channel or target"}.get(kind, kind)

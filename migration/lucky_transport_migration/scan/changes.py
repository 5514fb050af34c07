"""All rewrites of a code base: worked out first, shown, then written. What a rewrite would leave is Python that
compiles, or it is not offered; the same rewrites again change nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from difflib import unified_diff
from functools import partial
from pathlib import Path
from typing import Any

from libcst.codemod import CodemodContext

from lucky_transport.errors import TransportError
from lucky_transport_migration.atomic_write import write_atomically
from lucky_transport_migration.scan.codemod import EngineCodemod
from lucky_transport_migration.scan.drop_ins import rewrite_channels, rewrite_servers
from lucky_transport_migration.scan.findings import ScanResult
from lucky_transport_migration.scan.known import LUCKYROBOTS
from lucky_transport_migration.scan.luckyrobots import rewrite_clients, rewrite_envs
from lucky_transport_migration.scan.requirements import rewrite_requirements, rewrite_stages, unneeded
from lucky_transport_migration.scan.scanner import files_of, is_python, name_in, scan_again
from lucky_transport_migration.scan.source import Unreadable, check_syntax, parse
from lucky_transport_migration.scan.targets import Targets

__all__ = ["Change", "Changes", "Refusal", "plan_changes", "rewrite_python", "write_changes"]

_RULES = (rewrite_channels, rewrite_servers, rewrite_envs, rewrite_clients)


@dataclass(frozen=True, slots=True)
class Change:
    """What a file holds, and what it would hold."""

    path: Path
    name: str
    before: bytes
    after: bytes

    def diff(self) -> str:
        """Return the change as a unified diff."""
        old, new = (text.decode("utf-8", "replace").splitlines() for text in (self.before, self.after))
        return "\n".join(unified_diff(old, new, f"a/{self.name}", f"b/{self.name}", lineterm=""))


@dataclass(frozen=True, slots=True)
class Refusal:
    """A place that no rule rewrites, and why."""

    path: str
    line: int
    why: str


@dataclass
class Changes:
    """files: what would change. refusals: what is left to a person. after: what a scan would find then."""

    files: list[Change]
    after: ScanResult
    refusals: list[Refusal] = field(default_factory=list[Refusal])

    def plain(self) -> dict[str, Any]:
        """Return the rewrites as JSON values."""
        return {
            "changed": [{"path": one.name, "diff": one.diff()} for one in self.files],
            "refused": [asdict(one) for one in self.refusals],
        }


def plan_changes(root: Path, result: ScanResult, endpoint: str | None, targets: Sequence[str] = ()) -> Changes:
    """Return the rewrites of what a scan of `root` found; nothing is written.

    endpoint: where the channels, envs and clients are to lead; None: where the configuration says when they are made.
    targets: those of gRPC that are the engine's, beside port 50051 of this host.
    """
    paths = {name_in(root, path): path for path in files_of(root)}
    of_rules = {one.path for one in result.findings if one.kind in ("channel", "server") or LUCKYROBOTS in one.symbol}
    with_findings = [name for name in dict.fromkeys(one.path for one in result.findings) if name in paths]
    files: list[Change] = []
    refusals: list[Refusal] = []
    for name in with_findings:
        before = paths[name].read_bytes()
        if paths[name].is_symlink():
            refusals.append(Refusal(name, 1, "a link: scan what it leads to"))
        elif name in of_rules and is_python(name, before):
            after, refused = rewrite_python(before, endpoint, targets)
            files += _change(paths[name], name, before, after)
            refusals += [Refusal(name, line, why) for line, why in refused]
    code = scan_again(result, {one.name: one.after for one in files})
    is_unneeded = unneeded(code)
    for name in with_findings:
        before = paths[name].read_bytes()
        if not paths[name].is_symlink():
            after = rewrite_stages(name, rewrite_requirements(name, before, is_unneeded))
            files += _change(paths[name], name, before, after)
    return Changes(files, scan_again(result, {one.name: one.after for one in files}), refusals)


def rewrite_python(
    source: bytes, endpoint: str | None, targets: Sequence[str] = ()
) -> tuple[bytes, list[tuple[int, str]]]:
    """Return Python source after all rules, and (line, why) of what they leave; what cannot be read stays as it is."""
    engine = Targets(targets)
    try:
        codemod = EngineCodemod(CodemodContext(), [partial(rule, endpoint=endpoint, targets=engine) for rule in _RULES])
        after = codemod.transform_module(parse(source)).bytes
        check_syntax(after)
    except Unreadable as error:
        return source, [(error.line, str(error))]
    return after, sorted(codemod.refused)


def _change(path: Path, name: str, before: bytes, after: bytes) -> Iterator[Change]:
    if before != after:
        yield Change(path, name, before, after)


def write_changes(changes: Changes, advance: Callable[[str], None] = lambda _: None) -> None:
    """Write all changed files. Raises TransportError when one cannot be written, or is no longer what was read."""
    for one in changes.files:
        try:
            if one.path.read_bytes() != one.before:
                raise TransportError(f"{one.name} was changed meanwhile", hint="scan again")
            write_atomically(one.path, one.after)
        except OSError as error:
            raise TransportError(
                f"{one.name} cannot be written: {error.strerror}", hint="check its permissions"
            ) from error
        advance(one.name)

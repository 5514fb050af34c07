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

from lucky_transport.atomic_write import write_atomically
from lucky_transport.config import Settings
from lucky_transport.errors import TransportError
from lucky_transport_migration.scan.codemod import EngineCodemod, parse_concrete
from lucky_transport_migration.scan.drop_ins import rewrite_drop_ins
from lucky_transport_migration.scan.findings import ScanResult
from lucky_transport_migration.scan.known import LUCKYROBOTS
from lucky_transport_migration.scan.luckyrobots import rewrite_clients, rewrite_envs
from lucky_transport_migration.scan.names import Unreadable, parse
from lucky_transport_migration.scan.requirements import rewrite_requirements, rewrite_stages, unneeded
from lucky_transport_migration.scan.scanner import files_of, is_python, name_in, naming, scan_again
from lucky_transport_migration.scan.targets import Targets

_RULES = (rewrite_drop_ins, rewrite_envs, rewrite_clients)


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


def plan_changes(
    root: Path,
    result: ScanResult,
    endpoint: str | None,
    targets: Sequence[str] = (),
    *,
    settings: Settings | None = None,
    advance: Callable[[str], None] = lambda _: None,
) -> Changes:
    """Return the rewrites of what a scan of `root` found; nothing is written.

    endpoint: where the channels, envs and clients are to lead; None: where the configuration says when they are made.
    targets: those of gRPC that are the engine's, beside port 50051 of this host: PATTERN, or PATTERN=ENDPOINT.
    settings: of their `grpc_map` and `grpc_serve` too.
    advance: is told the name of each file whose code was worked at.
    """
    paths = {name_in(root, path): path for path in files_of(root)}
    contents = {one.path: paths[one.path].read_bytes() for one in result.findings if one.path in paths}
    links = [name for name in contents if paths[name].is_symlink()]
    refusals = [Refusal(name, 1, "a link: scan what it leads to") for name in links]
    contents = {name: content for name, content in contents.items() if name not in links}
    code = [name for name in files_with_code(result) if name in contents and is_python(name, contents[name])]
    mapped, served = ((), ()) if settings is None else (settings.grpc_map.split(), settings.grpc_serve.split())
    files: list[Change] = []
    for name in code:
        with naming(name):
            after, refused = rewrite_python(contents[name], endpoint, targets, mapped, served)
        advance(name)
        files += _change(paths[name], name, contents[name], after)
        refusals += [Refusal(name, line, why) for line, why in refused]
    is_unneeded = unneeded(scan_again(result, {one.name: one.after for one in files}))
    for name, before in contents.items():
        after = rewrite_stages(name, rewrite_requirements(name, before, is_unneeded))
        files += _change(paths[name], name, before, after)
    refusals.sort(key=lambda one: (one.path, one.line))
    return Changes(files, scan_again(result, {one.name: one.after for one in files}), refusals)


def files_with_code(result: ScanResult) -> list[str]:
    """Return the names of the files that rules for Python may have something to do with."""
    found = [one for one in result.findings if one.kind in ("channel", "server") or LUCKYROBOTS in one.symbol]
    return list(dict.fromkeys(one.path for one in found))


def rewrite_python(
    source: bytes,
    endpoint: str | None,
    targets: Sequence[str] = (),
    mapped: Sequence[str] = (),
    served: Sequence[str] = (),
) -> tuple[bytes, list[tuple[int, str]]]:
    """Return Python source after all rules, and (line, why) of what they leave; what cannot be read stays as it is."""
    engine = Targets(endpoint, targets, mapped, served)
    try:
        codemod = EngineCodemod(CodemodContext(), [partial(rule, targets=engine) for rule in _RULES])
        after = codemod.transform_module(parse_concrete(source)).bytes
        parse(after)
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

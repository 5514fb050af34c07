"""What a suite of calls measures and what it says of that."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from lucky_transport_migration.bench.targets import SpeedTarget
from lucky_transport_migration.paths import label

__all__ = ["CallCell", "CallSuite"]


@dataclass(frozen=True, slots=True)
class CallCell:
    """One row's key. `kind`: what is measured, one of its suite's. `what`: in which of its forms, or ""."""

    kind: str
    path: str
    wait: str | None = None
    what: str = ""
    rate_hz: int | None = None

    def over(self, path: str, wait: str | None) -> CallCell:
        """Return the cell that differs in the way alone."""
        return replace(self, path=path, wait=wait)


@dataclass(frozen=True, slots=True)
class CallSuite:
    """What a suite says of itself.

    name: as `--suite` takes it. title: of its page. engine: what answers. titles: kind -> what its rows are called,
    with `{what}`. apart: kinds that no ratio compares. names: (kind, path) -> who is compared, where that is no way to
    an engine. ours: kind -> the path that is compared with the others there, where it is not the plan's reference.
    targets: what `--check` compares a result with. columns: what the rows of a cell say besides.
    """

    name: str
    title: str
    engine: str
    titles: Mapping[str, str]
    apart: frozenset[str] = frozenset()
    names: Mapping[tuple[str, str], str] = field(default_factory=dict[tuple[str, str], str])
    ours: Mapping[str, str] = field(default_factory=dict[str, str])
    targets: tuple[SpeedTarget, ...] = ()
    columns: Callable[[CallCell], dict[str, Any]] = lambda cell: {}

    def title_of(self, cell: CallCell) -> str:
        """Return what the cells of a group have in common: everything but the path and its way of waiting."""
        title = self.titles[cell.kind].format(what=cell.what)
        return f"{title}, {cell.rate_hz} a second" if cell.rate_hz else title

    def compares_ways(self, cell: CallCell) -> bool:
        """False where what is compared is not a way to an engine."""
        return (cell.kind, cell.path) not in self.names

    def name_of(self, cell: CallCell) -> str:
        """Return what a sentence calls this side of a comparison."""
        name = self.names.get((cell.kind, cell.path), label(cell.path))
        return f"{name} ({cell.wait})" if cell.wait else name

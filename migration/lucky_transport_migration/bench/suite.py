"""What a suite measures and what it says of that: cells, one a row of its result, and how they are compared.

A cell is a key: two measurements with equal cells may be put together, and nothing else may.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Generic, TypeVar

from lucky_transport_migration.bench.plan import Case, Plan
from lucky_transport_migration.bench.targets import SpeedTarget
from lucky_transport_migration.paths import label

__all__ = ["BYTES_CASES", "SIZES", "CallCases", "CallCell", "CallSuite", "Suite", "call_row"]

CellT = TypeVar("CellT")


@dataclass(frozen=True, slots=True, kw_only=True)
class Suite(Generic[CellT]):
    """What every suite says of itself.

    name: as `--suite` takes it. title: of its page. engine: what answers. targets: what `--check` compares a result
    with. cpu_key: under which name a row has the CPU time of one step.
    """

    name: str
    title: str
    engine: str
    targets: tuple[SpeedTarget, ...] = ()
    cpu_key: str = "cpu_us_each"

    def title_of(self, cell: CellT) -> str:
        """Return what the cells of a group have in common: everything but the path and its way of waiting."""
        raise NotImplementedError

    def kind_of(self, cell: Any) -> Any:
        """Return what the cells of a kind have in common: they differ in the way alone, and share an A/A floor."""
        return replace(cell, path="", wait=None)

    def name_of(self, cell: CellT, other: CellT | None = None) -> str:
        """Return what a sentence calls a cell that is compared with `other`."""
        raise NotImplementedError

    def pairs(self, cells: Iterable[CellT], plan: Plan) -> Iterator[tuple[CellT, CellT]]:
        """Yield what is compared: a cell of the reference and one that differs from it in the way alone."""
        raise NotImplementedError

    def is_main(self, cell: CellT, plan: Plan) -> bool:
        """True where the ratios of `cell` are between ways to an engine, in the strategy that stands for its path."""
        return True

    def columns(self, cell: CellT) -> dict[str, Any]:
        """Return what the row of a cell says besides its key and its times."""
        return {}

    def ratio_columns(self, other: CellT) -> dict[str, Any]:
        """Return what a ratio to `other` says besides."""
        return {}


@dataclass(frozen=True, slots=True)
class CallCell:
    """A row's key in a suite of calls. `kind`: what is measured, one of its suite's. `what`: in which of its forms."""

    kind: str
    path: str
    wait: str | None = None
    what: str = ""
    rate_hz: int | None = None


def call_row(kind: str, path: str, what: str = "", wait: str | None = "adaptive") -> dict[str, Any]:
    """Return what marks the row of a cell, flat out; `wait`: of shm."""
    return asdict(CallCell(kind, path, wait if path == "shm" else None, what))


@dataclass(frozen=True, slots=True)
class CallCases:
    """Cases of a suite of calls: one for each way of a plan, with `rows` of a kind, in a form, at a rate.

    in_each_wait: the kind of rows that is measured in each waiting strategy; the others keep both sides awake, so that
    waiting hardly matters. paths: only these. what: as in `Case`.
    """

    rows: Sequence[tuple[str, str, int | None]]
    what: str = ""
    in_each_wait: str = ""
    paths: Sequence[str] = ()

    def of(self, plan: Plan) -> Iterator[Case]:
        """Yield the cases of a plan."""
        for path in plan.paths:
            for wait in plan.waits_of(path) if path in (self.paths or plan.paths) else ():
                chosen = [one for one in self.rows if wait == plan.main_wait(path) or one[0] == self.in_each_wait]
                cells = tuple(CallCell(kind, path, wait, form, rate) for kind, form, rate in chosen)
                if cells:
                    yield Case(path, wait, cells, self.what)


#: Bytes of a message that goes there and back, by what a row calls them.
SIZES = {
    "1 kB": 1_000,
    "100 kB": 100_000,
    "200 kB": 200_000,
    "1 MB": 1_000_000,
    "8 MB": 8_000_000,
    "64 MB": 64_000_000,
}
BYTES_CASES = CallCases([("bytes", size, None) for size in SIZES], "sizes")


@dataclass(frozen=True, slots=True, kw_only=True)
class CallSuite(Suite[CallCell]):
    """A suite of calls, streams and the like.

    titles: kind -> what its rows are called, with `{what}`. names: (kind, path) -> who is compared, where that is no
    way to an engine. ours: kind -> the path that is compared with the others there, where it is not the plan's
    reference.
    """

    titles: Mapping[str, str]
    names: Mapping[tuple[str, str], str] = field(default_factory=dict[tuple[str, str], str])
    ours: Mapping[str, str] = field(default_factory=dict[str, str])

    def title_of(self, cell: CallCell) -> str:
        title = self.titles[cell.kind].format(what=cell.what)
        return f"{title}, {cell.rate_hz} a second" if cell.rate_hz else title

    def name_of(self, cell: CallCell, other: CallCell | None = None) -> str:
        name = self.names.get((cell.kind, cell.path), label(cell.path))
        return f"{name} ({cell.wait})" if cell.wait else name

    def pairs(self, cells: Iterable[CallCell], plan: Plan) -> Iterator[tuple[CallCell, CallCell]]:
        cells = list(cells)
        for cell in cells:
            if cell.path != self.ours.get(cell.kind, plan.reference):
                continue
            for other in cells:
                if other.path != cell.path and other == replace(cell, path=other.path, wait=None):
                    yield cell, other

    def is_main(self, cell: CallCell, plan: Plan) -> bool:
        return (cell.kind, cell.path) not in self.names and cell.wait == plan.main_wait(cell.path)

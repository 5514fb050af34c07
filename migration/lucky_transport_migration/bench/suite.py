"""What a suite measures and what it says of that: cells, one a row of its result, in cases, one a pair of processes.

A cell is a key: two measurements with equal cells may be put together, and nothing else may.

Cases of a round run in the order A B .. and in the next round .. B A, so that a machine that grows warm or busy
favours no variant. A target is a promise on rows of a result.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Literal, Self

from lucky_transport.errors import plural
from lucky_transport_migration.bench.measuring import QUICK, Effort
from lucky_transport_migration.paths import label
from lucky_transport_migration.stats import LEAST_ROUNDS

OPEN_LOOP_HZ = 50  # the rate at which the users of such engines step them
#: Bytes of a message that goes there and back.
SIZES = (1_000, 100_000, 200_000, 1_000_000, 8_000_000, 64_000_000)


@dataclass(frozen=True, slots=True)
class Cell:
    """A row's key. kind: what is measured, one of its suite's. what: in which of its forms. size: envs or bytes."""

    kind: str
    path: str
    wait: str | None = None
    what: str = ""
    size: int | None = None
    rate_hz: int | None = None

    @property
    def way(self) -> str:
        """What a report calls its path and its waiting strategy."""
        return f"{label(self.path)} ({self.wait})" if self.wait else label(self.path)


def marks(kind: str, path: str, what: str = "", size: int | None = None, **more: Any) -> dict[str, Any]:
    """Return what marks the row of a cell, flat out and of shm adaptive, but for `more`."""
    return asdict(Cell(kind, path, "adaptive" if path == "shm" else None, what, size)) | more


@dataclass(frozen=True, slots=True)
class Case:
    """What one fresh pair of processes measures: `cells`, a row each. Its text says so.

    what: of which kind or size it is, "" for the usual one of its suite. twin: the second measurement of an A/A pair.
    """

    path: str
    wait: str | None
    cells: tuple[Cell, ...]
    what: str = ""
    twin: bool = False

    def __str__(self) -> str:
        way = f"{self.path} {self.wait}" if self.wait else self.path
        return f"{way}, {self.what}" if self.what else way


@dataclass(frozen=True, kw_only=True)
class Plan:
    """What the command line asked for. `options` go to what answers.

    engine, num_envs, rates, frames: of steps; bytes of a frame. ours: the path that all others are compared with, where
    that is not shm.
    """

    paths: tuple[str, ...]
    waits: tuple[str, ...]
    options: dict[str, Any]
    rounds: int
    effort: Effort
    engine: str = ""
    num_envs: tuple[int, ...] = ()
    rates: tuple[int, ...] = ()
    frames: tuple[int, ...] = ()
    ours: str = ""

    @property
    def reference(self) -> str:
        """The path that all others are compared with."""
        return self.ours or ("shm" if "shm" in self.paths else self.paths[0])

    @classmethod
    def of(
        cls,
        paths: Sequence[str],
        waits: Sequence[str],
        options: Mapping[str, Any],
        *,
        rounds: int,
        quick: bool,
        budget_s: float = Effort.budget_s,
        **more: Any,
    ) -> Self:
        """Return a plan, a quick one with one round of short loops."""
        effort = QUICK if quick else Effort(budget_s=budget_s)
        rounds = 1 if quick else rounds
        return cls(paths=tuple(paths), waits=tuple(waits), options=dict(options), rounds=rounds, effort=effort, **more)

    def with_twins(self, cases: Iterable[Case]) -> list[Case]:
        """Return the cases, and behind them those of the reference in its main wait once more.

        So each kind of row has its A/A pair; where the rounds are too few for a verdict, the first alone.
        """
        once, path = list(cases), self.reference
        ours = [one for one in once if one.path == path and one.wait == self.main_wait(path)]
        again = ours if self.rounds >= LEAST_ROUNDS else ours[:1]
        return [*once, *(replace(one, twin=True) for one in again)]

    def main_wait(self, path: str) -> str | None:
        """The waiting strategy that stands for `path` in comparisons: adaptive where it was asked for."""
        if path != "shm":
            return None
        return "adaptive" if "adaptive" in self.waits else self.waits[0]

    def waits_of(self, path: str) -> tuple[str | None, ...]:
        """The waiting strategies in which `path` is measured."""
        return self.waits if path == "shm" else (None,)

    def order(self, cases: Sequence[Case], round_index: int) -> list[Case]:
        """Return a round's order: A B .. in even rounds, .. B A in odd ones."""
        return list(cases) if round_index % 2 == 0 else list(reversed(cases))


#: Rows of a kind in a case: kind, form, size, rate.
Rows = Sequence[tuple[str, str, int | None, int | None]]
BYTES: Rows = [("bytes", "", size, None) for size in SIZES]


def call_cases(
    plan: Plan, rows: Rows, what: str = "", *, in_each_wait: str = "", paths: Sequence[str] | None = None
) -> Iterator[Case]:
    """Yield the cases of a suite of calls: one for each way of a plan, or of these paths, with `rows`.

    in_each_wait: the kind of rows that is measured in each waiting strategy; the others keep both sides awake, so that
    waiting hardly matters. what: as in `Case`.
    """
    for path in plan.paths:
        for wait in plan.waits_of(path) if paths is None or path in paths else ():
            chosen = [row for row in rows if wait == plan.main_wait(path) or row[0] == in_each_wait]
            cells = tuple(Cell(kind, path, wait, form, size, rate) for kind, form, size, rate in chosen)
            if cells:
                yield Case(path, wait, cells, what)


def envs_text(num_envs: int) -> str:
    """Return "1 env" or "4,096 envs"."""
    return plural(num_envs, "env")


def decimal_text(size: int) -> str:
    """Return a number of bytes as 1 kB or 64 MB."""
    return f"{size // 10**6} MB" if size >= 10**6 else f"{size // 1000} kB"


Result = Mapping[str, Any]
#: What marks a row of a result: its values under these keys.
Marks = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class SpeedTarget:
    """One promise: what `numerator` holds over what `denominator` does, of times in "µs" their difference.

    It reads the bench's result and nothing else; what was not measured is "NOT MEASURED", never "PASS". No test asserts
    one, since a busy machine may miss it honestly.

    A numerator is a row or a number. column: the figure of a row, dotted; of several values under it their sum.
    options: what the run must have been asked for.
    """

    name: str
    sense: Literal["at least", "at most"]
    goal: float
    unit: str
    numerator: Marks | float
    denominator: Marks | None = None
    column: str = "us.p50"
    options: Marks = field(default_factory=dict[str, Any])

    def measured(self, result: Result) -> float | None:
        """Return the figure, None where the result does not hold what that needs."""
        if any(result["options"].get(key) != value for key, value in self.options.items()):
            return None
        over = _figure(result, self.numerator, self.column) if isinstance(self.numerator, Mapping) else self.numerator
        if self.denominator is None or over is None:
            return over
        under = _figure(result, self.denominator, self.column)
        if not under:
            return None
        return over - under if self.unit == "µs" else over / under


def _figure(result: Result, marks: Marks, column: str) -> float | None:
    """Return the figure of the first row with these marks."""
    for row in result["rows"]:
        if all(row.get(key) == value for key, value in marks.items()):
            found: Any = row
            for key in column.split("."):
                found = found.get(key)
                if found is None:
                    return None
            parts = list(found.values()) if isinstance(found, Mapping) else [found]
            return None if None in parts else float(sum(parts))
    return None


def check_targets(result: Result, targets: Iterable[SpeedTarget]) -> list[dict[str, Any]]:
    """Return each target's outcome in `result` as JSON values.

    `word` is PASS, FAIL, NOT MEASURED, or NO VERDICT where the rounds were too few for one.
    """
    return [_check(target, result) for target in targets]


def _check(target: SpeedTarget, result: Result) -> dict[str, Any]:
    measured, goal = target.measured(result), target.goal
    if measured is None:
        word = "NOT MEASURED"
    elif result["rounds"] < LEAST_ROUNDS:
        word = "NO VERDICT"
    else:
        word = "PASS" if (measured >= goal if target.sense == "at least" else measured <= goal) else "FAIL"
    return {
        "name": target.name,
        "unit": target.unit,
        "sense": target.sense,
        "goal": goal,
        "measured": None if measured is None else round(measured, 3),
        "word": word,
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class BenchSuite:
    """What a suite says of itself.

    name: as `--suite` takes it. title: of its page. engine: what answers. titles: kind -> the title of its tables, with
    `{what}`. forms: what stands there. sizes: kind -> how a size is written. lead: kinds of which the first that was
    measured is read first; without one all are. more: kinds and forms that no table at a glance has.
    """

    name: str
    title: str
    engine: str
    titles: Mapping[str, str]
    forms: Mapping[str, str] = field(default_factory=dict[str, str])
    sizes: Mapping[str, Callable[[int], str]] = field(default_factory=dict[str, Callable[[int], str]])
    targets: tuple[SpeedTarget, ...] = ()
    lead: tuple[str, ...] = ()
    more: Container[str] = ()

    def place(self, cell: Cell) -> tuple[str, str]:
        """Return the table that a cell stands in at a glance, and its column: a size, or a rate at one size."""
        title = self.titles[cell.kind].format(what=self.forms.get(cell.what, cell.what))
        size = "" if cell.size is None else self.sizes.get(cell.kind, envs_text)(cell.size)
        if cell.rate_hz:
            return (f"{title}, {size}" if size else title), f"{cell.rate_hz} a second"
        return title, size or "flat out"

    def title_of(self, cell: Cell) -> str:
        """Return what the cells of a kind have in common: everything but the way."""
        table, column = self.place(cell)
        return table if column == "flat out" else f"{table}, {column}"

    def kind_of(self, cell: Cell) -> Cell:
        """Return what the cells of a kind have in common: they differ in the way alone, and share an A/A floor."""
        return replace(cell, path="", wait=None)

    def pairs(self, cells: Iterable[Cell], plan: Plan) -> Iterator[tuple[Cell, Cell]]:
        """Yield what is compared: the reference's cell of a kind in its main wait, and each other of that kind."""
        cells = list(cells)
        for cell in cells:
            if (cell.path, cell.wait) == (plan.reference, plan.main_wait(plan.reference)):
                for other in cells:
                    if other != cell and self.kind_of(other) == self.kind_of(cell):
                        yield cell, other

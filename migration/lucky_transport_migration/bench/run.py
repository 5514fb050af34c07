"""A suite ready to run: rounds of cases, as one JSON-able result.

What could not be measured is a note, never a silent gap. A ratio is that of the reference's cell and one that differs
in the way alone. What is decided is whether a switch from gRPC pays; the machine's limits are told apart from it.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from itertools import chain
from typing import Any

from lucky_transport.deadline import Deadline
from lucky_transport.errors import RemoteProtocolError, TransportError, plural
from lucky_transport_migration.bench import environment
from lucky_transport_migration.bench.rows import Measured, p50s_us, row_of, typical_us
from lucky_transport_migration.bench.suite import BenchSuite, Case, Cell, Plan
from lucky_transport_migration.paths import label
from lucky_transport_migration.stats import (
    LEAST_ROUNDS,
    Interval,
    Overall,
    Word,
    compare,
    floor_of,
    floor_sentence,
    looked_at,
    overall,
    ratio,
)
from lucky_transport_migration.table import INCONCLUSIVE
from lucky_transport_migration.units import times_text

Cells = Mapping[Cell, Sequence[Measured]]
_Round = list[tuple[Case, Mapping[Cell, Measured]]]

#: The A/A ratio from which on a run is inconclusive.
MOST_NOISE = 1.5
#: A process rests where its threads use less than this share of a CPU for so long; awaited at most so long.
_REST_SHARE, _LOOK_S, _REST_S = 0.1, 0.02, 2.0


@dataclass
class Results:
    """All measurements, by cell, one per round; `twins` are the second halves of A/A pairs."""

    cells: dict[Cell, list[Measured]] = field(default_factory=dict[Cell, list[Measured]])
    twins: dict[Cell, list[Measured]] = field(default_factory=dict[Cell, list[Measured]])

    def add(self, case: Case, found: Mapping[Cell, Measured]) -> None:
        """Add what a case measured in one round."""
        table = self.twins if case.twin else self.cells
        for cell, measured in found.items():
            table.setdefault(cell, []).append(measured)


@dataclass(frozen=True, slots=True)
class PreparedSuite:
    """The cases of each round, what measures one of them, what a reader must know besides.

    `measure` may add to `notes` what it could not measure. rounds_of: what a round is made of.
    """

    suite: BenchSuite
    plan: Plan
    cases: Sequence[Case]
    measure: Callable[[Case], Mapping[Cell, Measured]]
    notes: Sequence[str] = ()
    rounds_of: str = "fresh process pairs"

    @property
    def pieces(self) -> int:
        """How many times `run` calls `advance`."""
        return self.plan.rounds * len(self.cases)

    def run(self, command: str, advance: Callable[..., None] = lambda text="": None) -> dict[str, Any]:
        """Return the result as JSON values; `advance` is called with a text after each piece of work.

        A round that the machine disturbed is measured once more, where there are rounds enough for a verdict. A run
        that Ctrl-C or a failing process stops gives the result of its whole rounds, in the first round of what was
        measured by then, and says so in "stopped". Where nothing was, it raises that, and at any time
        RemoteProtocolError: a wrong answer is no result.
        """
        load, stopped = os.getloadavg()[0], ""
        again: list[str] = []
        rounds: list[_Round] = []
        found: _Round = []
        try:
            for index in range(self.plan.rounds):
                found = []
                self._round(index, found, advance)
                noise = self._noise(found)
                if noise > MOST_NOISE and self.plan.rounds >= LEAST_ROUNDS:
                    again.append(f"round {index + 1} was measured again: its A/A pair differed {noise:.1f} times")
                    found = []
                    self._round(index, found, lambda text: None)
                rounds.append(found)
        except (KeyboardInterrupt, TransportError) as error:
            if not (rounds or found) or isinstance(error, RemoteProtocolError):
                raise
            when = f"after {len(rounds)} of {plural(self.plan.rounds, 'round')}, which are what is shown"
            if not rounds:
                when = f"in the first round, of which {len(found)} of {plural(len(self.cases), 'pair')} are shown"
                rounds.append(found)
            stopped = f"stopped {when}: {str(error) or 'interrupted'}"
        results = Results()
        for case, measured in chain(*rounds):
            results.add(case, measured)
        notes = [*([stopped] if stopped else ()), *again, *self.notes]
        whole = replace(self, plan=replace(self.plan, rounds=len(rounds)), notes=notes)
        result = whole.result_of(results, command, load)
        return result | {"stopped": stopped} if stopped else result

    def _round(self, index: int, found: _Round, advance: Callable[..., None]) -> None:
        for case in self.plan.order(self.cases, index):
            _await_rest()
            found.append((case, self.measure(case)))
            advance(f"round {index + 1}: {case}")

    def _noise(self, found: _Round) -> float:
        """Return by what factor the first cell that a round measured twice differed from itself, 1 without one."""
        one_round = Results()
        for case, measured in sorted(found, key=lambda one: self.cases.index(one[0])):
            one_round.add(case, measured)
        for cell, (second,) in one_round.twins.items():
            for first in one_round.cells.get(cell, ()):
                times = typical_us(second) / typical_us(first)
                return max(times, 1 / times)
        return 1.0

    def result_of(self, results: Results, command: str, load: float) -> dict[str, Any]:
        """Return the result of these measurements; `load` is the machine's before the first of them."""
        suite, plan, cells, twins = self.suite, self.plan, results.cells, results.twins
        again = {cell: ratio(p50s_us(second), p50s_us(cells[cell])) for cell, second in twins.items() if cell in cells}
        known = {suite.kind_of(cell): round(floor_of(times), 4) for cell, times in again.items()}
        floor = noise_floor(suite, again, known)
        compared = ratios(suite, cells, plan, known)
        rows = list(self._rows(results, known, floor))
        decide = [one for one in compared if one["main"]]
        return {
            "version": 2,
            "suite": suite.name,
            "title": suite.title,
            "command": command,
            "engine": suite.engine,
            "options": plan.options,
            "rounds": plan.rounds,
            "rounds_of": self.rounds_of,
            "reference": plan.reference,
            "reference_wait": plan.main_wait(plan.reference),
            "environment": environment.capture(),
            "rows": rows,
            "ratios": compared,
            "verdict": verdict(plan.reference, decide, looked_at(rows), floor),
            "noise_floor": floor,
            "notes": [*_busy(load), *dict.fromkeys(self.notes), *_common_notes(rows, self.rounds_of)],
        }

    def _rows(
        self, results: Results, known: Mapping[Cell, float], floor: Mapping[str, Any] | None
    ) -> Iterator[dict[str, Any]]:
        """Yield a row a cell; behind the first that was measured twice (A/A) that of its second measurement."""
        suite, cells = self.suite, results.cells
        pairs = suite.pairs(cells, self.plan)
        times = {other: ratio(p50s_us(cells[other]), p50s_us(cells[one])).row()["ratio"] for one, other in pairs}
        ours = self.plan.reference, self.plan.main_wait(self.plan.reference)
        again = next((cell for cell in results.twins if cell in cells), None)
        for cell, rounds in cells.items():
            own = 1.0 if (cell.path, cell.wait) == ours else times.get(cell)
            yield row_of(suite, cell, rounds, known.get(suite.kind_of(cell)), own)
            if cell == again and floor is not None:
                row = row_of(suite, cell, results.twins[cell], known.get(suite.kind_of(cell)), floor["ratio"])
                yield row | {"again": True, "way": f"{row['way']}, again (A/A)"}


def noise_floor(
    suite: BenchSuite, again: Mapping[Cell, Interval], known: Mapping[Cell, float]
) -> dict[str, Any] | None:
    """Return the A/A ratio of the first cell of `again`, for all to see; None where nothing was measured twice.

    `known` are the floors of all kinds.
    """
    for cell, times in again.items():
        sentence = floor_sentence(cell.way, times, list(known.values()))
        return {"path": cell.path, **times.row(), "floor": known[suite.kind_of(cell)], "sentence": sentence}
    return None


def ratios(suite: BenchSuite, cells: Cells, plan: Plan, known: Mapping[Cell, float]) -> list[dict[str, Any]]:
    """Return one row per comparison, each with its interval, the A/A floor of its kind, word and sentence.

    `main` marks those between ways to an engine, `lead` those that are read first. A kind without an A/A pair is judged
    by the largest floor.
    """
    largest = max(known.values(), default=1.0)
    lead = [kind for kind in suite.lead if any(cell.kind == kind for cell in cells)][:1]
    usual = plan.engine or suite.engine, None
    found: list[dict[str, Any]] = []
    for cell, other in suite.pairs(cells, plan):
        interval, title = ratio(p50s_us(cells[other]), p50s_us(cells[cell])), suite.title_of(cell)
        noise = known.get(suite.kind_of(cell), largest)
        said = compare(cell.way, other.way, interval, noise)
        main = other.path not in (cell.path, "limit", "pipes")
        found.append(
            {
                **asdict(cell),
                "title": title,
                "of": cell.path,
                "to": other.path,
                "to_wait": other.wait,
                **interval.row(),
                "floor": noise,
                "rounds": interval.rounds,
                "word": said.word.value,
                "main": main,
                "lead": main and (not suite.lead or (cell.kind in lead and (cell.what, cell.rate_hz) == usual)),
                "sentence": f"{title}: {said.sentence}",
            }
        )
    return found


def verdict(
    reference: str,
    found: Sequence[Mapping[str, Any]],
    looked_at: Sequence[str],
    floor: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """Return the run's verdict on `reference`: word, sentence, and the sentences that go with it.

    found: the ratios that decide. `looked_at` says what was looked at while it was timed; floor: the A/A ratio, from
    which on nothing is concluded.
    """
    grpc = [one for one in found if one["to"].startswith("grpc")]
    name = label(reference)
    asked = grpc if grpc and not reference.startswith("grpc") else found
    words = [Word(one["word"]) for one in asked]
    main = overall(f"{name[:1].upper()}{name[1:]}", "gRPC" if asked is grpc else "the other transports", words)
    noise = 1.0 if floor is None else max(floor["ratio"], 1 / floor["ratio"])
    if noise > MOST_NOISE and main.word is not Overall.UNKNOWN:
        sentence = (
            f"The machine was too noisy: measured twice (A/A), {name} differed from itself by a factor of "
            f"{times_text(noise)}, more than {times_text(MOST_NOISE)}. Run it again where nothing else runs."
        )
        return {"word": INCONCLUSIVE, "sentence": sentence, "beside": [*looked_at]}
    return {"word": main.word.value, "sentence": main.sentence, "beside": [*looked_at]}


def _await_rest() -> None:
    """Return when this process rests: threads of a connection may end some time after the pair that it belonged to."""
    deadline = Deadline(_REST_S)
    while not deadline.expired:
        used = time.process_time_ns()
        time.sleep(_LOOK_S)
        if time.process_time_ns() - used < _LOOK_S * _REST_SHARE * 1e9:
            return


def _busy(load: float) -> list[str]:
    if load <= len(os.sched_getaffinity(0)) / 4:
        return []
    return [
        f"the machine was busy before the bench began (load {load:.1f}): tails and spinning rows are worse than it can "
        "do"
    ]


def _common_notes(rows: Sequence[Mapping[str, Any]], rounds_of: str) -> list[str]:
    notes = [
        f"p50 is the median over rounds of {rounds_of}; p99 and beyond come from all rounds' samples together",
    ]
    if any(row["rate_hz"] for row in rows):
        notes.append(
            "a loop at a rate sleeps between steps or calls and counts latency from when it is woken; one that waits "
            "for a slow one before it counts from when it was due"
        )
    if any("per_s" in row for row in rows):
        notes.append("a stream's time per item is its whole time over its items, the first tenth left out")
    return notes

"""Every release, acquire and fence of the step tables, taken out one by one."""

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from tests.model.explorer import Result, Scenario, explore
from tests.model.memory_models import MODELS
from tests.model.steps import If, Loop, Order, Process, Rows, Step, steps_of


@dataclass(frozen=True, slots=True)
class Mutation:
    """One order that is taken out of one line of the source. kept: why it is there though no run needs it."""

    at: str
    text: str
    taken: str
    kept: str

    def __str__(self) -> str:
        return f"{self.at}: {self.text.replace('{}', '...')}: no {self.taken}"

    def of(self, scenario: Scenario) -> Scenario:
        """Return the scenario with this order taken out wherever the line is."""
        processes = tuple(Process(p.name, self._rows(p.rows), p.registers) for p in scenario.processes)
        return replace(scenario, processes=processes)

    def _rows(self, rows: Rows) -> Rows:
        changed: Rows = []
        for row in rows:
            match row:
                case Step() if (row.at, row.text) == (self.at, self.text):
                    if row.kind != "fence":
                        changed.append(row.with_order(_without(row.order, self.taken)))
                case If(condition, then):
                    changed.append(If(condition, self._rows(then)))
                case Loop(body):
                    changed.append(Loop(self._rows(body)))
                case _:
                    changed.append(row)
        return changed


def _without(order: Order, taken: str) -> Order:
    if order is Order.ACQ_REL:
        return Order.ACQUIRE if taken == "release" else Order.RELEASE
    return Order.RELAXED


def mutations_of(scenarios: Iterable[Scenario]) -> list[Mutation]:
    """Return what can be taken out of the lines of the source that the scenarios have, each line once."""
    found: dict[Mutation, None] = {}
    for scenario in scenarios:
        for process in scenario.processes:
            for step in steps_of(process.rows):
                for taken in _orders(step):
                    found[Mutation(step.at, step.text, taken, step.kept)] = None
    return list(found)


def _orders(step: Step) -> Iterator[str]:
    if not step.text or step.kind not in ("load", "store", "exchange", "fence"):
        return
    if step.kind == "fence":
        yield "fence"
        return
    if step.order in (Order.ACQUIRE, Order.ACQ_REL):
        yield "acquire"
    if step.order in (Order.RELEASE, Order.ACQ_REL):
        yield "release"


@dataclass(frozen=True, slots=True)
class Finding:
    """What a mutation breaks: under which order, in which scenario, with what trace."""

    order: str
    scenario: str
    result: Result


def find(
    mutation: Mutation, scenarios: Sequence[Scenario], orders: Collection[str] = tuple(MODELS), *, first: bool = False
) -> tuple[list[Finding], int]:
    """Run the mutation wherever it can tell; return the shortest finding of each order, and the states.

    first: stop at the first finding.
    """
    found: list[Finding] = []
    states = 0
    affected = [scenario for scenario in scenarios if mutation in mutations_of([scenario])]
    for order, model in MODELS.items():
        if order not in orders or mutation.taken not in model.heeds:
            continue
        best: Finding | None = None
        for scenario in affected:
            result = explore(mutation.of(scenario), order)
            states += result.states
            if result.violation and (best is None or len(result.trace) < len(best.result.trace)):
                best = Finding(order, scenario.name, result)
                if first:
                    return [best], states
        if best is not None:
            found.append(best)
    return found, states

"""All interleavings of a scenario's processes under one memory model, breadth first, each state once.

Steps that commute with everything (registers, and what the model calls local) are done together with the step before.
A violation comes with the shortest trace of steps that leads to it.
"""

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from tests.model.memory_models import MODELS, Memory, Violation, Words
from tests.model.steps import Jump, Order, Process, Step, compile_rows, steps_of


@dataclass(frozen=True, slots=True)
class Scenario:
    """Processes over words of shared memory."""

    name: str
    processes: tuple[Process, ...]
    atomic: dict[str, Any]
    plain: dict[str, Any] = field(default_factory=dict[str, Any])


@dataclass(frozen=True, slots=True)
class Result:
    """states: how many were visited. violation: what does not hold, "" if all does. trace: the steps up to there.

    ends: the registers with which the processes can end.
    """

    states: int
    violation: str = ""
    trace: tuple[str, ...] = ()
    ends: frozenset[tuple[tuple[Any, ...], ...]] = frozenset()


#: A process: where it stands, its registers, and the word that it sleeps on.
_Local = tuple[int, tuple[Any, ...], str | None]
_State = tuple[Memory, tuple[_Local, ...]]


class TooLarge(Exception):
    """More states than asked for."""


def explore(scenario: Scenario, order: str, limit: int = 10_000_000) -> Result:
    """Visit every state. Raises TooLarge beyond `limit` states."""
    return _Exploration(scenario, order).run(limit)


class _Exploration:
    def __init__(self, scenario: Scenario, order: str) -> None:
        self._names = [process.name for process in scenario.processes]
        self._code = [compile_rows(process.rows) for process in scenario.processes]
        registers = [dict(process.registers) for process in scenario.processes]
        users: list[frozenset[str]] = []
        for own, process in zip(registers, scenario.processes, strict=True):
            places: set[str] = set()
            for step in steps_of(process.rows):
                if step.into:
                    own.setdefault(step.into, 0)
                if step.location is not None:
                    places |= {step.location} if isinstance(step.location, str) else set(scenario.atomic)
            users.append(frozenset(places & set(scenario.atomic)))
        self._keys = [tuple(own) for own in registers]
        self._first = [tuple(own.values()) for own in registers]
        words = Words(scenario.atomic, scenario.plain, tuple(users))
        self._model = MODELS[order](words, self._names)

    def run(self, limit: int) -> Result:
        memory = self._model.initial()
        procs: tuple[_Local, ...] = tuple((0, first, None) for first in self._first)
        came_from: dict[_State, tuple[_State | None, tuple[str, ...]]] = {}
        queue: deque[_State] = deque()
        ends: set[tuple[tuple[Any, ...], ...]] = set()
        try:
            starts = [(memory, procs, ())]
            for p in range(len(procs)):
                starts = [settled for m, ps, labels in starts for settled in self._settle(m, ps, p, labels)]
        except Violation as violation:
            return Result(0, str(violation))
        for m, ps, labels in starts:
            came_from[m, ps] = (None, labels)
            queue.append((m, ps))
        while queue:
            state = queue.popleft()
            moved = False
            labels: tuple[str, ...] = ()
            try:
                for after, procs_after, labels in self._successors(state):
                    moved = True
                    next_state = (after, procs_after)
                    if next_state not in came_from:
                        came_from[next_state] = (state, labels)
                        queue.append(next_state)
                if not moved:
                    self._check_end(state)
                    ends.add(tuple(values for _, values, _ in state[1]))
            except Violation as violation:
                trace = (*self._trace(came_from, state), *violation.labels)
                return Result(len(came_from), str(violation), trace)
            if len(came_from) > limit:
                raise TooLarge(f"more than {limit} states")
        return Result(len(came_from), ends=frozenset(ends))

    def _check_end(self, state: _State) -> None:
        waiting = [
            f"{name} sleeps on {word}" if word else f"{name} waits at {code[pc].line()}"
            for name, code, (pc, _, word) in zip(self._names, self._code, state[1], strict=True)
            if word or pc < len(code)
        ]
        if waiting:
            raise Violation("for ever: " + ", ".join(waiting))

    @staticmethod
    def _trace(came_from: dict[_State, tuple[_State | None, tuple[str, ...]]], state: _State | None) -> tuple[str, ...]:
        parts: list[tuple[str, ...]] = []
        while state is not None:
            state, labels = came_from[state]
            parts.append(labels)
        return tuple(label for part in reversed(parts) for label in part)

    def _successors(self, state: _State) -> Iterator[tuple[Memory, tuple[_Local, ...], tuple[str, ...]]]:
        memory, procs = state
        for label, after in self._model.background(memory):
            yield after, procs, (label,)
        for p, (pc, _, sleeps) in enumerate(procs):
            if sleeps is None and pc < len(self._code[p]):
                for after, moved, label in self._step(memory, procs, p):
                    yield from self._settle(after, moved, p, (label,))

    def _settle(
        self, memory: Memory, procs: tuple[_Local, ...], p: int, labels: tuple[str, ...]
    ) -> list[tuple[Memory, tuple[_Local, ...], tuple[str, ...]]]:
        """Do what commutes with every step of the others: registers, jumps, checks, local steps."""
        code, local = self._code[p], self._model.local
        done: list[tuple[Memory, tuple[_Local, ...], tuple[str, ...]]] = []
        todo = [(memory, procs, labels)]
        try:
            while todo:
                memory, procs, labels = todo.pop()
                pc, values, sleeps = procs[p]
                if sleeps is not None or pc >= len(code):
                    done.append((memory, procs, labels))
                    continue
                row = code[pc]
                registers = dict(zip(self._keys[p], values, strict=True))
                if isinstance(row, Jump):
                    target = row.target if row.condition is None or row.condition(registers) else pc + 1
                    todo.append((memory, _with(procs, p, (target, values, None)), labels))
                elif row.kind == "do":
                    changes = row.value(registers)
                    assert changes.keys() <= registers.keys(), f"registers to be declared: {changes.keys()}"
                    registers.update(changes)
                    todo.append((memory, _with(procs, p, (pc + 1, tuple(registers.values()), None)), labels))
                elif row.kind == "check":
                    assert row.condition is not None
                    if not row.condition(registers):
                        raise Violation(f"{self._names[p]}: {row.text} ({_shown(registers)})")
                    todo.append((memory, _with(procs, p, (pc + 1, values, None)), labels))
                elif row.kind in local:
                    for after, moved, label in self._step(memory, procs, p):
                        todo.append((after, moved, (*labels, label)))
                else:
                    done.append((memory, procs, labels))
        except Violation as violation:
            violation.labels = labels
            raise
        return done

    def _step(
        self, memory: Memory, procs: tuple[_Local, ...], p: int
    ) -> Iterator[tuple[Memory, tuple[_Local, ...], str]]:
        """All outcomes of the process's next step."""
        pc, values, _ = procs[p]
        step = self._code[p][pc]
        assert isinstance(step, Step)
        registers = dict(zip(self._keys[p], values, strict=True))
        place: Any = step.location(registers) if callable(step.location) else step.location
        value: Any = step.value(registers) if callable(step.value) else step.value
        expected: Any = step.expected(registers) if callable(step.expected) else step.expected
        model, name = self._model, self._names[p]
        match step.kind:
            case "load":
                outcomes = model.load(memory, p, place, step.order)
            case "store":
                outcomes = model.store(memory, p, place, value, step.order)
            case "exchange":
                outcomes = model.exchange(memory, p, place, value, expected, step.order, step.failure)
            case "fence":
                outcomes = model.fence(memory, p, step.order)
            case "read":
                outcomes = model.read(memory, p, place)
            case "write":
                outcomes = model.write(memory, p, place, value)
            case "futex_wait":
                for _, fenced in model.fence(memory, p, step.order):
                    for found, after in model.load(fenced, p, place, Order.RELAXED):
                        sleeps = place if found == 1 else None
                        label = f"{name}: {step.line()} {'sleeps' if sleeps else 'returns'}"
                        yield after, _with(procs, p, (pc + 1, values, sleeps)), label
                return
            case "futex_wake":
                asleep = [q for q, local in enumerate(procs) if local[2] == place]
                for _, after in model.fence(memory, p, step.order):
                    moved = _with(procs, p, (pc + 1, values, None))
                    for q in asleep or [p]:
                        woken = _with(moved, q, (moved[q][0], moved[q][1], None))
                        yield after, woken, f"{name}: {step.line()} wakes {self._names[q] if asleep else 'no process'}"
                return
            case _:
                raise AssertionError(step.kind)
        for found, after in outcomes:
            if step.until is not None and not step.until(found):
                continue
            label = f"{name}: {step.line()}"
            if step.into is not None:
                held = found if step.expected is None else found == expected
                registers[step.into] = held
                label += f" -> {held}"
            elif callable(step.value):
                label += f" = {value}"
            yield after, _with(procs, p, (pc + 1, tuple(registers.values()), None)), label


def _with(procs: tuple[_Local, ...], p: int, local: _Local) -> tuple[_Local, ...]:
    return (*procs[:p], local, *procs[p + 1 :])


def _shown(registers: dict[str, Any]) -> str:
    return ", ".join(f"{name} = {value}" for name, value in registers.items())

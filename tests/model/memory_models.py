"""What a load may return: three memory models behind one interface.

`Sequential`   every step acts on memory at once.
`TotalStore`   x86-TSO (Sewell, Sarkar, Owens, Zappa Nardelli, Myreen, CACM 2010): each process has a first-in-first-out
               store buffer, which fences and exchanges empty; acquire and release mean nothing.
`Relaxed`      C11 in the manner of ORC11 (Dang, Jourdan, Kaiser, Dreyer, POPL 2020) and of the view machines of Kang et
               al. (POPL 2017): each word has a history of stores, each process a view of how far it has seen each
               history; a release store carries a view that an acquire load takes over. A store may be placed before
               one that its process has not seen. Plain accesses that nothing orders are a race, and a race is a
               violation: it stands for every reordering of the compiler and of the machine around them.

A method returns all outcomes of a step: pairs of the value and the memory after it. Memory is a nested tuple.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from tests.model.steps import Order

Memory = tuple[Any, ...]
Outcomes = Iterator[tuple[Any, Memory]]


class Violation(Exception):
    """An invariant does not hold; the text says which. labels: the steps that were done together up to there."""

    labels: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Words:
    """The words of a scenario: first values of atomic and plain ones, and who uses which atomic word."""

    atomic: dict[str, Any]
    plain: dict[str, Any]
    users: tuple[frozenset[str], ...]


def _replaced(items: tuple[Any, ...], index: int, item: Any) -> tuple[Any, ...]:
    return (*items[:index], item, *items[index + 1 :])


class Sequential:
    """Memory is the tuple of all values; the other models have its methods. `p` is the number of the process."""

    name = "sequential"
    #: Steps that commute with those of all other processes, so that nothing else need come between.
    local = frozenset({"fence"})
    #: What of a step the model tells apart: taking out anything else changes nothing.
    heeds = frozenset[str]()

    def __init__(self, words: Words, processes: Sequence[str]) -> None:
        self._first = (*words.atomic.values(), *words.plain.values())
        self._index = {name: i for i, name in enumerate((*words.atomic, *words.plain))}

    def initial(self) -> Memory:
        return self._first

    def load(self, memory: Memory, p: int, at: str, order: Order) -> Outcomes:
        yield memory[self._index[at]], memory

    def store(self, memory: Memory, p: int, at: str, value: Any, order: Order) -> Outcomes:
        yield None, _replaced(memory, self._index[at], value)

    def exchange(
        self, memory: Memory, p: int, at: str, value: Any, expected: Any, order: Order, failure: Order
    ) -> Outcomes:
        old = memory[self._index[at]]
        if expected is not None and old != expected:
            yield old, memory
        else:
            yield old, _replaced(memory, self._index[at], value)

    def fence(self, memory: Memory, p: int, order: Order) -> Outcomes:
        yield None, memory

    def read(self, memory: Memory, p: int, at: str) -> Outcomes:
        yield memory[self._index[at]], memory

    def write(self, memory: Memory, p: int, at: str, value: Any) -> Outcomes:
        yield None, _replaced(memory, self._index[at], value)

    def background(self, memory: Memory) -> Iterator[tuple[str, Memory]]:
        return iter(())


class TotalStore(Sequential):
    """Memory is (values, a buffer of (index, value) per process); a store goes into its process's own buffer."""

    name = "tso"
    local = frozenset({"store", "write"})
    heeds = frozenset({"fence"})

    def __init__(self, words: Words, processes: Sequence[str]) -> None:
        super().__init__(words, processes)
        self._processes = processes
        self._names = tuple(self._index)

    def initial(self) -> Memory:
        return self._first, ((),) * len(self._processes)

    def load(self, memory: Memory, p: int, at: str, order: Order) -> Outcomes:
        index = self._index[at]
        own = [value for stored, value in memory[1][p] if stored == index]
        yield (own[-1] if own else memory[0][index]), memory

    def read(self, memory: Memory, p: int, at: str) -> Outcomes:
        return self.load(memory, p, at, Order.PLAIN)

    def store(self, memory: Memory, p: int, at: str, value: Any, order: Order) -> Outcomes:
        values, buffers = memory
        yield None, (values, _replaced(buffers, p, (*buffers[p], (self._index[at], value))))

    def write(self, memory: Memory, p: int, at: str, value: Any) -> Outcomes:
        return self.store(memory, p, at, value, Order.PLAIN)

    def exchange(
        self, memory: Memory, p: int, at: str, value: Any, expected: Any, order: Order, failure: Order
    ) -> Outcomes:
        values, buffers = memory
        if not buffers[p]:
            for old, after in super().exchange(values, p, at, value, expected, order, failure):
                yield old, (after, buffers)

    def fence(self, memory: Memory, p: int, order: Order) -> Outcomes:
        if order is not Order.SEQ_CST or not memory[1][p]:  # else once the buffer is empty
            yield None, memory

    def background(self, memory: Memory) -> Iterator[tuple[str, Memory]]:
        values, buffers = memory
        for p, buffer in enumerate(buffers):
            if buffer:
                index, value = buffer[0]
                label = f"{self._processes[p]}'s buffer: {self._names[index]} = {value}"
                yield label, (_replaced(values, index, value), _replaced(buffers, p, buffer[1:]))


#: How far each atomic word's history is seen, and a bit for each plain write and read that is seen.
View = tuple[tuple[int, ...], int]


def _joined(a: View, b: View) -> View:
    if a is b or a == b:
        return a
    return tuple(map(max, a[0], b[0])), a[1] | b[1]


class Relaxed(Sequential):
    """Memory is (histories, plain values, processes' views, the view of sequentially consistent fences).

    A history is a tuple of (value, view, attached): attached to the store before it, as that of an exchange is. Views
    count from the oldest store that any user of the word may still load; older ones are dropped.
    """

    name = "relaxed"
    local = frozenset({"read", "write"})
    heeds = frozenset({"acquire", "release", "fence"})

    def __init__(self, words: Words, processes: Sequence[str]) -> None:
        self._processes = processes
        self._atomic = {name: i for i, name in enumerate(words.atomic)}
        self._plain = {name: i for i, name in enumerate(words.plain)}
        self._users = [[p for p, used in enumerate(words.users) if name in used] for name in words.atomic]
        self._values = (tuple(words.atomic.values()), tuple(words.plain.values()))
        self._zero: View = ((0,) * len(words.atomic), (1 << len(words.plain) * (len(processes) + 1)) - 1)

    def initial(self) -> Memory:
        atomic, plain = self._values
        histories = tuple(((value, self._zero, False),) for value in atomic)
        return histories, plain, ((self._zero,) * 3,) * len(self._processes), self._zero

    # -- atomic steps: a process's three views are what it has seen, what an acquire fence and a release fence give ----

    def load(self, memory: Memory, p: int, at: str, order: Order) -> Outcomes:
        histories, plain, threads, sc = memory
        word = self._atomic[at]
        history, views = histories[word], threads[p]
        for t in range(views[0][0][word], len(history)):
            value, view, _ = history[t]
            seen = _seen(views, word, t, view, order)
            yield value, self._trimmed(histories, plain, _replaced(threads, p, seen), sc)

    def store(self, memory: Memory, p: int, at: str, value: Any, order: Order) -> Outcomes:
        word = self._atomic[at]
        length = len(memory[0][word])
        for t in range(memory[2][p][0][0][word] + 1, length + 1):
            if t < length and memory[0][word][t][2]:
                continue  # nothing comes between an exchange and what it loaded
            histories, plain, threads, sc = self._shifted(memory, word, t) if t < length else memory
            cur, acq, rel = threads[p]
            cur, acq = _at(cur, word, t), _at(acq, word, t)
            message = (value, cur if order.releases else _at(rel, word, t), False)
            history = (*histories[word][:t], message, *histories[word][t:])
            threads = _replaced(threads, p, (cur, acq, rel))
            yield None, self._trimmed(_replaced(histories, word, history), plain, threads, sc)

    def exchange(
        self, memory: Memory, p: int, at: str, value: Any, expected: Any, order: Order, failure: Order
    ) -> Outcomes:
        word = self._atomic[at]
        length = len(memory[0][word])
        for t in range(memory[2][p][0][0][word], length):
            old, view, _ = memory[0][word][t]
            if expected is not None and old != expected:
                histories, plain, threads, sc = memory
                seen = _seen(threads[p], word, t, view, failure)
                yield old, self._trimmed(histories, plain, _replaced(threads, p, seen), sc)
                continue
            if t + 1 < length and memory[0][word][t + 1][2]:
                continue
            histories, plain, threads, sc = self._shifted(memory, word, t + 1) if t + 1 < length else memory
            view = histories[word][t][1]
            cur, acq, rel = _seen(threads[p], word, t, view, order)
            cur, acq = _at(cur, word, t + 1), _at(acq, word, t + 1)
            message = (value, _joined(view, cur if order.releases else _at(rel, word, t + 1)), True)
            history = (*histories[word][: t + 1], message, *histories[word][t + 1 :])
            threads = _replaced(threads, p, (cur, acq, rel))
            yield old, self._trimmed(_replaced(histories, word, history), plain, threads, sc)

    def fence(self, memory: Memory, p: int, order: Order) -> Outcomes:
        histories, plain, threads, sc = memory
        cur, acq, rel = threads[p]
        if order.acquires:
            cur = acq
        if order is Order.SEQ_CST:
            cur = acq = sc = _joined(cur, sc)
        if order.releases:
            rel = cur
        yield None, self._trimmed(histories, plain, _replaced(threads, p, (cur, acq, rel)), sc)

    # -- plain accesses: each must have seen the last write, a write also every read of it -----------------------------

    def _read_bit(self, word: int, p: int) -> int:
        return 1 << len(self._plain) + word * len(self._processes) + p

    def read(self, memory: Memory, p: int, at: str) -> Outcomes:
        word = self._plain[at]
        if not memory[2][p][0][1] >> word & 1:
            raise Violation(
                f"{self._processes[p]} reads {at} and nothing orders that behind its last write: stale or torn"
            )
        bit = self._read_bit(word, p)
        yield memory[1][word], self._marked(memory, p, bit, 0, bit)

    def write(self, memory: Memory, p: int, at: str, value: Any) -> Outcomes:
        word = self._plain[at]
        seen = memory[2][p][0][1]
        if not seen >> word & 1:
            raise Violation(f"{self._processes[p]} writes {at} and nothing orders that behind its last write")
        reads = 0
        for q, name in enumerate(self._processes):
            reads |= self._read_bit(word, q)
            if q != p and not seen & self._read_bit(word, q):
                raise Violation(f"{self._processes[p]} writes {at}, which {name} may still be reading: torn")
        histories, plain, threads, sc = self._marked(memory, p, 1 << word, reads, 1 << word)
        yield None, (histories, _replaced(plain, word, value), threads, sc)

    def _marked(self, memory: Memory, p: int, clear: int, fill: int, own: int) -> Memory:
        """Clear these bits and fill those in every view, then set `own` in what process p has seen."""
        histories, plain, threads, sc = self._mapped(memory, lambda view: (view[0], view[1] & ~clear | fill))
        cur, acq, rel = threads[p]
        threads = _replaced(threads, p, ((cur[0], cur[1] | own), (acq[0], acq[1] | own), rel))
        return histories, plain, threads, sc

    # -- all views at once -------------------------------------------------------------------------------------------

    @staticmethod
    def _mapped(memory: Memory, change: Callable[[View], View]) -> Memory:
        histories, plain, threads, sc = memory
        return (
            tuple(tuple((value, change(view), tied) for value, view, tied in history) for history in histories),
            plain,
            tuple(tuple(change(view) for view in views) for views in threads),
            change(sc),
        )

    def _shifted(self, memory: Memory, word: int, t: int) -> Memory:
        """Make room for a store at place t of a history."""
        return self._mapped(memory, lambda view: _at(view, word, view[0][word] + 1) if view[0][word] >= t else view)

    def _trimmed(self, histories: Memory, plain: Memory, threads: Memory, sc: View) -> Memory:
        """Drop the stores that nothing can load any more."""
        oldest = [min((threads[p][0][0][word] for p in users), default=0) for word, users in enumerate(self._users)]
        if not any(oldest):
            return histories, plain, threads, sc
        kept = tuple(history[first:] for history, first in zip(histories, oldest, strict=True))
        return self._mapped(
            (kept, plain, threads, sc),
            lambda view: (tuple(max(t - first, 0) for t, first in zip(view[0], oldest, strict=True)), view[1]),
        )


def _at(view: View, word: int, t: int) -> View:
    return _replaced(view[0], word, max(t, view[0][word])), view[1]


def _seen(views: tuple[View, View, View], word: int, t: int, message: View, order: Order) -> tuple[View, View, View]:
    """The views of a process that loads the store at place t, which carries the view `message`."""
    cur, acq, rel = views
    cur, acq = _at(cur, word, t), _joined(_at(acq, word, t), message)
    return (_joined(cur, message) if order.acquires else cur), acq, rel


MODELS: dict[str, type[Sequential]] = {model.name: model for model in (Sequential, TotalStore, Relaxed)}

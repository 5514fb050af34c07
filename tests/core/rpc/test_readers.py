"""Who reads a connection for whom: threads by turns, or an event loop, whatever a callback raises."""

import asyncio
import queue
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any, cast

import pytest

from lucky_transport.deadline import Deadline
from lucky_transport.errors import PeerDied, TransportError
from lucky_transport.rpc.event_loop import LoopCondition, LoopReader
from lucky_transport.rpc.leader_followers import LeaderFollowers
from lucky_transport.shm.eventfd import EventFd
from tests.support.interrupted_moments import Interrupted, interrupted_at
from tests.support.waiting import PATIENCE_S

#: Calls that a thread makes flat out: enough for every change of leaders.
WARM = 400


class Question:
    """What one call waits for."""

    def __init__(self) -> None:
        self.gates: list[Any] = []
        self.answered = False

    def is_answered(self) -> bool:
        return self.answered


class Wire:
    """A pipe in memory, and the threads that read it. asked: questions without an answer."""

    largest_record, peer = 1 << 20, "a test"

    def __init__(self) -> None:
        self.asked: queue.SimpleQueue[Question | None] = queue.SimpleQueue()
        self.waiters = LeaderFollowers(self, self._on_record, self._on_broken)  # type: ignore[arg-type]
        self.error: TransportError | None = None
        self._answers: queue.SimpleQueue[Question] = queue.SimpleQueue()
        self._news = threading.Event()
        self._waiting: set[Question] = set()
        self._dead = False

    def ask(self, timeout_s: float = PATIENCE_S) -> bool:
        """Make a call; False when its time was over first."""
        question = Question()
        return self.begin(question) and self.end(question, timeout_s)

    def begin(self, question: Question) -> bool:
        self._waiting.add(question)
        self.asked.put(question)
        return True

    def end(self, question: Question, timeout_s: float = PATIENCE_S) -> bool:
        try:
            return self.waiters.wait(question, Question.is_answered, Deadline(timeout_s))
        finally:
            self._waiting.discard(question)

    def answer(self, question: Question) -> None:
        self._answers.put(question)
        self._news.set()

    def die(self) -> None:
        self._dead = True
        self._news.set()

    def pop_batch(self, limit: int) -> Any:
        try:
            return self._answers.get_nowait()
        except queue.Empty:
            return None

    def wait(self, timeout_ns: int, oversubscribed: bool = False) -> bool:
        if self._dead:
            raise PeerDied("gone")
        found = self._news.wait(timeout_ns / 1e9)
        self._news.clear()
        return found

    def interrupt(self) -> None:
        self._news.set()

    def _on_record(self, record: Any) -> None:
        record.answered = True
        self.waiters.wake_followers(record)

    def _on_broken(self, error: TransportError) -> None:
        self.error = error
        for question in tuple(self._waiting):
            question.answered = True
            self.waiters.wake(question)


@pytest.fixture
def wire() -> Wire:
    return Wire()


@pytest.fixture
def peer(wire: Wire) -> Iterator[Callable[[Callable[[Question], None]], None]]:
    """Have a thread answer: it is given each question; by default it answers at once."""
    threads: list[threading.Thread] = []

    def start(on_question: Callable[[Question], None] = wire.answer) -> None:
        def run() -> None:
            while (question := wire.asked.get()) is not None:
                on_question(question)

        threads.append(threading.Thread(target=run))
        threads[-1].start()

    yield start
    for _ in threads:
        wire.asked.put(None)
    for thread in threads:
        thread.join(PATIENCE_S)


def in_threads(count: int, body: Callable[[int], Any]) -> list[Any]:
    """Run the body in so many threads at once and return what each returned, in order."""
    with ThreadPoolExecutor(count) as pool:
        return list(pool.map(body, range(count)))


def flat_out(wire: Wire, calls: int) -> bool:
    return all(wire.ask() for _ in range(calls))


def test_the_last_caller_is_answered_though_all_others_left(wire: Wire, peer: Any) -> None:
    late: list[Question] = []
    slow = Question()

    def all_but_one(question: Question) -> None:
        (late.append if question is slow else wire.answer)(question)

    peer(all_but_one)
    wire.begin(slow)
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(wire.end, slow)
        assert all(in_threads(8, lambda _: flat_out(wire, WARM)))
        wire.answer(late.pop())
        assert waiting.result(PATIENCE_S / 2)


@pytest.mark.parametrize("is_woken", [False, True], ids=["at its deadline", "woken"])
def test_a_caller_returns_beside_callers_that_never_stop(wire: Wire, peer: Any, is_woken: bool) -> None:
    never = Question()
    peer(lambda question: None if question is never else wire.answer(question))
    stop = threading.Event()

    def call(index: int) -> bool:
        if index == 0:
            time.sleep(0.1)  # the others call flat out by then
            wire.begin(never)
            try:
                return wire.end(never, PATIENCE_S if is_woken else 0.2)
            finally:
                stop.set()
        if index == 1 and is_woken:
            time.sleep(0.2)
            never.answered = True
            wire.waiters.wake(never)
        while not stop.is_set():
            assert wire.ask()
        return True

    assert in_threads(6, call) == [is_woken, True, True, True, True, True]


def test_the_end_of_the_connection_reaches_every_caller(wire: Wire, peer: Any) -> None:
    peer(lambda question: wire.answer(question) if wire.error is None else None)

    def call(index: int) -> TransportError | None:
        if index == 0:
            time.sleep(0.1)
            wire.die()
        while wire.error is None:
            assert wire.ask()
        return wire.error

    assert {type(error) for error in in_threads(8, call)} == {PeerDied}


def test_a_thread_that_only_polls_wakes_those_whose_answers_it_found(wire: Wire, peer: Any) -> None:
    peer()
    assert all(in_threads(8, lambda _: flat_out(wire, WARM)))
    stop = threading.Event()

    def call(index: int) -> bool:
        if index:
            found = flat_out(wire, WARM)
            stop.set()
            return found
        while not stop.is_set():
            wire.waiters.read_waiting()
        return True

    assert all(in_threads(8, call))


@pytest.mark.parametrize("may_be_done_again", [True, False])
def test_an_interrupted_record_is_handled_by_the_next_leader_if_it_may_be(wire: Wire, may_be_done_again: bool) -> None:
    mine, other = Question(), Question()
    handled: list[Question] = []

    def on_record(question: Question) -> None:
        handled.append(question)
        if not may_be_done_again:
            waiters.redo = None
        if len(handled) == 1:
            raise Interrupted
        question.answered = True

    waiters = LeaderFollowers(wire, on_record, wire._on_broken)  # type: ignore[arg-type]
    wire.answer(other)
    wire.answer(mine)
    with pytest.raises(Interrupted):
        waiters.wait(mine, Question.is_answered, Deadline(PATIENCE_S))
    assert waiters.wait(mine, Question.is_answered, Deadline(PATIENCE_S))
    assert handled == ([other, other, mine] if may_be_done_again else [other, mine])
    assert other.answered is may_be_done_again


class Connection:
    """In the place of `ClientCalls`: an answer is expected, nothing turns readable, and some steps are interrupted."""

    def __init__(self, fd: int, interrupted: str) -> None:
        self._fd = fd
        self.interrupted = interrupted
        self.is_armed = False
        self.on_break: Any = None

    def _raise_once(self, step: str) -> None:
        if step == self.interrupted:
            self.interrupted = ""
            raise TimeoutError("a signal handler's")

    def fileno(self) -> int:
        return self._fd

    def expect(self) -> bool:
        self.is_armed = False
        self._raise_once("expect")
        return True

    def look(self, longest_ns: int) -> None:
        self._raise_once("look")

    def pump(self) -> None:
        self._raise_once("pump")

    def arm(self) -> bool:
        self._raise_once("arm")
        self.is_armed = True
        return False


@pytest.fixture
def fd() -> Iterator[int]:
    with EventFd() as event:
        yield event.fd


@pytest.mark.parametrize("step", ["expect", "look", "pump", "arm"])
async def test_a_reader_arms_its_descriptor_also_after_an_interrupt(fd: int, step: str) -> None:
    loop = asyncio.get_running_loop()
    loop.set_exception_handler(lambda loop, context: None)
    connection = Connection(fd, "")
    reader = LoopReader(cast(Any, connection), loop)
    await asyncio.sleep(0)
    assert connection.is_armed
    connection.interrupted = step
    try:
        reader.expect()
    except TimeoutError:
        assert step == "expect"
    assert not connection.is_armed
    for _ in range(3):
        await asyncio.sleep(0)
    assert connection.is_armed, "the peer was told that it need not wake us, and nobody looks"
    reader.close()


async def test_a_closed_reader_is_let_go_of_before_the_next_turn_of_its_loop(fd: int) -> None:
    connection = Connection(fd, "")
    reader = LoopReader(cast(Any, connection), asyncio.get_running_loop())
    reader.close()
    del connection.on_break  # which a connection does when it has ended
    gone = weakref.ref(reader)
    del reader
    assert gone() is None


class CancelledJustNow(asyncio.Future[None]):
    """A signal handler cancels it after it was asked."""

    def done(self) -> bool:
        was_done = super().done()
        self.cancel()
        return was_done


async def test_who_is_cancelled_while_all_are_woken_keeps_nobody_waiting() -> None:
    loop = asyncio.get_running_loop()
    condition = LoopCondition(loop)
    waiters: list[asyncio.Future[None]] = [loop.create_future(), CancelledJustNow(), loop.create_future()]
    condition.waiters.extend(waiters)
    condition.notify()
    assert [waiter.cancelled() for waiter in waiters] == [False, True, False]
    assert waiters[2].done()


async def test_whom_an_interrupt_left_waiting_the_next_notice_wakes() -> None:
    is_interrupted, moment = True, -1
    while is_interrupted:
        moment += 1
        condition = LoopCondition(asyncio.get_running_loop())
        tasks = [asyncio.create_task(condition.wait()) for _ in range(3)]
        await asyncio.sleep(0)
        is_interrupted = interrupted_at(moment, condition.notify)
        if is_interrupted:
            condition.notify()
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert all(task.done() for task in tasks), moment

"""The pool of workers is bounded, and quick handlers run on the thread that reads: nobody but the clock can tell."""

import logging
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing
from queue import SimpleQueue
from typing import Any
from unittest.mock import Mock

import pytest

from lucky_transport.deadline import Deadline
from lucky_transport.errors import Busy
from lucky_transport.rpc.workers.adaptive_executor import LONG_NS, QUICK_NS, AdaptiveExecutor, CountedPool, RunTimeStats
from lucky_transport.rpc.workers.guarded_reader import GuardedReader
from lucky_transport.rpc.workers.worker_pool import WorkerPool
from tests.support.interrupted_moments import Interrupted, interrupted_start
from tests.support.resources import threads_of
from tests.support.waiting import PATIENCE_S, in_a_child, soon, until


def _wait(running: threading.Semaphore, release: threading.Event) -> None:
    running.release()
    release.wait(PATIENCE_S)


def test_no_more_than_the_limit_run_and_wait() -> None:
    workers, release, running = WorkerPool("testers", 2, waiting=1), threading.Event(), threading.Semaphore(0)
    for _ in range(3):
        workers.run(lambda: _wait(running, release))
    assert running.acquire(timeout=PATIENCE_S)
    assert running.acquire(timeout=PATIENCE_S)
    with pytest.raises(Busy, match="2 testers run and 1 wait already"):
        workers.run(lambda: None)
    release.set()
    assert running.acquire(timeout=PATIENCE_S)
    workers.close(5)


def test_a_thread_is_kept_for_the_next_task() -> None:
    workers = WorkerPool("testers", 8)
    seen: set[int] = set()
    for _ in range(20):
        done = threading.Event()
        workers.run(lambda done=done: (seen.add(threading.get_ident()), done.set()))
        assert done.wait(PATIENCE_S)
        time.sleep(0.002)
    assert len(seen) < 5
    workers.close(5)


def test_a_task_that_breaks_costs_no_thread(caplog: pytest.LogCaptureFixture) -> None:
    workers, done = WorkerPool("testers", 1, waiting=5), threading.Event()
    with caplog.at_level(logging.ERROR):
        workers.run(lambda: 1 // 0)
        workers.run(done.set)
        assert done.wait(PATIENCE_S)
    assert "a task of testers broke" in caplog.text
    workers.close(5)


def test_close_waits_no_longer_than_its_grace_and_nothing_starts_afterwards() -> None:
    workers, release = WorkerPool("testers", 1), threading.Event()
    workers.run(lambda: _wait(threading.Semaphore(0), release))
    workers.close(0.05)  # returns, though the task goes on
    with pytest.raises(Busy, match="closing"):
        workers.run(lambda: None)
    release.set()
    workers.close(5)


def test_where_no_thread_starts_a_task_waits_for_one_that_runs_or_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    first, second = WorkerPool("testers", 3, waiting=1), WorkerPool("others", 3)
    release, running, done = threading.Event(), threading.Semaphore(0), threading.Event()
    first.run(lambda: _wait(running, release))
    assert running.acquire(timeout=PATIENCE_S)
    refused = RuntimeError("can't start new thread")
    with monkeypatch.context() as patched:
        patched.setattr(threading.Thread, "start", Mock(side_effect=refused))
        first.run(done.set)
        for pool, name in ((first, "testers"), (second, "others")):
            with pytest.raises(Busy, match=f"{name}: no thread can be started, the limit is .* .ulimit -u.$"):
                pool.run(lambda: None)
    second.run(running.release)
    assert running.acquire(timeout=PATIENCE_S)
    release.set()
    assert done.wait(PATIENCE_S)
    first.close(5)
    second.close(5)


def test_a_signal_handler_that_raises_while_a_thread_starts_brings_no_second_one() -> None:
    workers, done = WorkerPool("interrupted testers", 1, waiting=5), threading.Event()
    with interrupted_start(Interrupted), pytest.raises(Interrupted):
        workers.run(lambda: None)
    until(lambda: threads_of("interrupted testers"))
    workers.run(done.set)
    assert done.wait(PATIENCE_S)
    until(lambda: len(threads_of("interrupted testers")) == 1)
    workers.close(PATIENCE_S)
    assert threads_of("interrupted testers") == []


def test_draining_waits_for_what_runs_and_what_waits() -> None:
    workers, release, done = WorkerPool("testers", 1, waiting=1), threading.Event(), list[int]()
    workers.run(lambda: release.wait(PATIENCE_S))
    workers.run(lambda: done.append(1))
    assert not workers.drain(Deadline(0.0))
    release.set()
    assert workers.drain(soon())
    assert done == [1]
    workers.close(PATIENCE_S)


def test_a_forked_child_has_threads_of_its_own_and_none_of_the_tasks() -> None:
    workers, release = WorkerPool("testers", 1, waiting=1), threading.Event()
    workers.run(lambda: release.wait(PATIENCE_S))

    def works() -> bool:
        done = threading.Event()
        workers.run(done.set)
        workers.run(lambda: None)
        return done.wait(PATIENCE_S) and workers.drain(soon())

    assert in_a_child(works)
    release.set()
    workers.close(PATIENCE_S)


#: Quick runs after which a new method is trusted, and more.
PROOF = 20

Request = tuple[str, Callable[[], object]]


class Desk:
    """A thread that reads requests from a queue, as a server loop reads calls from pipes."""

    def __init__(self, threads: int) -> None:
        self.pool = ThreadPoolExecutor(threads, thread_name_prefix="pool")
        self.slots = CountedPool(self.pool.submit, threads)
        self.reading = GuardedReader("reader", self._body)
        self.executor = AdaptiveExecutor(self.slots, self.reading)
        self.refused: list[Exception] = []
        self._requests: SimpleQueue[Request | None] = SimpleQueue()
        self.reading.start()

    def _body(self) -> None:
        while (request := self._requests.get()) is not None:
            self.executor.run(*request, self.refused.append)
            if self._requests.empty():
                self.executor.flush()
        self.executor.flush()

    def post(self, *requests: Request) -> None:
        for request in requests:
            self._requests.put(request)

    def ask(self, method: str, task: Callable[[], object] = lambda: None) -> str:
        """Have the task run and return the name of the thread that ran it."""
        done: SimpleQueue[str] = SimpleQueue()

        def run() -> None:
            task()
            done.put(threading.current_thread().name)

        self.post((method, run))
        return done.get(timeout=PATIENCE_S)

    def make_quick(self, *methods: str) -> None:
        """Have the methods trusted. Another process may take the core away in the middle of any run: tried again."""
        deadline = time.monotonic() + PATIENCE_S
        for method in methods:
            while self.ask(method) != "reader":
                assert time.monotonic() < deadline

    def close(self) -> None:
        self._requests.put(None)
        self.reading.close(PATIENCE_S)
        self.pool.shutdown()


@pytest.fixture
def open_desk() -> Iterator[Callable[[int], Desk]]:
    with ExitStack() as opened:
        yield lambda threads: opened.enter_context(closing(Desk(threads)))


@pytest.fixture
def desk(open_desk: Callable[[int], Desk]) -> Desk:
    return open_desk(4)


# --- pace ---


SLOW_NS = QUICK_NS + 1
TRUSTED_NS = [QUICK_NS] * 8
#: Trusted, and slow now and then.
MOODY_NS = [*TRUSTED_NS, *[SLOW_NS, *[0] * 8] * 100]


@pytest.mark.parametrize(
    ("runs_ns", "to_prove"),
    [
        (TRUSTED_NS[1:], 1),
        (TRUSTED_NS, 0),
        ([*TRUSTED_NS[1:], SLOW_NS, *[0] * 7], 1),
        (MOODY_NS, 0),
        (MOODY_NS + [SLOW_NS] * 7, 0),
        (MOODY_NS + [SLOW_NS] * 8, 32),
        ([*TRUSTED_NS, LONG_NS], 32),
    ],
)
def test_eight_quick_runs_earn_trust_which_many_slow_ones_or_a_long_one_cost(runs_ns: list[int], to_prove: int) -> None:
    pace = RunTimeStats()
    for took_ns in runs_ns:
        pace.note(took_ns)
    assert pace.to_prove == to_prove


def test_each_disappointment_asks_for_four_times_as_many_runs() -> None:
    pace = RunTimeStats()
    proofs: list[int] = []
    for _ in range(10):
        while pace.to_prove:
            pace.note(0)
        pace.note(LONG_NS)
        proofs.append(pace.to_prove)
    assert proofs == [32, 128, 512, 1024, 1024, 1024, 1024, 1024, 1024, 1024]


def test_a_method_that_is_called_seldom_may_take_five_times_as_long() -> None:
    pace = RunTimeStats()
    for paused_ns, to_prove in ((5 * QUICK_NS - 1, 8), (5 * QUICK_NS, 0), (0, 32)):
        for _ in range(8):
            pace.note(5 * QUICK_NS, paused_ns)
        assert pace.to_prove == to_prove


def test_a_handler_that_raises_is_timed_all_the_same() -> None:
    pool, pace = CountedPool(lambda task: None, 1), RunTimeStats()
    pace.note(0)
    assert pool.take()
    pool.run_taken(pace, lambda: (time.sleep(0.001), 1 // 0))
    assert (pace.to_prove, pool.in_use) == (8, 0)


# --- who runs what ---


def test_an_unknown_method_runs_in_the_pool_and_a_quick_one_on_the_thread_that_reads(desk: Desk) -> None:
    assert desk.ask("/s/new").startswith("pool")
    desk.make_quick("/s/quick")
    assert desk.ask("/s/new").startswith("pool")


def test_a_slow_method_stays_in_the_pool(desk: Desk) -> None:
    names = {desk.ask("/s/slow", lambda: time.sleep(0.001)) for _ in range(PROOF)}
    assert all(name.startswith("pool") for name in names)


def test_a_method_that_was_slow_once_goes_back_to_the_pool(desk: Desk) -> None:
    stats = desk.slots.stats["/s/moody"]
    while stats.to_prove:  # noted, not run: a busy machine makes any run slow
        stats.note(0)
    assert desk.ask("/s/moody", lambda: time.sleep(0.001)) == "reader"
    until(lambda: stats.to_prove)
    assert desk.ask("/s/moody").startswith("pool")


def test_while_a_trusted_handler_hangs_others_are_answered_and_its_method_runs_in_the_pool(desk: Desk) -> None:
    desk.make_quick("/s/moody", "/s/other")
    held, ended = threading.Event(), threading.Event()

    def hang() -> None:
        assert held.wait(PATIENCE_S)
        ended.set()

    desk.post(("/s/moody", hang))
    for _ in range(PROOF):
        desk.ask("/s/other")
    assert not ended.is_set()
    held.set()
    assert ended.wait(PATIENCE_S)
    assert desk.ask("/s/moody").startswith("pool")
    desk.make_quick("/s/other")  # the new reader runs quick handlers too


def test_readers_may_be_overtaken_one_after_the_other(desk: Desk) -> None:
    for number in range(3):
        desk.make_quick(f"/s/{number}")
    held = threading.Event()
    for number in range(3):
        desk.post((f"/s/{number}", lambda: held.wait(PATIENCE_S)))
        time.sleep(0.05)  # some times as long as a guard is patient
    assert desk.ask("/s/next").startswith("pool")
    held.set()
    desk.make_quick("/s/next")


def test_what_waits_behind_a_hanging_handler_is_run_by_the_pool(desk: Desk) -> None:
    desk.make_quick("/s/moody", "/s/quick")
    held = threading.Event()
    names: SimpleQueue[str] = SimpleQueue()
    quick = ("/s/quick", lambda: names.put(threading.current_thread().name))
    with desk.slots._lock:  # pyright: ignore[reportPrivateUsage]  # so that all are read in one go
        desk.post(("/s/quick", lambda: None))
        time.sleep(0.02)
        desk.post(("/s/moody", lambda: held.wait(PATIENCE_S)), quick, quick)
    assert {names.get(timeout=PATIENCE_S) for _ in range(2)}
    held.set()


# --- never more at once than the pool has threads ---


@pytest.mark.parametrize("threads", [1, 2])
def test_no_more_handlers_run_at_once_than_the_pool_has_threads(open_desk: Callable[[int], Desk], threads: int) -> None:
    desk = open_desk(threads)
    desk.make_quick("/s/quick", "/s/moody")
    lock = threading.Lock()
    running, most, done = 0, 0, threading.Semaphore(0)

    def work(seconds: float) -> None:
        nonlocal running, most
        with lock:
            running += 1
            most = max(most, running)
        if seconds:
            time.sleep(seconds)
        with lock:
            running -= 1
        done.release()

    for _ in range(30):
        desk.post(
            ("/s/quick", lambda: work(0)),
            ("/s/slow", lambda: work(0.0005)),
            ("/s/moody", lambda: work(0.006)),
            ("/s/quick", lambda: work(0)),
        )
    for _ in range(120):
        assert done.acquire(timeout=PATIENCE_S)
    assert most <= threads


def test_with_one_thread_handlers_run_in_the_order_of_their_calls(open_desk: Callable[[int], Desk]) -> None:
    desk = open_desk(1)
    desk.make_quick("/s/quick", "/s/moody")
    order: list[int] = []
    over = threading.Event()

    def step(number: int, seconds: float) -> None:
        time.sleep(seconds)
        order.append(number)
        if number == 59:
            over.set()

    methods = (("/s/quick", 0.0), ("/s/slow", 0.001), ("/s/moody", 0.006))
    for number in range(60):
        method, seconds = methods[number % 3]
        desk.post((method, lambda number=number, seconds=seconds: step(number, seconds)))
    assert over.wait(PATIENCE_S)
    assert order == list(range(60))


# --- what goes wrong ---


def test_a_task_that_breaks_costs_neither_the_reader_nor_a_slot(desk: Desk, caplog: pytest.LogCaptureFixture) -> None:
    desk.make_quick("/s/broken")
    desk.post(("/s/broken", lambda: 1 // 0))
    desk.make_quick("/s/other")
    until(lambda: not desk.slots.in_use and "ZeroDivisionError" in caplog.text)


def test_what_a_closed_pool_does_not_take_is_refused(desk: Desk) -> None:
    desk.pool.shutdown()
    desk.post(("/s/new", lambda: None))
    until(lambda: desk.refused)
    assert "shutdown" in str(desk.refused[0])
    assert desk.slots.in_use == 0


def test_closing_leaves_no_thread_behind(open_desk: Callable[[int], Desk]) -> None:
    before = set(threading.enumerate())
    desk = open_desk(2)
    desk.make_quick("/s/quick")
    desk.close()
    until(lambda: not set(threading.enumerate()) - before)


def test_a_watchdog_that_slept_watches_the_next_task(desk: Desk) -> None:
    for _ in range(5):
        desk.make_quick("quick")
        reading: Any = desk.reading
        until(lambda reading=reading: reading._watchdog_sleeps)
        started = threading.Event()
        held = threading.Event()
        desk.post(("quick", lambda started=started, held=held: (started.set(), held.wait(PATIENCE_S))))
        assert started.wait(PATIENCE_S)
        assert desk.ask("other")  # another thread reads on
        held.set()


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_a_reader_that_breaks_dismisses_its_guard_and_frees_the_pool() -> None:
    broken = threading.Event()

    def body() -> None:
        reading.guarded(lambda: None)
        broken.set()
        raise SystemExit  # what a handler may raise; a thread ends of it in silence

    reading = GuardedReader("broken reader", body)
    reading.start()
    assert broken.wait(PATIENCE_S)
    until(lambda: not any(thread.name == "broken reader" for thread in threading.enumerate()))

"""The suite of stubs: what is measured, how answers are checked meanwhile, and what the result says."""

import asyncio
import importlib.util
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from lucky_transport.errors import ConfigError, NotReachable, PeerTimeout, RemoteProtocolError
from lucky_transport_migration.bench.flow import StreamMeasurement
from lucky_transport_migration.bench.measuring import QUICK, Measurement
from lucky_transport_migration.bench.stubs import programs
from lucky_transport_migration.bench.stubs.programs import Job, measure_pair, program
from lucky_transport_migration.bench.suites.stubs import cases_of, plan_of_stubs
from tests.support.waiting import until_none_left

needs_grpc = pytest.mark.skipif(importlib.util.find_spec("grpc") is None, reason="grpcio is not installed")


def case_of(path: str, wait: str | None = None, what: str = "") -> Any:
    """Return the case that a plan has for this way."""
    plan = plan_of_stubs(("grpc", "shm"), None, rounds=1, quick=False)
    return next(one for one in cases_of(plan) if (one.path, one.wait, one.what) == (path, wait, what))


# what is measured


def test_a_transport_that_carries_no_stubs_is_refused_by_name() -> None:
    with pytest.raises(ConfigError, match=r"transport 'inproc' carries no calls.*--between grpc,shm"):
        plan_of_stubs(("grpc", "inproc"), None, rounds=5, quick=False)


# pairs of processes


def _quick(case: Any) -> Job:
    return Job(case, QUICK, plan_of_stubs(("grpc",), None, rounds=1, quick=True).options)


@needs_grpc
@pytest.mark.parametrize(
    "case",
    [
        replace(case_of("grpc-unix"), twin=True),
        case_of("shm", "adaptive"),
        case_of("shm", "block"),
        case_of("shm", "adaptive", "sizes"),
        case_of("shm", "adaptive", "asyncio"),
        case_of("pipes"),
    ],
    ids=str,
)
def test_a_pair_measures_every_cell_of_its_case(case: Any) -> None:
    """The others over gRPC are measured by tests/exhaustive/migration/cli/test_commands.py."""
    found = measure_pair(_quick(case))
    assert tuple(found) == case.cells
    for cell, measured in found.items():
        if isinstance(measured, Measurement):
            assert measured.samples_ns.size > 0
            assert (measured.rate_achieved is None) == (cell.rate_hz is None)
            assert measured.engine_cpu_ns is not None
        else:
            assert isinstance(measured, StreamMeasurement)
            assert measured.n > 0


@needs_grpc
def test_a_program_and_its_server_run_unchanged_under_the_launcher() -> None:
    found = programs.measure_echo(_quick(case_of("shm", "adaptive", "program")))
    assert found.samples_ns.size > 0
    assert found.warmup_ns.size > 0


@needs_grpc
def test_a_program_that_was_not_switched_is_no_measurement_of_shared_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    launcher = programs._launcher  # pyright: ignore[reportPrivateUsage]

    def elsewhere(job: Job, switch: list[str], report: Path) -> list[str]:
        return launcher(job, ["--map", "127.0.0.1:1=shm://lucky_bench_elsewhere"], report)

    monkeypatch.setattr(programs, "_launcher", elsewhere)
    with pytest.raises(NotReachable, match=r"was not switched; over gRPC: /lucky_transport.bench.Echo/Ask \(.+\)"):
        programs.measure_echo(_quick(case_of("shm", "adaptive", "program")))


def test_a_client_that_fails_is_reported_with_its_exit_report() -> None:
    complaint = r"grpc-tcp: the client failed with exit status 3\n  out of luck"
    with pytest.raises(NotReachable, match=complaint):
        program(
            [sys.executable, "-c", "import sys; print('out of luck', file=sys.stderr); sys.exit(3)"],
            _quick(case_of("grpc-tcp")),
        )


def test_a_client_that_hangs_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(programs, "_PATIENCE_S", 1.0 - 100 * QUICK.budget_s)
    with pytest.raises(PeerTimeout, match="grpc-tcp: the client did not end within 1 s"):
        program([sys.executable, "-c", "import time; time.sleep(60)"], _quick(case_of("grpc-tcp")))


def test_the_waiting_strategy_reaches_the_client_as_an_environment_variable() -> None:
    asking = [sys.executable, "-c", "import os; print(os.environ.get('LUCKY_WAIT'))"]
    assert program(asking, _quick(case_of("shm", "block"))) == b"block\n"
    assert program(asking, _quick(case_of("grpc-tcp"))) == b"None\n"


def test_what_went_wrong_in_the_client_is_raised_here(monkeypatch: pytest.MonkeyPatch) -> None:
    error = RemoteProtocolError("call 3 was answered as call 2", backend="shm", hint="look")
    monkeypatch.setattr(programs, "program", lambda command, job, stdin: programs.pickle.dumps(error))
    with pytest.raises(RemoteProtocolError, match="call 3 was answered as call 2; look"):
        measure_pair(_quick(case_of("shm", "adaptive")))


@needs_grpc
def test_the_server_process_ends_with_its_client_and_leaves_no_socket() -> None:
    from lucky_transport_migration.bench.stubs import client

    with client.served("grpc-unix", 1000) as server:
        socket = Path(server.ready.removeprefix("unix:"))
        assert socket.exists()
        assert Path(f"/proc/{server.pid}").exists()
        with pytest.raises(RemoteProtocolError):
            client.ask_nobody("grpc-unix", server.ready, client.question(1, 100))
    assert not socket.parent.exists()
    assert not Path(f"/proc/{server.pid}").exists()


# what is checked while it is timed


def _answering(answer: Callable[[int], int]) -> Callable[[Any], Any]:
    """A unary call that answers the number n as if it had been `answer(n)`."""
    from lucky_transport_migration.bench.stubs.client import number_of, question

    return lambda request: question(answer(number_of(request)), 100)


class _Items(Iterator[Any]):
    """A stream of numbered items that is told of its end."""

    def __init__(self, *numbers: int) -> None:
        self._items = iter(SimpleNamespace(value=number.to_bytes(8, "little") + bytes(992)) for number in numbers)
        self.cancelled = False

    def __next__(self) -> Any:
        return next(self._items)

    def cancel(self) -> None:
        self.cancelled = True


def _measured(measure: str, call: Any, *given: Any) -> Any:
    """Measure a call with that function of the client's module."""
    from lucky_transport_migration.bench.stubs import client

    return getattr(client, measure)(call, *given, QUICK, None)


def _together(numbers: list[int]) -> Any:
    """Make calls at once that are answered with these numbers."""
    from lucky_transport_migration.bench.stubs import client

    futures = [SimpleNamespace(result=partial(client.question, number, 100)) for number in numbers]
    return client.ask_together(lambda _: futures.pop(), client.question(7, 100))


async def _awaited(request: Any) -> Any:
    return _answering(lambda number: number - (number == 3))(request)


#: What is measured while something is wrong, and the complaint.
WRONG: dict[str, tuple[Callable[[], Any], str]] = {
    "stale": (lambda: _measured("measure_unary", _answering(lambda n: n - (n == 3)), 100, None), "lost or doubled"),
    "stale at a rate": (
        lambda: _measured("measure_unary", _answering(lambda n: n - (n == 3)), 100, 200),
        "lost or doubled",
    ),
    "other bytes": (
        lambda: _measured("measure_bytes", lambda content: SimpleNamespace(value=bytes(1000)), "value", 1000),
        "lost or doubled",
    ),
    "one of many": (lambda: _together([7, 7, 8] * 10), "were answered together"),
    "of another caller": (
        lambda: _measured("measure_callers", _answering(lambda n: n + (n == 7)), 100, 4),
        "call 7 was answered as call 8",
    ),
    "awaited": (
        lambda: asyncio.run(_measured("measure_awaited", _awaited, 100)),
        "frame 2 came where frame 3 was due",
    ),
}


@needs_grpc
@pytest.mark.parametrize("wrong", WRONG)
def test_an_answer_that_belongs_to_another_call_ends_the_measurement(wrong: str) -> None:
    measured, complaint = WRONG[wrong]
    before = set(threading.enumerate())
    with pytest.raises(RemoteProtocolError, match=complaint):
        measured()
    until_none_left(lambda: set(threading.enumerate()) - before)


@needs_grpc
@pytest.mark.parametrize(
    ("stream", "complaint"),
    [
        (_Items(0, 2), "item 2 of 1000 bytes where item 1"),
        (_Items(0), "the stream ended before it could be measured"),
    ],
)
def test_a_wrong_item_ends_the_measurement_and_the_stream(stream: _Items, complaint: str) -> None:
    with pytest.raises(RemoteProtocolError, match=complaint):
        _measured("measure_stream", lambda request: stream, 1000)
    assert stream.cancelled


@needs_grpc
def test_every_one_of_many_callers_is_counted() -> None:
    from lucky_transport_migration.bench.stubs.client import measure_callers

    callers: set[int] = set()
    echo = _answering(lambda number: number)

    def call(request: Any) -> Any:
        callers.add(threading.get_ident())
        time.sleep(0.001)
        return echo(request)

    before = set(threading.enumerate())
    found = measure_callers(call, 100, 4, QUICK, None)
    assert len(callers) == 4
    assert found.n > 0
    assert found.us_each > 0
    until_none_left(lambda: set(threading.enumerate()) - before)

"""Calls of one batch are answered together, or end together; nothing of them is left."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

pytest.importorskip("grpc", reason="grpcio is not installed: pip install 'lucky-transport[grpc]'")

from lucky_transport.errors import EngineFailed, LocalProtocolError, PeerTimeout, TransportError
from lucky_transport_grpc.batcher import Batcher
from lucky_transport_grpc.caller import Caller, ServerContext
from lucky_transport_grpc.metadata import BATCH, CLIENT
from tests.support.waiting import PATIENCE_S, until


@dataclass
class Call:
    """What a `Caller` is to a gathering."""

    key: str = "me"
    batch: int = 1
    timeout_s: float = 10.0
    callbacks: list[Callable[[], None]] = field(default_factory=list)

    def on_end(self, callback: Callable[[], None]) -> None:
        self.callbacks.append(callback)


def _double(items: Sequence[int]) -> list[int]:
    return [2 * item for item in items]


def _join(gathering: Batcher[int, int], item: int, call: Any, run: Any = _double) -> int:
    return gathering.join(item, call, run)


@settings(max_examples=30, deadline=None)
@given(size=st.integers(1, 12), clients=st.integers(1, 3))
def test_every_call_gets_its_own_answer_from_one_run(size: int, clients: int) -> None:
    gathering: Batcher[int, int] = Batcher("Step")
    runs: list[int] = []

    def run(items: Sequence[int]) -> list[int]:
        runs.append(len(items))
        return _double(items)

    with ThreadPoolExecutor(size * clients) as pool:
        calls = [
            (item, pool.submit(_join, gathering, item, Call(f"client {client}", size), run))
            for item in range(size)
            for client in range(clients)
        ]
        assert all(future.result(PATIENCE_S) == 2 * item for item, future in calls)
    assert runs == [size] * clients
    assert len(gathering) == 0


@pytest.mark.parametrize(
    ("error", "others"),
    [(EngineFailed("it broke"), "it broke"), (MemoryError("it is full"), "MemoryError: it is full")],
)
def test_what_the_run_raised_is_raised_for_every_call(error: Exception, others: str) -> None:
    gathering: Batcher[int, int] = Batcher("Step")

    def fail(_: Sequence[int]) -> list[int]:
        raise error

    with ThreadPoolExecutor(3) as pool:
        calls = [pool.submit(_join, gathering, item, Call(batch=3), fail) for item in range(3)]
        raised = [call.exception(PATIENCE_S) for call in calls]
    assert sorted(str(one) for one in raised) == sorted([str(error), others, others])
    assert all(isinstance(one, TransportError) for one in raised if one is not error)
    assert len(gathering) == 0


def _waiting(gathering: Batcher[int, int], pool: ThreadPoolExecutor, call: Call) -> Future[int]:
    future = pool.submit(_join, gathering, 1, call)
    until(lambda: call.callbacks)
    return future


def test_the_first_deadline_ends_the_batch_for_all() -> None:
    gathering: Batcher[int, int] = Batcher("Step")
    with ThreadPoolExecutor(2) as pool:
        patient = _waiting(gathering, pool, Call(batch=3))
        hasty = pool.submit(_join, gathering, 2, Call(batch=3, timeout_s=0.01))
        for future in (patient, hasty):
            with pytest.raises(PeerTimeout, match=r"a batch of 3 Steps got only 2: one of its calls waited 0\.01 s"):
                future.result(PATIENCE_S)
    assert len(gathering) == 0


def test_a_call_that_ends_early_ends_the_batch_for_all() -> None:
    gathering: Batcher[int, int] = Batcher("Step")
    gone = Call(batch=3)
    with ThreadPoolExecutor(2) as pool:
        patient = _waiting(gathering, pool, Call(batch=3))
        leaving = _waiting(gathering, pool, gone)
        gone.callbacks[0]()
        for future in (patient, leaving):
            with pytest.raises(PeerTimeout, match="got only 2: one of its calls ended before"):
                future.result(PATIENCE_S)
    assert len(gathering) == 0


def test_a_call_that_ended_before_it_came_ends_the_batch_for_all() -> None:
    class Over:
        """The context of a call whose client has left."""

        def invocation_metadata(self) -> tuple[tuple[str, str], ...]:
            return (CLIENT, "me"), (BATCH, "3")

        def time_remaining(self) -> float:
            return PATIENCE_S

        def add_callback(self, callback: Callable[[], None]) -> bool:
            return False

    gathering: Batcher[int, int] = Batcher("Step")
    with ThreadPoolExecutor(2) as pool:
        patient = _waiting(gathering, pool, Call(batch=3))
        gone = pool.submit(_join, gathering, 2, Caller(Over(), ServerContext()))
        for future in (patient, gone):
            with pytest.raises(PeerTimeout, match="got only 2: one of its calls ended before"):
                future.result(PATIENCE_S)
    assert len(gathering) == 0


def test_the_end_of_a_call_after_its_answer_changes_nothing() -> None:
    gathering: Batcher[int, int] = Batcher("Step")
    first = Call(batch=2)
    with ThreadPoolExecutor(1) as pool:
        future = _waiting(gathering, pool, first)
        assert _join(gathering, 5, Call(batch=2)) == 10
        assert future.result(PATIENCE_S) == 2
        waiting = _waiting(gathering, pool, Call(batch=2))
        first.callbacks[0]()
        assert _join(gathering, 6, Call(batch=2)) == 12
        assert waiting.result(PATIENCE_S) == 2


def test_calls_that_disagree_about_the_size_are_refused() -> None:
    gathering: Batcher[int, int] = Batcher("Step")
    with ThreadPoolExecutor(1) as pool:
        future = _waiting(gathering, pool, Call(batch=2))
        with pytest.raises(LocalProtocolError, match="a batch of 3 Steps was begun before the one of 2 was complete"):
            _join(gathering, 1, Call(batch=3))
        assert _join(gathering, 1, Call(batch=2)) == 2
        assert future.result(PATIENCE_S) == 2

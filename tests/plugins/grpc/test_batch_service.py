"""The batch service does each exchange of its spec once; calls of a batch are answered together, or end together."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

pytest.importorskip("grpc", reason="grpcio is not installed: pip install 'lucky-transport[grpc]'")

from lucky_transport.engine import HOLD, RESET
from lucky_transport.engines.toy import ToyEngine
from lucky_transport.errors import EngineFailed, LocalProtocolError, PeerTimeout, TransportError
from lucky_transport.serving import Serving
from lucky_transport.spec.batch_spec import BatchSpec
from lucky_transport.testing.suite import open_reference
from lucky_transport_grpc import _pb
from lucky_transport_grpc.batcher import Batcher
from lucky_transport_grpc.caller import Caller, ServerContext
from lucky_transport_grpc.metadata import BATCH, CLIENT
from lucky_transport_grpc.runtime import grpc
from tests.support.waiting import PATIENCE_S, until

Serve = Callable[..., Serving]
SERVICE = "/lucky_transport.v1.BatchService/"
EXCHANGE = SERVICE + "Exchange"
ME = (("lucky-client", "me"),)
ZEROS = bytes(2 * 2 * 4)


def test_the_spec_is_the_engines_own(serve: Serve, stub: Any) -> None:
    serving = serve(num_envs=3, obs_size=5)
    reply = stub(serving).call(SERVICE + "GetSpec")
    assert BatchSpec.from_json(reply.spec_json) == serving.host.spec


def test_an_exchange_answers_with_the_engines_bytes(serve: Serve, stub: Any) -> None:
    actions = np.random.default_rng(0).uniform(-1, 1, (3, 2)).astype(np.float32)
    control = np.array([0, RESET, HOLD], np.uint8)
    raw = stub(serve(num_envs=3, seed=2))
    reply = raw.call(EXCHANGE, ME, action_seq=1, actions=actions.tobytes(), control=control.tobytes())
    with open_reference(ToyEngine(3, seed=2), 3) as reference:
        frame = reference.step(actions, control)
        assert reply.frame_seq == 1
        assert reply.observations == frame.observations.tobytes()
        assert reply.rewards == frame.rewards.tobytes()
        assert reply.terminated == frame.terminated.tobytes()
        assert reply.truncated == frame.truncated.tobytes()
        assert reply.signals == frame.signals.tobytes()


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        ({"actions": ZEROS[1:]}, "actions: 15 bytes, expected 16 (float32 (2, 2))"),
        ({"actions": b""}, "actions: 0 bytes, expected 16"),
        ({"actions": ZEROS + b"\0"}, "actions: 17 bytes, expected 16"),
        ({"actions": np.array([0, 0, np.nan, 0], np.float32).tobytes()}, "actions are not finite: nan at [1, 0]"),
        ({"actions": np.array([0, -np.inf, 0, 0], np.float32).tobytes()}, "actions are not finite: -inf at [0, 1]"),
        ({"control": b"\0"}, "control: 1 bytes, expected 2"),
        ({"control": b"\0\10"}, "control byte 8: expected 0 to 7"),
        ({"action_seq": 0}, "exchanges are numbered from 1"),
    ],
)
def test_bytes_that_do_not_fit_the_spec_are_refused_and_nothing_is_stepped(
    serve: Serve, stub: Any, fields: dict[str, Any], text: str, refused: Any
) -> None:
    raw = stub(serve(num_envs=2))
    error = refused(raw.call, EXCHANGE, ME, **{"action_seq": 1, "actions": ZEROS} | fields)
    assert error.code() is grpc.StatusCode.INVALID_ARGUMENT
    assert text in error.details()
    assert raw.call(EXCHANGE, ME, action_seq=1, actions=ZEROS).frame_seq == 1


def test_every_combination_of_the_three_bits_is_a_control_byte(serve: Serve, stub: Any) -> None:
    raw = stub(serve(num_envs=2))
    for byte in range(8):
        reply = raw.call(EXCHANGE, ME, action_seq=byte + 1, actions=ZEROS, control=bytes([byte, 0]))
        assert reply.frame_seq == byte + 1


def test_holding_is_refused_where_the_engine_cannot(serve: Serve, stub: Any, refused: Any) -> None:
    error = refused(
        stub(serve(num_envs=2, hold=False)).call, EXCHANGE, ME, action_seq=1, actions=ZEROS, control=b"\0\2"
    )
    assert error.code() is grpc.StatusCode.FAILED_PRECONDITION


def test_a_repeated_exchange_is_answered_again_and_not_done_again(serve: Serve, stub: Any) -> None:
    raw = stub(serve(num_envs=2))
    first = raw.call(EXCHANGE, ME, action_seq=7, actions=ZEROS)
    assert raw.call(EXCHANGE, ME, action_seq=7, actions=ZEROS) == first
    assert raw.call(EXCHANGE, ME, action_seq=8, actions=ZEROS).frame_seq == first.frame_seq + 1


@pytest.mark.parametrize("seq", [5, 6, 9, 2**63])
def test_a_number_out_of_order_is_refused(serve: Serve, stub: Any, seq: int, refused: Any) -> None:
    raw = stub(serve(num_envs=2))
    raw.call(EXCHANGE, ME, action_seq=7, actions=ZEROS)
    error = refused(raw.call, EXCHANGE, ME, action_seq=seq, actions=ZEROS)
    assert f"exchange {seq} after exchange 7: expected 8" in error.details()


def test_a_client_that_cannot_be_told_from_another_is_its_address(serve: Serve, stub: Any) -> None:
    serving = serve(num_envs=2)
    stub(serving).call(EXCHANGE, action_seq=1, actions=ZEROS)
    assert serving.host.driver.startswith("grpc client ipv4:127.0.0.1:")


def _attach(raw: Any, name: str) -> Any:
    found: Any = _pb.methods()[SERVICE + "Attach"]
    stream = raw.channel.unary_stream(found.path, found.request.SerializeToString, found.response.FromString)
    call = stream(found.request(client_id=name, pid=4321), metadata=(("lucky-client", name),))
    assert next(call).engine_state == "ready"
    return call


def test_the_end_of_an_attachment_releases_the_lease(serve: Serve, stub: Any) -> None:
    serving = serve(num_envs=2)
    raw = stub(serving)
    attachment = _attach(raw, "me")
    raw.call(EXCHANGE, ME, action_seq=1, actions=ZEROS)
    assert serving.host.driver == "grpc client of pid 4321 (me)"
    attachment.cancel()
    until(lambda: not serving.host.driver)


def test_the_end_of_another_clients_attachment_releases_nothing(serve: Serve, stub: Any) -> None:
    serving = serve(num_envs=2)
    raw, other = stub(serving), stub(serving)
    attachment = _attach(raw, "me")
    watching = _attach(other, "you")
    raw.call(EXCHANGE, ME, action_seq=1, actions=ZEROS)
    watching.cancel()
    assert raw.call(EXCHANGE, ME, action_seq=2, actions=ZEROS).frame_seq == 2
    assert serving.host.driver == "grpc client of pid 4321 (me)"
    attachment.cancel()


def test_attached_clients_are_told_that_the_engine_closes(serve: Serve, stub: Any) -> None:
    serving = serve(num_envs=2)
    attachment = _attach(stub(serving), "me")
    serving.stop()
    assert [event.engine_state for event in attachment] == ["closing"]


# --- batches of calls ---


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

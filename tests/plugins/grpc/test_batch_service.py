"""The batch service does each exchange of its spec once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

pytest.importorskip("grpc", reason="grpcio is not installed: pip install 'lucky-transport[grpc]'")

from lucky_transport.engine import HOLD, RESET
from lucky_transport.engines.toy import ToyEngine
from lucky_transport.serving import Serving
from lucky_transport.spec.batch_spec import BatchSpec
from lucky_transport.testing.suite import open_reference
from lucky_transport_grpc import _pb
from lucky_transport_grpc.runtime import grpc
from tests.support.waiting import until

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

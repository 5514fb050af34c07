"""What is special about the gRPC client; what every transport promises is in test_grpc_contract.py."""

from __future__ import annotations

import dataclasses
import logging
import socket
import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

pytest.importorskip("grpc", reason="grpcio is not installed: pip install 'lucky-transport[grpc]'")

from lucky_transport.config import Settings
from lucky_transport.endpoint import Endpoint
from lucky_transport.engines.toy import ToyEngine
from lucky_transport.errors import (
    ConfigError,
    NotReachable,
    SpecError,
)
from lucky_transport.serving import Serving
from lucky_transport.spec.batch_spec import ArraySpec
from lucky_transport.testing.suite import open_reference
from lucky_transport.testing.trajectories import first_difference, random_moves, record_frames
from lucky_transport_grpc import client as grpc_client
from lucky_transport_grpc.metadata import WINDOW
from lucky_transport_grpc.server import GrpcServer
from tests.support.waiting import PATIENCE_S

Serve = Callable[..., Serving]
SERVICES = ("batch", "agent")


# --- parity ---


@pytest.mark.exhaustive
@pytest.mark.parametrize("service", SERVICES)
def test_more_envs_than_one_batch_of_calls_give_the_references_bits(serve: Serve, connect: Any, service: str) -> None:
    options: dict[str, Any] = {"obs_size": 6, "act_size": 3, "seed": 5, "episode_steps": 9}
    client = connect(serve(ToyEngine(WINDOW + 44, **options)), service)
    moves = random_moves(client.spec, 12, seed=1)
    with open_reference("toy", WINDOW + 44, **options) as reference:
        expected = record_frames(reference, moves)
    assert expected["truncated"].any()
    assert first_difference(record_frames(client, moves), expected) is None


@pytest.mark.parametrize("service", SERVICES)
def test_sending_and_receiving_apart_gives_the_same_bits_as_stepping(serve: Serve, connect: Any, service: str) -> None:
    at_once, apart = connect(serve(seed=3), service), connect(serve(seed=3), service)
    for actions, control in random_moves(at_once.spec, 60, seed=1):
        apart.send(actions, control)
        assert apart.recv().observations.tobytes() == at_once.step(actions, control).observations.tobytes()


def test_frames_too_large_for_a_blocking_call_are_the_same(
    serve: Serve, connect: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lucky_transport_grpc.batch_exchange._BLOCKING_BYTES", 0)
    client = connect(serve(num_envs=3, seed=2), "batch")
    moves = random_moves(client.spec, 40, seed=1)
    with open_reference("toy", 3, seed=2) as reference:
        assert first_difference(record_frames(client, moves), record_frames(reference, moves)) is None


def test_frames_beyond_grpcs_own_limit_travel(serve: Serve, connect: Any, zeros: Any) -> None:
    client = connect(serve(num_envs=700, obs_size=2000), "batch")
    assert client.step(zeros(client)).observations.nbytes == 700 * 2000 * 4


def test_a_batch_frame_survives_the_next_ones(serve: Serve, connect: Any) -> None:
    client = connect(serve(), "batch")
    frame = client.step(np.ones((2, 2), np.float32))
    copy = frame.observations.copy()
    client.step(-np.ones((2, 2), np.float32))
    assert np.array_equal(frame.observations, copy)


# --- connecting ---


def test_the_batch_service_is_taken_where_it_is_offered_and_the_log_says_so(
    serve: Serve, connect: Any, caplog: pytest.LogCaptureFixture
) -> None:
    serving = serve()
    with caplog.at_level(logging.INFO, "lucky_transport"):
        connect(serving)
        connect(serving, "agent")
    assert "batch service" in caplog.messages[0]
    assert "agent by agent" in caplog.messages[1]


def test_an_address_without_a_server_is_named_with_the_reason_and_the_remedy() -> None:
    endpoint = Endpoint.parse("grpc://127.0.0.1:1")
    with pytest.raises(
        NotReachable,
        match=r"no engine at grpc://127\.0\.0\.1:1 within 0\.2 s: .*Connection refused.*lucky-transport serve",
    ):
        grpc_client.connect(endpoint, Settings(connect_timeout_s=0.2))


def test_a_socket_file_that_is_not_there_is_named(tmp_path: Any) -> None:
    endpoint = Endpoint.parse(f"grpc+unix://{tmp_path}/none.sock")
    with pytest.raises(NotReachable, match=r"none\.sock.*No such file"):
        grpc_client.connect(endpoint, Settings(connect_timeout_s=0.2))


def test_a_server_that_does_not_speak_grpc_is_given_up_at_the_deadline() -> None:
    with socket.create_server(("127.0.0.1", 0)) as mute:
        endpoint = Endpoint.parse(f"grpc://127.0.0.1:{mute.getsockname()[1]}")
        with pytest.raises(NotReachable, match=r"within 0\.3 s"):
            grpc_client.connect(endpoint, Settings(connect_timeout_s=0.3))


def test_an_engine_that_starts_a_little_later_is_met(connect: Any, zeros: Any) -> None:
    with Serving(ToyEngine(), [GrpcServer(Endpoint.parse("grpc://127.0.0.1:0"), Settings())]) as early:
        endpoint = early.endpoints[0]
    opened: list[Any] = []
    waiting = threading.Thread(target=lambda: opened.append(connect(endpoint)))
    waiting.start()
    with Serving(ToyEngine(), [GrpcServer(endpoint, Settings())]):
        waiting.join(PATIENCE_S)
        assert opened[0].step(zeros(opened[0])).seq == 1
        opened[0].close()


@pytest.mark.parametrize("url", ["grpc://127.0.0.1", "grpc://127.0.0.1:1?service=fast"])
def test_a_malformed_endpoint_is_refused_at_once(url: str) -> None:
    with pytest.raises(ConfigError, match=r"write for instance|expected one of"):
        grpc_client.connect(Endpoint.parse(url), Settings())


def test_proxy_variables_do_not_matter(serve: Serve, connect: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "https_proxy", "grpc_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:1")
    assert connect(serve()).spec.engine == "toy"


# --- what the legacy service cannot carry ---


class Wide(ToyEngine):
    """A toy that says its arrays have other dtypes."""

    def __init__(self, observation: ArraySpec, action: ArraySpec) -> None:
        super().__init__(2, obs_size=2, act_size=2)
        self.spec = dataclasses.replace(
            self.spec, observation=observation, action=action, observation_names=(), action_names=()
        )


FLOAT = ArraySpec("float32", (2,))


@pytest.mark.parametrize(
    ("observation", "action"),
    [
        *[(ArraySpec(dtype, (2,)), FLOAT) for dtype in ("float64", "int32", "uint32", "int64", "uint64")],
        (ArraySpec("int64", (2,), 0, 1 << 25), FLOAT),
        (FLOAT, ArraySpec("float64", (2,))),
        (FLOAT, ArraySpec("int64", (2,))),
    ],
)
def test_the_agent_service_refuses_what_float32_cannot_carry_exactly(
    serve: Serve, connect: Any, observation: ArraySpec, action: ArraySpec
) -> None:
    serving = serve(Wide(observation, action))
    with pytest.raises(SpecError, match="use the batch service"):
        connect(serving, "agent")
    assert connect(serving, "batch").spec == serving.host.spec


@pytest.mark.parametrize("dtype", ["float32", "int8", "int16", "uint8", "uint16", "bool"])
def test_the_agent_service_takes_what_float32_carries_exactly(serve: Serve, connect: Any, dtype: str) -> None:
    assert connect(serve(Wide(ArraySpec(dtype, (2,)), FLOAT)), "agent").spec.observation.dtype == dtype


def test_a_discrete_observation_is_small_enough_for_the_agent_service(serve: Serve, connect: Any) -> None:
    discrete = ArraySpec("int64", (), 0, 15, n=16)
    assert connect(serve(Wide(discrete, FLOAT)), "agent").spec.observation == discrete

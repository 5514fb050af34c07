"""What is special about the gRPC client: its services, connecting, and how an exchange ends."""

import dataclasses
import logging
import os
import socket
import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

pytest.importorskip("grpc", reason="grpcio is not installed: pip install 'lucky-transport[grpc]'")

from lucky_transport import api, errors
from lucky_transport.config import Settings
from lucky_transport.deadline import Deadline
from lucky_transport.endpoint import Endpoint
from lucky_transport.messages.methods import method
from lucky_transport.spec.batch_spec import ArraySpec
from lucky_transport.testing.suite import open_reference, outcome_when, zeros
from lucky_transport.testing.trajectories import first_difference, random_moves, record_frames
from lucky_transport_grpc import client as grpc_client
from tests.plugins.grpc.conftest import Serve
from tests.support.resources import threads_of
from tests.support.scripted_engine import ScriptedEngine
from tests.support.waiting import PATIENCE_S, beside, until, until_none_left

SERVICES = ("batch", "agent")


# --- parity ---


@pytest.mark.exhaustive
@pytest.mark.parametrize("service", SERVICES)
def test_more_envs_than_calls_are_under_way_give_the_references_bits(serve: Serve, connect: Any, service: str) -> None:
    options: dict[str, Any] = {"obs_size": 6, "act_size": 3, "seed": 5, "episode_steps": 9}
    client = connect(serve(ScriptedEngine(300, **options)), service)
    moves = random_moves(client.spec, 12, seed=1)
    with open_reference("toy", 300, **options) as reference:
        expected = record_frames(reference, moves)
    assert expected["truncated"].any()
    assert first_difference(record_frames(client, moves), expected) is None


def test_frames_too_large_for_a_blocking_call_are_the_same(
    serve: Serve, connect: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lucky_transport_grpc.batch_exchange._BLOCKING_BYTES", 0)
    client = connect(serve(num_envs=3, seed=2), "batch")
    moves = random_moves(client.spec, 40, seed=1)
    with open_reference("toy", 3, seed=2) as reference:
        assert first_difference(record_frames(client, moves), record_frames(reference, moves)) is None


def test_frames_beyond_grpcs_own_limit_travel(serve: Serve, connect: Any) -> None:
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


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("grpc://127.0.0.1:1", r"no engine at grpc://127\.0\.0\.1:1 within 0\.2 s: .*refused.*lucky-transport serve"),
        ("grpc+unix:///no/such/none.sock", r"none\.sock.*No such file"),
    ],
)
def test_an_address_without_a_server_is_named_with_the_reason_and_the_remedy(url: str, words: str) -> None:
    with pytest.raises(errors.NotReachable, match=words):
        grpc_client.connect(Endpoint.parse(url), Settings(connect_timeout_s=0.2))


def test_a_server_that_does_not_speak_grpc_is_given_up_at_the_deadline() -> None:
    with socket.create_server(("127.0.0.1", 0)) as mute:
        endpoint = Endpoint.parse(f"grpc://127.0.0.1:{mute.getsockname()[1]}")
        with pytest.raises(errors.NotReachable, match=r"within 0\.3 s"):
            grpc_client.connect(endpoint, Settings(connect_timeout_s=0.3))


def test_an_engine_that_starts_a_little_later_is_met(connect: Any) -> None:
    with api.serve("toy", "grpc://127.0.0.1:0") as early:
        endpoint = early.endpoints[0]
    opened: list[Any] = []
    with beside(lambda: opened.append(connect(endpoint))), api.serve("toy", str(endpoint)):
        until(lambda: opened)
        assert opened[0].step(zeros(opened[0])).seq == 1
        opened[0].close()


def test_proxy_variables_do_not_matter(serve: Serve, connect: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "https_proxy", "grpc_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:1")
    assert connect(serve()).spec.engine == "toy"


# --- what the legacy service cannot carry ---


class Wide(ScriptedEngine):
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
    with pytest.raises(errors.SpecError, match="use the batch service"):
        connect(serving, "agent")
    assert connect(serving, "batch").spec == serving.host.spec


@pytest.mark.parametrize("dtype", ["float32", "int8", "int16", "uint8", "uint16", "bool"])
def test_the_agent_service_takes_what_float32_carries_exactly(serve: Serve, connect: Any, dtype: str) -> None:
    assert connect(serve(Wide(ArraySpec(dtype, (2,)), FLOAT)), "agent").spec.observation.dtype == dtype


def test_a_discrete_observation_is_small_enough_for_the_agent_service(serve: Serve, connect: Any) -> None:
    discrete = ArraySpec("int64", (), 0, 15, n=16)
    assert connect(serve(Wide(discrete, FLOAT)), "agent").spec.observation == discrete


# --- deadlines and drivers ---


@pytest.mark.parametrize("service", SERVICES)
def test_an_expired_deadline_sends_the_step_all_the_same(serve: Serve, connect: Any, service: str) -> None:
    client = connect(serve(num_envs=1, step_delay_s=0.1), service)
    with pytest.raises(errors.PeerTimeout, match=r"within 0 s.*LUCKY_STEP_TIMEOUT_S"):
        client.step(zeros(client), None, Deadline(0.0))
    assert client.recv().seq == 1
    assert client.step(zeros(client)).seq == 2


def test_closing_ends_although_grpc_never_answers(serve: Serve, connect: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    client = connect(serve())
    forever, real_close = threading.Event(), client._connection._channel.close
    monkeypatch.setattr(client._connection._channel, "close", forever.wait)
    monkeypatch.setattr("lucky_transport_grpc.connection._CLOSE_S", 0.05)
    client.close()
    forever.set()
    real_close()


@pytest.mark.parametrize("first", SERVICES)
@pytest.mark.parametrize("second", SERVICES)
def test_a_second_driver_learns_which_client_drives(serve: Serve, connect: Any, first: str, second: str) -> None:
    serving = serve(idle_s=0.0)
    driver, other = connect(serving, first), connect(serving, second)
    driver.step(zeros(driver))
    with pytest.raises(
        errors.Busy, match=rf"engine 'toy' is driven by grpc client of pid {os.getpid()} \(\w+\); close that"
    ):
        other.step(zeros(other))
    driver.step(zeros(driver))
    driver.close()
    until(lambda: not serving.host.driver)
    assert other.step(zeros(other)).seq == 1


def test_a_legacy_client_that_does_nothing_is_replaced(serve: Serve, connect: Any, stub: Any) -> None:
    serving = serve(idle_s=0.0)
    legacy = stub(serving)
    legacy.call("Step")
    client = connect(serving)
    client.step(zeros(client))
    with pytest.raises(Exception, match="is driven by grpc client of pid"):
        legacy.call("Step")


# --- a chunked exchange that fails half way ---


def test_an_engine_failure_in_the_middle_of_an_exchange_ends_it(serve: Serve, connect: Any) -> None:
    client = connect(serve(ScriptedEngine(300, fail_at=2)), "agent")  # 300 agents are two exchanges of the server
    with pytest.raises(errors.EngineFailed, match="asked to fail at step 2"):
        client.step(zeros(client))
    assert client.step(zeros(client)).seq == 1


# --- closing ---


def test_a_call_begun_while_another_thread_closes_is_refused_as_one_begun_afterwards(
    serve: Serve, connect: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    transport, row = connect(serve()), method("AgentService/GetAgentSchema")
    beginning = transport._connection._beginning
    run = beginning.run

    def run_once_closed(task: Callable[[], object]) -> None:
        transport.close()
        run(task)

    monkeypatch.setattr(beginning, "run", run_once_closed)
    with pytest.raises(errors.ClosedError, match="the transport is closed"):
        transport.begin(row, row.request())


def test_reset_options_begun_at_an_engine_without_the_batch_service_stay_with_the_client(
    serve: Serve, connect: Any
) -> None:
    client = connect(serve(legacy=True), "agent")
    row = method("BatchService/SetResetOptions")
    assert client.begin(row, row.request(), None).result(PATIENCE_S).success
    with pytest.raises(errors.Unimplemented, match="a legacy engine takes reset options as a contract only"):
        client.begin(row, row.request(options_json='{"a": 1}'), None)


def test_closing_releases_the_lease_and_the_threads(serve: Serve, connect: Any) -> None:
    serving, before = serve(), set(threads_of("channel_spin"))
    client = connect(serving)
    client.step(zeros(client))
    client.close()
    until(lambda: not serving.host.driver)
    until_none_left(lambda: set(threads_of("channel_spin")) - before)


def test_closing_ends_a_wait_in_another_thread(serve: Serve, connect: Any) -> None:
    resume = threading.Event()
    client = connect(serve(ScriptedEngine(on_step=lambda control: resume.wait(PATIENCE_S))))
    client.send(zeros(client))
    found = outcome_when(client.close, client, lambda client: client.recv())
    resume.set()
    assert found == "ClosedError: the transport is closed; connect again"


def test_a_frame_out_of_order_is_refused(serve: Serve, connect: Any) -> None:
    client = connect(serve(), "batch")
    client.step(zeros(client))
    client._exchange._frame_seq += 1
    with pytest.raises(errors.RemoteProtocolError, match="frame 2 after frame 2: one was lost"):
        client.step(zeros(client))

"""A relay over shared memory keeps what a transport and an engine promise, with the engine behind gRPC."""

from __future__ import annotations

import re
from collections.abc import Callable, Generator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("grpc", reason="grpcio is not installed: pip install 'lucky-transport[grpc]'")

from lucky_transport import api
from lucky_transport.call import Call
from lucky_transport.deadline import Deadline
from lucky_transport.endpoint import Endpoint
from lucky_transport.engine import HOLD, RESET, TICK, Engine
from lucky_transport.engines.toy import ToyEngine
from lucky_transport.errors import (
    Busy,
    ConfigError,
    NotReachable,
    PeerDied,
    PeerTimeout,
    SpecError,
    Unimplemented,
    UnknownName,
)
from lucky_transport.messages import GetAgentSchemaRequest, GetCameraFrameRequest, SetSeedsRequest, StepRequest
from lucky_transport.messages.methods import method
from lucky_transport.process import EngineProcess, unique_name
from lucky_transport.testing.contract import EngineContract, TransportContract
from lucky_transport.testing.image_engine import ImageEngine
from lucky_transport.testing.suite import every, open_reference
from lucky_transport.testing.trajectories import first_difference, random_moves, record_frames
from lucky_transport.transport import Capabilities, Transport
from tests.support.waiting import PATIENCE_S, until

pytestmark = pytest.mark.usefixtures("forked_engines")

STEP = method("AgentService/Step")
SCHEMA = method("AgentService/GetAgentSchema")
DRAW = method("DebugService/Draw")
SET_SEEDS = method("BatchService/SetSeeds")


@pytest.mark.exhaustive
class TestRelayToGrpc(TransportContract):
    """Every client of the relay gets what it gets of the engine itself without a wire."""

    declares = Capabilities(zero_copy=True, streams=True, sessions=True, images=True)
    endpoint = "shm://{name}"
    target = "grpc://127.0.0.1:0"

    @contextmanager
    def serve(self, engine: str | Engine = "toy", num_envs: int = 4, **options: Any) -> Generator[Endpoint]:
        with api.serve(engine, self.target.format(name=unique_name()), num_envs=num_envs, options=options) as served:
            endpoint = self.endpoint.format(name=unique_name())
            with api.serve(f"relay:{served.endpoints[0]}", endpoint, **self.settings) as relay:
                yield relay.endpoints[0]

    #: In-step images are the one thing that a relay does not carry; it refuses them as an engine without cameras does.
    def test_the_images_of_a_step_come_with_its_answer(self) -> None:
        with self.open_client(ImageEngine()) as client:
            answer = client.call(STEP, StepRequest("agent_1", camera_requests=[GetCameraFrameRequest(name="front")]))
        assert not answer.success
        assert "in-step cameras are not served yet (1 requested)" in answer.message

    def test_an_image_that_cannot_be_taken_is_refused_and_the_next_one_comes(self) -> None:
        with self.open_client(ImageEngine()) as client:
            request = StepRequest("agent_0", camera_requests=[GetCameraFrameRequest(name="broken")])
            assert not client.call(STEP, request).success
            assert client.call(STEP, StepRequest("agent_0")).success


class TestRelayAsAnEngine(EngineContract):
    """A relay to a toy behind gRPC keeps the rules of an engine."""

    @pytest.fixture(autouse=True)
    def _servings(self) -> Generator[None]:
        with ExitStack() as self.stack:
            yield

    def make_engine(self, num_envs: int) -> Engine:
        served = self.stack.enter_context(
            api.serve("toy", "grpc://127.0.0.1:0", num_envs=num_envs, options={"episode_steps": 20})
        )
        return api.make_engine(f"relay:{served.endpoints[0]}", num_envs)


@contextmanager
def engine_at(endpoint: str, num_envs: int) -> Generator[EngineProcess]:
    """Run a toy in a process of its own."""
    engine = EngineProcess("toy", [endpoint], num_envs=num_envs)
    try:
        yield engine
    finally:
        engine.stop()


def kill(engine: EngineProcess) -> None:
    """Let the engine die without a word."""
    engine.kill()
    until(lambda: not engine.is_alive)


@pytest.fixture
def relay() -> Generator[Callable[..., Transport]]:
    """Serve a relay to an endpoint over shared memory; return its clients, one endpoint each time."""
    with ExitStack() as stack:

        def start(target: object, **options: Any) -> Transport:
            serving = stack.enter_context(api.serve(f"relay:{target}", f"shm://{unique_name()}", **options))
            return stack.enter_context(api.open_transport(serving.endpoints[0]))

        yield start


@pytest.mark.parametrize("num_envs", [1, 3])
def test_a_legacy_engine_gives_the_references_bits(serve: Any, relay: Any, num_envs: int) -> None:
    options: dict[str, Any] = {"seed": 5, "episode_steps": 9, "reset_ticks": 1}
    client = relay(serve(ToyEngine(num_envs, **options), legacy=True).endpoints[0])
    moves = random_moves(client.spec, 60, seed=num_envs)
    with open_reference("toy", num_envs, **options) as reference:
        expected = record_frames(reference, moves)
    assert expected["truncated"].any()
    assert first_difference(record_frames(client, moves), expected) is None


def test_what_a_legacy_engine_lacks_is_unimplemented_by_name(serve: Any, relay: Any) -> None:
    client = relay(serve(legacy=True).endpoints[0])
    with pytest.raises(Unimplemented, match=r"does not implement /hazel\.rpc\.DebugService/Draw"):
        client.call(DRAW, DRAW.request())
    with pytest.raises(Unimplemented, match=r"has no batch service, so no /lucky_transport\.v1.BatchService/SetSeeds"):
        client.call(SET_SEEDS, SetSeedsRequest([1, 2]))


def test_a_relay_to_a_relay_gives_the_references_bits(serve: Any, relay: Any) -> None:
    first = api.serve(f"relay:{serve(seed=5, episode_steps=9).endpoints[0]}", f"shm://{unique_name()}")
    with first, open_reference("toy", 2, seed=5, episode_steps=9) as reference:
        client = relay(first.endpoints[0])
        assert client.spec == reference.spec
        moves = random_moves(client.spec, 40, seed=1)
        assert first_difference(record_frames(client, moves), record_frames(reference, moves)) is None
        client.close()


def test_an_engine_that_dies_and_comes_back_is_used_after_a_reset(tmp_path: Path, relay: Any, zeros: Any) -> None:
    endpoint = f"grpc+unix://{tmp_path}/engine.sock"
    with engine_at(endpoint, 2) as engine:
        client = relay(endpoint)
        reset = every(client, RESET)
        client.step(zeros(client), reset)
        kill(engine)
    with pytest.raises(PeerDied, match=r"connection to the engine at .* is lost: .*; the relay connects again once"):
        client.step(zeros(client))
    for use in (lambda: client.step(zeros(client)), lambda: client.call(SCHEMA, GetAgentSchemaRequest())):
        with pytest.raises(NotReachable, match=r"no engine at .*; the relay connects by itself once"):
            use()
    with engine_at(endpoint, 2):
        with pytest.raises(PeerDied, match=r"was made anew, and envs \[0, 1\] have not been reset since; reset them"):
            client.step(zeros(client))
        mixed = np.array([RESET, 0], np.uint8)
        with pytest.raises(PeerDied, match=r"envs \[1\] have not been reset"):
            client.step(zeros(client), mixed)
        client.step(zeros(client), reset)
        client.step(zeros(client))
        assert client.call(SCHEMA, GetAgentSchemaRequest("agent_1")).schema.agent_name == "agent_1"


def test_another_engine_at_the_endpoint_is_refused(tmp_path: Path, relay: Any, zeros: Any) -> None:
    endpoint = f"grpc+unix://{tmp_path}/engine.sock"
    with engine_at(endpoint, 2) as engine:
        client = relay(endpoint)
        kill(engine)
    with pytest.raises(PeerDied):
        client.step(zeros(client))
    with (
        engine_at(endpoint, 3),
        pytest.raises(SpecError, match=r"another engine is at .* 'toy' with 3 envs.*; restart the relay"),
    ):
        client.step(zeros(client))


def test_a_step_outlasts_the_relays_own_patience(
    serve: Any, relay: Any, zeros: Any, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("LUCKY_STEP_TIMEOUT_S", "0.05")
    target = serve(step_delay_s=0.3).endpoints[0]
    client = relay(target)
    client.send(zeros(client))
    assert client.recv(Deadline(PATIENCE_S)).seq == 1
    assert "relay: still waiting: no answer from the engine" in caplog.text


def test_a_calls_deadline_and_its_cancel_reach_the_engine(serve: Any, relay: Any) -> None:
    begun: list[None] = []
    over: list[None] = []

    class Slow(ToyEngine):
        @property
        def call_handlers(self) -> Mapping[str, Any]:
            return {DRAW.name: self._draw}

        def _draw(self, request: Any, call: Call) -> Any:
            begun.append(None)
            while call.wait(PATIENCE_S):
                pass
            over.append(None)
            return DRAW.response()

    client = relay(serve(Slow(2)).endpoints[0])
    with pytest.raises(PeerTimeout, match=r"DebugService/Draw did not end within 1\.5 s"):
        client.call(DRAW, DRAW.request(), Deadline(1.5))
    until(lambda: len(over) == 1)
    future = client.begin(DRAW, DRAW.request(), Deadline(10 * PATIENCE_S))
    until(lambda: len(begun) == 2)
    future.cancel()
    until(lambda: len(over) == 2)


@pytest.mark.parametrize("target", ["grpc", "grpc?service=agent", "shm"])
def test_a_step_without_actions_reaches_the_engine_as_one(relay: Any, target: str) -> None:
    controls: list[list[int]] = []

    class Noting(ToyEngine):
        def step(self, control: Any) -> None:
            controls.append([0] * 2 if control is None else control.tolist())
            super().step(control)

    scheme, _, option = target.partition("?")
    at = "grpc://127.0.0.1:0" if scheme == "grpc" else f"shm://{unique_name()}"
    with api.serve(Noting(2), at) as serving:
        client = relay(f"{serving.endpoints[0]}?{option}" if option else serving.endpoints[0])
        assert client.call(STEP, StepRequest("agent_1")).success
        assert controls[-1] == [HOLD, TICK]
        client.close()


def test_many_clients_share_one_relay(serve: Any) -> None:
    target = serve(num_envs=2).endpoints[0]
    with api.serve(f"relay:{target}", f"shm://{unique_name()}") as serving, ExitStack() as stack:
        clients = [stack.enter_context(api.open_transport(serving.endpoints[0])) for _ in range(6)]
        with ThreadPoolExecutor(6) as pool:
            names = pool.map(
                lambda one: [one.call(SCHEMA, GetAgentSchemaRequest("agent_1")).schema.agent_name for _ in range(20)],
                clients,
            )
        assert {name for each in names for name in each} == {"agent_1"}
        assert clients[0].step(np.zeros(clients[0].spec.action_shape, np.float32)).seq == 1
        with pytest.raises(Busy, match=r"is driven by"):
            clients[1].step(np.zeros(clients[0].spec.action_shape, np.float32))


@pytest.mark.parametrize(
    ("engine", "kind", "text"),
    [
        ("relay", ConfigError, "needs the endpoint of an engine; write for instance relay:grpc://127.0.0.1:50051"),
        ("relay:127.0.0.1:50051", ConfigError, "did you mean grpc://127.0.0.1:50051?"),
        ("relay:toy", ConfigError, "is not a URL; write for instance shm://name or grpc://"),
        ("relay:grcp://127.0.0.1:1", UnknownName, "did you mean 'grpc'?"),
        ("relay:grpc://127.0.0.1", ConfigError, "the address is not host:port"),
        ("relay:grpc://127.0.0.1:1", NotReachable, "no engine at grpc://127.0.0.1:1 within 0.3 s"),
    ],
)
def test_a_bad_endpoint_is_refused_with_the_remedy(
    engine: str, kind: type[Exception], text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LUCKY_CONNECT_TIMEOUT_S", "0.3")
    with pytest.raises(kind, match=re.escape(text)):
        api.make_engine(engine)


def test_the_number_of_envs_and_a_seed_are_the_engines_own(serve: Any) -> None:
    target = serve(num_envs=2).endpoints[0]
    with pytest.raises(SpecError, match=r"num_envs 5 asked for, the engine at .* has 2"):
        api.make_engine(f"relay:{target}", 5)
    with pytest.raises(ConfigError, match="engine 'relay' has no option 'seed'"):
        api.make_engine(f"relay:{target}", seed=1)

"""An engine that is served at shm://name has all its gRPC services there, for protobuf stubs; and our own gRPC client,
unchanged, keeps the whole contract of a transport when its channel goes through shared memory.
"""

import os
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from typing import Any

import grpc
import numpy as np
import pytest

import lucky_transport
import lucky_transport_stubs
from lucky_transport import api
from lucky_transport.endpoint import Endpoint
from lucky_transport.engine import Engine
from lucky_transport.errors import Busy
from lucky_transport.process import EngineProcess, unique_name
from lucky_transport.spec.batch_spec import BatchSpec
from lucky_transport.testing.contract import TransportContract
from lucky_transport.testing.stepping_contract import SteppingContract
from lucky_transport.testing.streams_contract import StreamsContract
from lucky_transport.testing.suite import TransportSuite
from lucky_transport.transport import Capabilities
from lucky_transport_grpc import _pb, connection
from tests.support.stepping_program import stepping
from tests.support.waiting import PATIENCE_S, until

from .conftest import OurEnds, failure

AGENT = "/hazel.rpc.AgentService/"
BATCH = "/lucky_transport.v1.BatchService/"


class Stub:
    """Calls methods by path, with the messages of our protos."""

    def __init__(self, channel: Any) -> None:
        self.channel = channel

    def call(self, path: str, **fields: Any) -> Any:
        found = _pb.methods()[path]
        method = self.channel.unary_unary(path, found.request.SerializeToString, found.response.FromString)
        return method(found.request(**fields), timeout=PATIENCE_S)


@pytest.fixture
def stub(ends: OurEnds) -> Callable[[str], Stub]:
    """Open stubs for shm:// and grpc:// addresses; their channels are closed with the test."""
    return lambda target: Stub(ends.connect(target))


@pytest.fixture
def engine(ends: OurEnds) -> Iterator[str]:
    """A toy engine with two agents, served in this process at the address that is yielded."""
    with api.serve("toy", target := ends.address(), num_envs=2):
        yield target


@pytest.mark.exhaustive
@pytest.mark.parametrize("name", ["toy", "mujoco:quadruped"])
def test_an_engine_process_answers_as_its_grpc_server_does(ends: OurEnds, stub: Any, name: str) -> None:
    if name.startswith("mujoco"):
        pytest.importorskip("mujoco")
    asked = [
        (AGENT + "GetAgentSchema", {"agent_name": "agent_1"}),
        ("/hazel.rpc.MujocoService/GetMujocoInfo", {}),
        ("/hazel.rpc.SceneService/GetSceneInfo", {}),
        (BATCH + "GetSpec", {}),
    ]
    target = ends.address()
    process = EngineProcess(name, [target, "grpc://127.0.0.1:0"], num_envs=2, seed=1)
    try:
        ours, theirs = stub(target), stub(str(process.endpoints[1]))
        asked = [(path, fields) for path, fields in asked if path in _pb.methods()]
        assert len(asked) >= 3
        for path, fields in asked:
            assert outcome(ours, path, fields) == outcome(theirs, path, fields), path
        reply = ours.call(AGENT + "Step", agent_name="agent_0", actions=[0.0] * action_size(ours))
        assert reply.success
        assert reply.observation.frame_number == 1
    finally:
        process.stop()


def outcome(stub: Stub, path: str, fields: dict[str, Any]) -> Any:
    """Return the response, or the status, of a call."""
    try:
        return stub.call(path, **fields).SerializeToString(deterministic=True)
    except grpc.RpcError as error:
        status: Any = error
        return status.code(), status.details()


def action_size(stub: Stub) -> int:
    spec = BatchSpec.from_json(stub.call(BATCH + "GetSpec").spec_json)
    return int(np.prod(spec.action_shape[1:]))


def test_a_method_that_the_engine_lacks_is_unimplemented_by_name(engine: str, stub: Any) -> None:
    path = "/hazel.rpc.LidarService/GetLidarScan"
    assert outcome(stub(engine), path, {}) == (grpc.StatusCode.UNIMPLEMENTED, f"engine 'toy' does not implement {path}")
    unknown = stub(engine).channel.unary_unary(AGENT + "Fly")
    assert failure(lambda: unknown(b"", timeout=PATIENCE_S)).code() is grpc.StatusCode.UNIMPLEMENTED


@pytest.fixture
def other_process(engine: str) -> Iterator[Callable[[], str]]:
    """Return a function that lets another process step agent_0, and says what came of it."""
    with stepping(engine) as step:
        yield step


@pytest.mark.exhaustive
def test_several_processes_step_one_engine(engine: str, stub: Any, other_process: Any) -> None:
    ours = stub(engine)
    for _ in range(3):
        ours.call(AGENT + "Step", agent_name="agent_0", actions=[0, 0])
        assert other_process() == "stepped\n"


def test_channels_of_one_process_are_one_client_until_the_last_is_closed(engine: str, stub: Any) -> None:
    first, second = stub(engine), stub(engine)
    for ours in (first, second, first):
        ours.call(AGENT + "Step", agent_name="agent_0", actions=[0, 0])
    first.channel.close()
    second.call(AGENT + "Step", agent_name="agent_0", actions=[0, 0])
    busy = f"is driven by shm client of pid {os.getpid()};"
    with lucky_transport.connect(engine) as trainer, pytest.raises(Busy, match=busy):
        trainer.transport.step(np.zeros(trainer.transport.spec.action_shape, np.float32))
    second.channel.close()
    until(lambda: _can_drive(engine))


def _can_drive(engine: str) -> bool:
    try:
        with lucky_transport.connect(engine) as trainer:
            trainer.transport.step(np.zeros(trainer.transport.spec.action_shape, np.float32))
    except Busy:
        return False
    return True


DRIVER = """
import sys
import lucky_transport_stubs
from lucky_transport_grpc import _pb
channel = lucky_transport_stubs.channel(sys.argv[1])
attach = _pb.methods()["/lucky_transport.v1.BatchService/Attach"]
call = channel.unary_stream(attach.path, attach.request.SerializeToString, attach.response.FromString)
events = call(attach.request())
next(events)
exchange = _pb.methods()["/lucky_transport.v1.BatchService/Exchange"]
call = channel.unary_unary(exchange.path, exchange.request.SerializeToString, exchange.response.FromString)
call(exchange.request(action_seq=1, actions=bytes(16)), timeout=20)
print("driving", flush=True)
sys.stdin.read()
"""


def test_a_killed_driver_frees_the_engine(engine: str, stub: Any, run: Any) -> None:
    other = stub(engine)
    step = (AGENT + "Step", {"agent_name": "agent_0", "actions": [0, 0]})
    program = run(DRIVER, engine)
    assert program.stdout.readline() == "driving\n"
    assert outcome(other, *step)[0] is grpc.StatusCode.RESOURCE_EXHAUSTED
    program.kill()
    until(lambda: isinstance(outcome(other, *step), bytes))


def test_reflection_and_health_tell_what_is_served(engine: str, stub: Any) -> None:
    pytest.importorskip("grpc_health")
    pytest.importorskip("grpc_reflection")
    from google.protobuf.descriptor_pool import DescriptorPool
    from grpc_health.v1 import health_pb2, health_pb2_grpc
    from grpc_reflection.v1alpha.proto_reflection_descriptor_database import ProtoReflectionDescriptorDatabase

    pb: Any = health_pb2
    database: Any = ProtoReflectionDescriptorDatabase(stub(engine).channel)
    served = list(database.get_services())
    assert {"hazel.rpc.AgentService", "grpc.health.v1.Health", "lucky_transport.v1.BatchService"} <= set(served)
    assert "Step" in DescriptorPool(database).FindServiceByName("hazel.rpc.AgentService").methods_by_name
    health: Any = health_pb2_grpc.HealthStub(stub(engine).channel)
    for service in ("", "hazel.rpc.AgentService"):
        found = health.Check(pb.HealthCheckRequest(service=service), timeout=PATIENCE_S)
        assert found.status == pb.HealthCheckResponse.SERVING


def test_who_watches_the_health_learns_that_the_engine_closes(ends: OurEnds, stub: Any) -> None:
    pytest.importorskip("grpc_health")
    from grpc_health.v1 import health_pb2, health_pb2_grpc

    pb: Any = health_pb2
    with api.serve("toy", target := ends.address(), num_envs=1):
        health: Any = health_pb2_grpc.HealthStub(stub(target).channel)
        watch = health.Watch(pb.HealthCheckRequest(service=""), timeout=PATIENCE_S)
        assert next(watch).status == pb.HealthCheckResponse.SERVING
    assert failure(lambda: list(watch)).code() is grpc.StatusCode.UNAVAILABLE


class Redirected:
    """The grpc package, but for its channels: they go to the segment that their target's host names."""

    def insecure_channel(self, target: str, options: Any) -> Any:
        return lucky_transport_stubs.channel(f"shm://{target.partition(':')[0]}", options)

    def __getattr__(self, name: str) -> Any:
        return getattr(grpc, name)


class OverSharedMemory(TransportSuite):
    """A pair whose client believes that the engine is at grpc://name:1."""

    declares = Capabilities(streams=True, sessions=True)
    service = ""

    @pytest.fixture(autouse=True)
    def _redirected(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(connection, "grpc", Redirected())

    @contextmanager
    def serve(self, engine: str | Engine = "toy", num_envs: int = 4, **options: Any) -> Generator[Endpoint]:
        name = unique_name()
        with api.serve(engine, f"shm://{name}", num_envs=num_envs, options=options):
            yield Endpoint.parse(f"grpc://{name}:1?service={self.service}")

    def change_services(self, endpoint: Endpoint, **changes: Any) -> None:
        super().change_services(Endpoint.parse(f"shm://{endpoint.address.partition(':')[0]}"), **changes)


@pytest.mark.exhaustive
class TestBatchService(OverSharedMemory, TransportContract):
    service = "batch"


@pytest.mark.exhaustive
class TestAgentService(OverSharedMemory, SteppingContract, StreamsContract):
    service = "agent"
    hot_path_excludes_steps = False
    carries_parts = False

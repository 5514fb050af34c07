"""A server takes its address for itself, tells where it is, and leaves nothing behind."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("grpc", reason="grpcio is not installed: pip install 'lucky-transport[grpc]'")

from lucky_transport.config import Settings
from lucky_transport.endpoint import Endpoint
from lucky_transport.engines.toy import ToyEngine
from lucky_transport.errors import ConfigError, NotReachable, PeerDied
from lucky_transport.serving import Serving
from lucky_transport_grpc.runtime import grpc
from lucky_transport_grpc.server import GrpcServer, server
from tests.support.waiting import PATIENCE_S, until

Serve = Callable[..., Serving]


def test_port_0_becomes_the_real_port(serve: Serve, connect: Any) -> None:
    endpoint = serve().endpoints[0]
    host, _, port = endpoint.address.rpartition(":")
    assert host == "127.0.0.1"
    assert int(port) > 0
    assert connect(endpoint).spec.engine == "toy"


def test_the_returned_endpoint_keeps_its_options(serve: Serve) -> None:
    assert serve(endpoint="grpc://127.0.0.1:0?service=agent").endpoints[0].options == (("service", "agent"),)


def test_a_taken_port_is_an_error_that_names_it(serve: Serve) -> None:
    endpoint = serve().endpoints[0]
    with pytest.raises(NotReachable, match=endpoint.address), Serving(ToyEngine(), [server(endpoint, Settings())]):
        pass


def test_a_taken_port_is_told_by_us_before_grpc_writes_lines_of_its_own(
    serve: Serve, capfd: pytest.CaptureFixture[str]
) -> None:
    endpoint = serve().endpoints[0]
    capfd.readouterr()
    text = rf"cannot serve at {endpoint}: address already in use; another process has it, .*port 0 takes a free one"
    with pytest.raises(NotReachable, match=text), Serving(ToyEngine(), [server(endpoint, Settings())]):
        pass
    assert capfd.readouterr().err == ""


def test_an_unknown_host_is_an_error() -> None:
    endpoint = Endpoint.parse("grpc://no-such-host.invalid:0")
    with pytest.raises(NotReachable, match=r"no-such-host\.invalid is no known host"):
        Serving(ToyEngine(), [server(endpoint, Settings())])


def test_an_address_of_another_machine_is_an_error(serve: Serve) -> None:
    with pytest.raises(NotReachable, match=r"grpc://203\.0\.113\.1:1"):
        serve(endpoint="grpc://203.0.113.1:1")


def test_a_malformed_endpoint_is_refused_before_anything_starts() -> None:
    with pytest.raises(ConfigError, match="host:port"):
        server(Endpoint.parse("grpc://nowhere"), Settings())


def test_a_unix_socket_serves_and_is_gone_afterwards(connect: Any, tmp_path: Path, zeros: Any) -> None:
    path = tmp_path / "engine.sock"
    with Serving(ToyEngine(), [server(Endpoint.parse(f"grpc+unix://{path}"), Settings())]) as serving:
        assert str(serving.endpoints[0]) == f"grpc+unix://{path}"
        assert path.stat().st_mode & 0o777 == 0o600
        client = connect(serving)
        assert client.step(zeros(client)).seq == 1
    assert not path.exists()


def test_a_stale_unix_socket_is_replaced(serve: Serve, connect: Any, tmp_path: Path) -> None:
    path = tmp_path / "engine.sock"
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(str(path))
    assert connect(serve(endpoint=f"grpc+unix://{path}")).spec.num_envs == 2


def test_a_living_unix_socket_is_not_taken(serve: Serve, connect: Any, tmp_path: Path) -> None:
    first = serve(endpoint=f"grpc+unix://{tmp_path}/engine.sock")
    with pytest.raises(NotReachable, match="another server listens there"):
        serve(endpoint=str(first.endpoints[0]))
    assert connect(first).spec.num_envs == 2


def test_a_folder_that_does_not_exist_is_an_error(serve: Serve, tmp_path: Path) -> None:
    with pytest.raises(NotReachable, match=r"engine\.sock"):
        serve(endpoint=f"grpc+unix://{tmp_path}/nothing/engine.sock")


def test_stopping_leaves_no_thread_and_frees_the_port(connect: Any, zeros: Any) -> None:
    before = set(threading.enumerate())
    grpc_server = GrpcServer(Endpoint.parse("grpc://127.0.0.1:0"), Settings())
    with Serving(ToyEngine(), [grpc_server]) as serving:
        endpoint = serving.endpoints[0]
        client = connect(serving)
        client.step(zeros(client))
        client.close()
    grpc_server.stop()
    until(lambda: set(threading.enumerate()) <= before)
    with Serving(ToyEngine(), [server(endpoint, Settings())]) as again:
        assert again.endpoints[0] == endpoint


def test_stopping_gives_the_lease_back_to_other_transports(serve: Serve, connect: Any, zeros: Any) -> None:
    serving = serve()
    second = GrpcServer(Endpoint.parse("grpc://127.0.0.1:0"), Settings())
    endpoint = second.start(serving.host)
    client = connect(endpoint)
    client.step(zeros(client))
    assert serving.host.driver
    second.stop()
    assert not serving.host.driver
    other = connect(serving)
    assert other.step(zeros(other)).seq == 1


def test_stopping_ends_in_time_while_the_engine_hangs(serve: Serve, connect: Any, zeros: Any) -> None:
    entered, resume = threading.Event(), threading.Event()

    class Hanging(ToyEngine):
        def step(self, control: Any) -> None:
            entered.set()
            resume.wait()

    host = serve(Hanging()).host
    hanging = GrpcServer(Endpoint.parse("grpc://127.0.0.1:0"), Settings())
    client = connect(hanging.start(host))
    try:
        client.send(zeros(client))
        assert entered.wait(PATIENCE_S)
        hanging.stop(grace_s=0.1)
        with pytest.raises(PeerDied):
            client.recv()
    finally:
        resume.set()


@pytest.mark.parametrize(
    "method", ["ListRobotControllers", "/hazel.rpc.SceneService/EnterPlayMode", "/hazel.rpc.LidarService/GetLidarScan"]
)
def test_a_method_the_engine_lacks_is_unimplemented_by_name(serve: Serve, stub: Any, refused: Any, method: str) -> None:
    error = refused(stub(serve()).call, method)
    path = method if method.startswith("/") else f"/hazel.rpc.AgentService/{method}"
    assert error.code() is grpc.StatusCode.UNIMPLEMENTED
    assert error.details() == f"engine 'toy' does not implement {path}"


def test_an_unknown_method_is_unimplemented(serve: Serve, stub: Any, refused: Any) -> None:
    call = stub(serve()).channel.unary_unary("/hazel.rpc.AgentService/Fly")
    error = refused(call, b"", timeout=10)
    assert error.code() is grpc.StatusCode.UNIMPLEMENTED
    assert error.details() == "Method not found!"


@pytest.mark.exhaustive
def test_thousands_of_calls_may_be_pending(serve: Serve, stub: Any) -> None:
    raw = stub(serve(num_envs=1))
    calls = [raw.start("Step", timeout_s=600, agent_name="agent_0") for _ in range(3000)]
    numbers = [call.result().observation.frame_number for call in calls]
    assert sorted(numbers) == list(range(1, 3001))

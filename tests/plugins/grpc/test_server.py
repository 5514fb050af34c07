"""A server takes its address for itself, tells where it is and what it offers, and leaves nothing behind."""

import logging
import os
import socket
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from lucky_transport import api
from lucky_transport.errors import ConfigError, NotReachable

pytest.importorskip("grpc", reason="grpcio is not installed: pip install 'lucky-transport[grpc]'")


from lucky_transport.errors import PeerDied
from lucky_transport.serving import Serving
from lucky_transport.testing.suite import zeros
from tests.plugins.grpc.conftest import Serve
from tests.support.scripted_engine import ScriptedEngine
from tests.support.waiting import PATIENCE_S, until


def test_the_returned_endpoint_keeps_its_options(serve: Serve) -> None:
    assert serve(endpoint="grpc://127.0.0.1:0?service=agent").endpoints[0].options == (("service", "agent"),)


def test_a_taken_port_is_told_by_us_before_grpc_writes_lines_of_its_own(
    serve: Serve, capfd: pytest.CaptureFixture[str]
) -> None:
    endpoint = serve().endpoints[0]
    capfd.readouterr()
    text = rf"cannot serve at {endpoint}: address already in use; another process has it, .*port 0 takes a free one"
    with pytest.raises(NotReachable, match=text):
        serve(endpoint=str(endpoint))
    assert capfd.readouterr().err == ""


@pytest.mark.parametrize(
    ("endpoint", "words"),
    [
        ("grpc://no-such-host.invalid:0", r"no-such-host\.invalid is no known host"),
        ("grpc://203.0.113.1:1", r"grpc://203\.0\.113\.1:1"),
        ("grpc+unix:///no/such/folder/engine.sock", r"engine\.sock"),
    ],
)
def test_an_address_that_is_nobodys_or_anothers_is_an_error(serve: Serve, endpoint: str, words: str) -> None:
    with pytest.raises(NotReachable, match=words):
        serve(endpoint=endpoint)


def test_a_unix_socket_serves_and_is_gone_afterwards(connect: Any, tmp_path: Path) -> None:
    path = tmp_path / "engine.sock"
    with api.serve("toy", f"grpc+unix://{path}") as serving:
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


def test_stopping_leaves_no_thread_and_frees_the_port(server: Any, connect: Any) -> None:
    before = set(threading.enumerate())
    grpc_server = server()
    with Serving(ScriptedEngine(), [grpc_server]) as serving:
        endpoint = serving.endpoints[0]
        client = connect(serving)
        client.step(zeros(client))
        client.close()
    grpc_server.stop()
    until(lambda: set(threading.enumerate()) <= before)
    with api.serve("toy", str(endpoint)) as again:
        assert again.endpoints[0] == endpoint


def test_stopping_gives_the_lease_back_to_other_transports(serve: Serve, server: Any, connect: Any) -> None:
    serving = serve()
    second = server()
    endpoint = second.start(serving.host)
    client = connect(endpoint)
    client.step(zeros(client))
    assert serving.host.driver
    second.stop()
    assert not serving.host.driver
    other = connect(serving)
    assert other.step(zeros(other)).seq == 1


def test_stopping_ends_in_time_while_the_engine_hangs(serve: Serve, server: Any, connect: Any) -> None:
    entered, resume = threading.Event(), threading.Event()

    def hang(control: Any) -> None:
        entered.set()
        resume.wait()

    host = serve(ScriptedEngine(on_step=hang)).host
    hanging = server()
    client = connect(hanging.start(host))
    try:
        client.send(zeros(client))
        assert entered.wait(PATIENCE_S)
        hanging.stop(grace_s=0.1)
        with pytest.raises(PeerDied):
            client.recv()
    finally:
        resume.set()


@pytest.mark.exhaustive
def test_thousands_of_calls_may_be_pending(serve: Serve, stub: Any) -> None:
    raw = stub(serve(num_envs=1))
    calls = [raw.start("Step", timeout_s=600, agent_name="agent_0") for _ in range(3000)]
    numbers = [call.result().observation.frame_number for call in calls]
    assert sorted(numbers) == list(range(1, 3001))


# --- addresses ---


@pytest.mark.parametrize("endpoint", ["grpc://localhost:0", "grpc://[::1]:0", "grpc+unix://x.sock"])
def test_an_address_is_spelled_as_in_other_urls(
    serve: Serve, connect: Any, endpoint: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert connect(serve(endpoint=endpoint)).spec.engine == "toy"


@pytest.mark.parametrize(
    ("url", "words"),
    [
        *((f"grpc{rest}", "write for instance grpc") for rest in (":", "://127.0.0.1", "://:50051", "://h:port")),
        *((f"grpc{rest}", "write for instance grpc") for rest in ("://h:70000", "+unix:")),
        ("grpc://h:1?service=fast", "expected one of auto, batch, agent"),
        ("grpc://h:1?sevrice=agent", "did you mean 'service'"),
    ],
)
def test_an_endpoint_that_cannot_be_read_is_refused_with_what_would_do(url: str, words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        api.open_transport(url)


def test_a_file_that_is_no_socket_is_not_touched(serve: Serve, tmp_path: Path) -> None:
    path = tmp_path / "notes.txt"
    path.write_text("precious")
    with pytest.raises(NotReachable, match="a file that is no socket is there"):
        serve(endpoint=f"grpc+unix://{path}")
    assert path.read_text() == "precious"


# --- what tools find out ---


def test_reflection_lists_and_describes_what_is_served(serve: Serve, stub: Any) -> None:
    pytest.importorskip("grpc_reflection")
    from google.protobuf.descriptor_pool import DescriptorPool
    from grpc_reflection.v1alpha.proto_reflection_descriptor_database import ProtoReflectionDescriptorDatabase

    database: Any = ProtoReflectionDescriptorDatabase(stub(serve()).channel)
    assert list(database.get_services()) == [
        "grpc.health.v1.Health",
        "grpc.reflection.v1alpha.ServerReflection",
        "hazel.rpc.AgentService",
        "hazel.rpc.MujocoService",
        "hazel.rpc.SceneService",
        "hazel.rpc.TelemetryService",
        "lucky_transport.v1.BatchService",
    ]
    pool = DescriptorPool(database)
    for name, method in (
        ("hazel.rpc.AgentService", "Step"),
        ("lucky_transport.v1.BatchService", "Exchange"),
        ("grpc.health.v1.Health", "Check"),
    ):
        assert method in pool.FindServiceByName(name).methods_by_name


def test_a_service_that_is_off_is_neither_listed_nor_serving(serve: Serve, stub: Any) -> None:
    pytest.importorskip("grpc_reflection")
    from grpc_health.v1 import health_pb2, health_pb2_grpc
    from grpc_reflection.v1alpha.proto_reflection_descriptor_database import ProtoReflectionDescriptorDatabase

    pb: Any = health_pb2
    serving = serve()
    channel = stub(serving).channel
    database: Any = ProtoReflectionDescriptorDatabase(channel)
    health: Any = health_pb2_grpc.HealthStub(channel)
    watched = health.Watch(pb.HealthCheckRequest(service="hazel.rpc.SceneService"), timeout=PATIENCE_S)
    assert next(watched).status == pb.HealthCheckResponse.SERVING
    serving.host.switch.change(off=["SceneService"])
    assert next(watched).status == pb.HealthCheckResponse.NOT_SERVING
    assert "hazel.rpc.SceneService" not in database.get_services()
    for service in ("", "hazel.rpc.AgentService", "lucky_transport.v1.BatchService"):
        assert health.Check(pb.HealthCheckRequest(service=service), timeout=10).status == pb.HealthCheckResponse.SERVING
    serving.host.switch.change(on=["SceneService"])
    assert next(watched).status == pb.HealthCheckResponse.SERVING
    assert "hazel.rpc.SceneService" in database.get_services()


def test_without_their_packages_the_server_serves_and_says_so(
    serve: Serve, connect: Any, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    for module in ("grpc_health.v1.health", "grpc_reflection.v1alpha.reflection"):
        monkeypatch.setitem(sys.modules, module, None)
    with caplog.at_level(logging.WARNING, "lucky_transport"):
        serving = serve()
    monkeypatch.undo()
    assert ["no health service" in caplog.text, "no reflection" in caplog.text] == [True, True]
    assert "[discovery]'" in caplog.text
    client = connect(serving)
    assert client.step(zeros(client)).seq == 1


@pytest.mark.exhaustive
def test_a_fork_beside_a_server_does_not_crash_the_child() -> None:
    script = """
import os, warnings
import numpy as np
import lucky_transport

warnings.simplefilter("ignore", DeprecationWarning)
with lucky_transport.serve("toy", "grpc://127.0.0.1:0") as serving:
    with lucky_transport.connect(str(serving.endpoints[0])) as client:
        for _ in range(60):
            client.transport.step(np.zeros((1, 2), np.float32))
            pid = os.fork()
            if pid == 0:
                os._exit(0)
            assert os.waitpid(pid, 0)[1] == 0
"""
    environment = {key: value for key, value in os.environ.items() if key != "GRPC_ENABLE_FORK_SUPPORT"}
    subprocess.run([sys.executable, "-c", script], check=True, timeout=100, env=environment)

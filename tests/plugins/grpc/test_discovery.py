"""Tools find out what a server offers; without their packages the server works all the same."""

from __future__ import annotations

import builtins
import logging
from collections.abc import Callable
from typing import Any

import pytest

pytest.importorskip("grpc", reason="grpcio is not installed: pip install 'lucky-transport[grpc]'")

from lucky_transport.serving import Serving
from lucky_transport.version import install_command
from tests.support.waiting import PATIENCE_S

Serve = Callable[..., Serving]


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


def test_health_says_serving_for_the_server_and_each_service(serve: Serve, stub: Any) -> None:
    pytest.importorskip("grpc_health")
    from grpc_health.v1 import health_pb2, health_pb2_grpc

    pb: Any = health_pb2
    health: Any = health_pb2_grpc.HealthStub(stub(serve()).channel)
    for service in ("", "hazel.rpc.AgentService", "lucky_transport.v1.BatchService"):
        assert health.Check(pb.HealthCheckRequest(service=service), timeout=10).status == pb.HealthCheckResponse.SERVING


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
    assert health.Check(pb.HealthCheckRequest(service=""), timeout=10).status == pb.HealthCheckResponse.SERVING
    serving.host.switch.change(on=["SceneService"])
    assert next(watched).status == pb.HealthCheckResponse.SERVING
    assert "hazel.rpc.SceneService" in database.get_services()


def test_without_their_packages_the_server_serves_and_says_so(
    serve: Serve, connect: Any, zeros: Any, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    real_import = builtins.__import__

    def refuse(name: str, *arguments: Any, **options: Any) -> Any:
        if name.startswith(("grpc_health", "grpc_reflection")):
            raise ImportError(f"no module {name}")
        return real_import(name, *arguments, **options)

    monkeypatch.setattr(builtins, "__import__", refuse)
    with caplog.at_level(logging.WARNING, "lucky_transport"):
        serving = serve()
    monkeypatch.undo()
    assert ["no health service" in caplog.text, "no reflection" in caplog.text] == [True, True]
    assert install_command("discovery") in caplog.text
    client = connect(serving)
    assert client.step(zeros(client)).seq == 1

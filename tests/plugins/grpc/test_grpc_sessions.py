"""Sessions over gRPC: status codes for clients that know nothing of us, fresh looks, and what a dead client leaves."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

import pytest

from tests.support.waiting import PATIENCE_S

pytest.importorskip("grpc", reason="grpcio is not installed: pip install 'lucky-transport[grpc]'")

import grpc

from lucky_transport import api
from lucky_transport.endpoint import Endpoint
from lucky_transport_grpc import _pb

SERVICE = "/lucky_transport.v1.SessionService/"


@pytest.fixture
def endpoint() -> Generator[Endpoint]:
    with api.serve("cartpole", "grpc://127.0.0.1:0") as serving:
        yield serving.endpoints[0]


@pytest.mark.parametrize(
    ("name", "fields", "status"),
    [
        ("AdvanceSession", {"session_id": "nobody"}, "NOT_FOUND"),
        ("CreateSession", {"map_name": "moon"}, "INVALID_ARGUMENT"),
        ("CreateSession", {"options_json": "[]"}, "INVALID_ARGUMENT"),
        ("ShareSession", {"session_id": "nobody"}, "UNIMPLEMENTED"),
    ],
)
def test_a_foreign_client_gets_the_status_it_expects(
    endpoint: Endpoint, name: str, fields: dict[str, str], status: str
) -> None:
    method = _pb.methods()[SERVICE + name]
    with grpc.insecure_channel(endpoint.address) as channel:
        call = channel.unary_unary(method.path, method.request.SerializeToString, method.response.FromString)
        with pytest.raises(grpc.RpcError) as refused:
            call(method.request(**fields), timeout=PATIENCE_S)
    found: Any = refused.value
    assert found.code().name == status

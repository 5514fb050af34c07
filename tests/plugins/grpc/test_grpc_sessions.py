"""Sessions over gRPC: status codes for clients that know nothing of us, fresh looks, and what a dead client leaves."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Generator
from typing import Any

import pytest

from tests.support.waiting import PATIENCE_S, until

pytest.importorskip("grpc", reason="grpcio is not installed: pip install 'lucky-transport[grpc]'")

import grpc

from lucky_transport import api
from lucky_transport.endpoint import Endpoint
from lucky_transport.sessions.client import SessionClient
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


def test_a_reader_that_paused_sees_the_newest_tick(endpoint: Endpoint) -> None:
    with api.open_transport(endpoint) as client:
        sessions = SessionClient(client)
        session = sessions.create(options={"initial_angle": 0, "max_ticks": 1_000_000})
        sessions.run(session, 200.0)
        sessions.latest(session, 0)
        before = until(lambda: (ticks := sessions.state(session).ticks) > 20 and ticks)
        assert sessions.latest(session).ticks >= before


CLIENT = """
import sys
from lucky_transport import api
from lucky_transport.sessions.client import SessionClient
sessions = SessionClient(api.open_transport(sys.argv[1]))
sessions.create()
print("ready", flush=True)
sys.stdin.read()
"""


@pytest.mark.exhaustive
def test_the_sessions_of_a_killed_client_end(endpoint: Endpoint) -> None:
    with api.open_transport(endpoint) as client:
        sessions = SessionClient(client)
        kept = sessions.create()
        command = [sys.executable, "-c", CLIENT, str(endpoint)]
        process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
        assert len(sessions.ids()) == 2
        process.send_signal(signal.SIGKILL)
        process.communicate()
        until(lambda: sessions.ids() == [kept])

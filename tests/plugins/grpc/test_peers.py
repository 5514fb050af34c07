"""The kernel's table of connections tells which legacy client has gone."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from lucky_transport_grpc.peers import is_gone
from tests.support.waiting import until

linux = pytest.mark.skipif(not Path("/proc/net/tcp").exists(), reason="no /proc/net/tcp here")


@linux
@pytest.mark.parametrize(("family", "host"), [(socket.AF_INET, "127.0.0.1"), (socket.AF_INET6, "::1")])
def test_a_peer_is_there_until_its_connection_ends(family: int, host: str) -> None:
    try:
        server = socket.create_server((host, 0), family=family)
    except OSError as error:
        pytest.skip(f"no {host} here: {error}")
    with server:
        port = server.getsockname()[1]
        client = socket.create_connection((host, port))
        peer = f"{'ipv4' if family == socket.AF_INET else 'ipv6'}:{host}:{client.getsockname()[1]}"
        accepted, _ = server.accept()
        assert not is_gone(peer, port)
        assert is_gone(peer, port + 1)
        client.close()
        until(lambda: is_gone(peer, port))
        accepted.close()


@pytest.mark.parametrize("peer", ["unix:", "unix:/run/x.sock", "ipv4:127.0.0.1", "somewhere", ""])
def test_a_peer_without_a_port_may_still_be_there(peer: str) -> None:
    assert not is_gone(peer, 50051)


def test_without_a_table_a_peer_may_still_be_there(tmp_path: Path) -> None:
    assert not is_gone("ipv4:127.0.0.1:1", 50051, (str(tmp_path / "none"),))
    (tmp_path / "table").write_text("  sl  local_address rem_address   st\n")
    assert not is_gone("ipv4:127.0.0.1:1", 50051, (str(tmp_path / "table"),))
    assert not is_gone("ipv4:127.0.0.1:1", 50051, (str(tmp_path),))


def test_a_connection_that_is_closing_has_gone(tmp_path: Path) -> None:
    table = tmp_path / "table"
    row = "   0: 0100007F:C383 0100007F:0001 {} 00000000:00000000 00:00000000 00000000\n"
    for state, gone in (("01", False), ("06", True), ("08", True)):
        table.write_text("  sl  local_address rem_address   st\n" + row.format(state))
        assert is_gone("ipv4:127.0.0.1:1", 50051, (str(table),)) == gone

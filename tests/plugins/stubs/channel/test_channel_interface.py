"""What a channel is to programs: its methods, classes and names, and the endpoint it is made for."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import lucky_transport_stubs
from lucky_transport.errors import ConfigError
from lucky_transport_grpc.runtime import grpc
from lucky_transport_stubs.client.channel import Channel

Code = grpc.StatusCode


def test_the_channel_has_everything_that_grpcs_own_has() -> None:
    missing = [name for name in dir(grpc.Channel) if not hasattr(Channel, name)]
    assert missing == []
    assert not Channel.__abstractmethods__


def test_the_endpoint_may_be_configured(serve: Any, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    serve()
    monkeypatch.setenv("LUCKY_ENDPOINT", f"shm://{name}")
    with lucky_transport_stubs.channel() as channel:
        assert channel.unary_unary("/test.Service/echo")(b"x") == b"x"
    monkeypatch.delenv("LUCKY_ENDPOINT")
    monkeypatch.setenv("LUCKY_SHM_NAME", name)
    with lucky_transport_stubs.channel() as channel:
        assert channel.unary_unary("/test.Service/echo")(b"x") == b"x"


@pytest.mark.parametrize("scheme", ["grpc", "grpc+unix"])
def test_an_endpoint_of_grpc_gives_a_real_channel(scheme: str, tmp_path: Path, service: Any) -> None:
    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(2) as pool:
        server = grpc.server(pool, handlers=[service.handlers()])
        address = "127.0.0.1:0" if scheme == "grpc" else f"unix:{tmp_path}/socket"
        port = server.add_insecure_port(address)
        server.start()
        endpoint = f"grpc://127.0.0.1:{port}" if scheme == "grpc" else f"grpc+unix://{tmp_path}/socket"
        with lucky_transport_stubs.channel(endpoint, options=[("grpc.max_send_message_length", 10)]) as channel:
            assert not isinstance(channel, Channel)
            assert channel.unary_unary("/test.Service/echo")(b"x") == b"x"
        server.stop(None).wait(10)


@pytest.mark.parametrize("endpoint", [None, "nothing", "inproc:", "shm:", "shm://a/b", "http://x", "grpc://nowhere"])
def test_an_endpoint_without_a_channel_is_a_mistake_of_configuration(endpoint: str | None) -> None:
    with pytest.raises(ConfigError):
        lucky_transport_stubs.channel(endpoint)


def test_the_public_names_are_functions_whatever_was_imported_before() -> None:
    code = (
        "import sys, lucky_transport_stubs\n"
        "assert 'grpc' not in sys.modules\n"
        "import lucky_transport_stubs.client.channel, lucky_transport_stubs.server.server\n"
        "from lucky_transport_stubs import channel, server\n"
        "assert callable(channel) and callable(server) and callable(lucky_transport_stubs.channel)\n"
        "assert set(lucky_transport_stubs.__all__) == {'aio_channel', 'aio_server', 'channel', 'inline', 'server'}\n"
        "assert all(callable(getattr(lucky_transport_stubs, name)) for name in lucky_transport_stubs.__all__)\n"
        "assert not hasattr(lucky_transport_stubs, 'nothing')\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60, env=dict(os.environ))

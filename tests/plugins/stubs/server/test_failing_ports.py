"""A port that cannot be had is a RuntimeError, as in gRPC; nothing of it is left, and it can be had afterwards."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

import lucky_transport_stubs
from tests.plugins.failing_starts import no_descriptors, no_threads
from tests.support.resources import connections_of, threads_of
from tests.support.waiting import PATIENCE_S

KINDS = pytest.mark.parametrize("kind", ["threads", "asyncio"])


def with_server(kind: str, use: Callable[[Any], None]) -> None:
    """Call `use` with a server, which is started and stopped afterwards."""

    async def run() -> None:
        server = lucky_transport_stubs.aio_server()
        use(server)
        await server.start()
        await server.stop(None)

    if kind == "asyncio":
        asyncio.run(run())
        return
    with ThreadPoolExecutor(1) as pool:
        server = lucky_transport_stubs.server(pool)
        use(server)
        server.start()
        server.stop(None)


@KINDS
def test_a_limit_of_open_files_is_named(kind: str, address: Callable[[], str]) -> None:
    target = address()

    def use(server: Any) -> None:
        for allowed in range(5):
            with no_descriptors(allowed), pytest.raises(RuntimeError, match=r"Failed to bind.*too many open.*ulimit"):
                server.add_insecure_port(target)
            assert not connections_of(target.removeprefix("shm://"))
        assert server.add_insecure_port(target) == 1

    with_server(kind, use)


@KINDS
def test_a_runtime_directory_that_is_refused_is_named(
    kind: str, address: Callable[[], str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "lucky_transport").mkdir()
    (tmp_path / "lucky_transport").chmod(0o777)
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))

    def use(server: Any) -> None:
        with pytest.raises(RuntimeError, match=r"Failed to bind.*not a directory that only you can enter"):
            server.add_insecure_port(address())

    with_server(kind, use)


def test_a_server_whose_thread_is_refused_has_ended(address: Callable[[], str]) -> None:
    target = address()
    with ThreadPoolExecutor(1) as pool:
        server = lucky_transport_stubs.server(pool)
        server.add_insecure_port(target)
        with no_threads(0), pytest.raises(RuntimeError, match="can't start new thread"):
            server.start()
        assert not server.wait_for_termination(PATIENCE_S)
        assert not connections_of(target.removeprefix("shm://"))
        assert not threads_of(f"grpc server {target}")

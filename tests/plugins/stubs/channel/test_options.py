"""Options of channels and servers that have no effect over shared memory are named in the log."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("grpc", reason="grpcio is not installed: pip install 'lucky-transport[grpc]'")

import lucky_transport_stubs
from lucky_transport_stubs import options
from lucky_transport_stubs.options import IGNORED


def _aio_channel(given: Any) -> None:
    async def make() -> None:
        await lucky_transport_stubs.aio_channel("shm://nothing_there", given).close()

    asyncio.run(make())


def _aio_server(given: Any) -> None:
    async def make() -> None:
        lucky_transport_stubs.aio_server(options=given)

    asyncio.run(make())


ENDS: dict[str, Callable[[Any], Any]] = {
    "channel": lambda given: lucky_transport_stubs.channel("shm://nothing_there", given).close(),
    "aio_channel": _aio_channel,
    "server": lambda given: lucky_transport_stubs.server(ThreadPoolExecutor(1), options=given),
    "aio_server": _aio_server,
}


@pytest.mark.parametrize("end", ENDS)
def test_each_option_without_effect_is_logged_once(
    end: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(options, "_logged", set[str]())
    for _ in range(2):
        ENDS[end](
            [*((name, 1) for name in IGNORED), ("grpc.keepalive_time_ms", 1000), (b"grpc.primary_user_agent", "x")]
        )
    said = [record.getMessage() for record in caplog.records if record.name == "lucky_transport"]
    assert said == [f"the option {name} has no effect over shared memory: {why}" for name, why in IGNORED.items()]


def test_the_readme_names_each() -> None:
    readme = Path(lucky_transport_stubs.__file__ or "").with_name("README.md").read_text()
    assert [name for name in IGNORED if f"`{name}`" not in readme] == []

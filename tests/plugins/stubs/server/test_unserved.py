"""A server that never had a port is dropped without a word, started or not."""

from __future__ import annotations

import gc
import sys
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

grpc = pytest.importorskip("grpc")

import lucky_transport_stubs  # noqa: E402 - needs grpc


@pytest.mark.parametrize("is_started", [False, True])
def test_a_server_without_a_port_is_dropped_without_a_word(is_started: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[Any] = []
    monkeypatch.setattr(sys, "unraisablehook", said.append)
    with ThreadPoolExecutor(1) as pool:
        server = lucky_transport_stubs.server(pool)
        if is_started:
            server.start()
        del server
        gc.collect()
    assert said == []


@pytest.mark.parametrize("bad", [{"options": 5}, {"interceptors": 5}])
def test_a_server_that_could_not_be_made_is_dropped_without_a_word(
    bad: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    said: list[Any] = []
    monkeypatch.setattr(sys, "unraisablehook", said.append)
    with ThreadPoolExecutor(1) as pool, pytest.raises((TypeError, ValueError, AttributeError)):
        lucky_transport_stubs.server(pool, **bad)
    gc.collect()
    assert said == []

"""A service of a team's own moves under the launcher as it is, with the same answers."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from lucky_transport.process import unique_name
from tests.support.waiting import PATIENCE_S
from tests.support.weather import WeatherPrograms

pytest.importorskip("grpc")

_RUN = [sys.executable, "-m", "lucky_transport", "run", "--transport", "shm"]


@contextmanager
def _served(command: list[str]) -> Iterator[str]:
    """Serve, and give the target."""
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        try:
            yield f"127.0.0.1:{server.stdout.readline().split()[-1]}"
        finally:
            server.terminate()


def _last_line(command: list[str]) -> str:
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=PATIENCE_S)
    return done.stdout.splitlines()[-1]


def test_client_and_server_of_a_team_give_the_same_total_over_both_transports(weather: WeatherPrograms) -> None:
    with _served(weather.server()) as target:
        over_grpc = _last_line(weather.client(target))
    pair = f"127.0.0.1:*=shm://{unique_name()}"
    with _served([*_RUN, "--serve", pair, "--serve-only", "--", *weather.server()]) as target:
        over_shm = _last_line([*_RUN, "--map", pair, "--", *weather.client(target)])
    assert over_grpc.startswith("weather total ")
    assert over_shm == over_grpc


def test_a_planted_difference_is_seen_over_shared_memory_alone(weather: WeatherPrograms) -> None:
    pair = f"127.0.0.1:*=shm://{unique_name()}"
    with _served([*_RUN, "--serve", pair, "--", *weather.server(0, "--fault", "value")]) as target:
        over_grpc = _last_line(weather.client(target, "--rounds", "1"))
    with _served([*_RUN, "--serve", pair, "--", *weather.server(0, "--fault", "value")]) as target:
        over_shm = _last_line([*_RUN, "--map", pair, "--", *weather.client(target, "--rounds", "1")])
    with _served(weather.server()) as target:
        assert _last_line(weather.client(target, "--rounds", "1")) == over_grpc != over_shm

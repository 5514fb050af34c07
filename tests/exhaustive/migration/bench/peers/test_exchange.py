"""Peers: the bytes of a step there and back between two processes, every answer looked at."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from lucky_transport.errors import MissingExtra, NotReachable, PeerDied, RemoteProtocolError
from lucky_transport_migration.bench.measuring import Effort
from lucky_transport_migration.bench.peers import exchange, kinds, wire
from lucky_transport_migration.bench.peers.exchange import measure_exchanges
from lucky_transport_migration.bench.peers.wire import Message

EFFORT = Effort(budget_s=0.01, least=3, most=40, open_loop_s=0.1)
SMALL = Message(num_envs=2, obs_size=3, act_size=2, copies=True)


@pytest.fixture
def clean() -> Iterator[None]:
    """Fail a test that leaves a segment behind; other processes' come and go meanwhile."""
    yield
    assert not list(Path("/dev/shm").glob(f"lucky_{os.getpid()}_*"))


@pytest.mark.usefixtures("clean")
@pytest.mark.parametrize("name", kinds.PEERS)
def test_all_cells_of_a_peer_are_measured_in_one_pair_of_processes(name: str) -> None:
    if name in kinds.missing_peers():
        pytest.skip(f"{name} is not installed")
    large = Message(num_envs=1, obs_size=50_000, act_size=2, copies=True)
    found = measure_exchanges(name, [(SMALL, None), (large, None), (SMALL, 100.0)], EFFORT)
    assert [one.samples_ns.size >= 3 for one in found] == [True, True, True]
    assert all((one.samples_ns > 0).all() for one in found)
    assert all(one.engine_cpu_ns is not None for one in found)
    assert found[2].rate_achieved is not None


def test_the_bytes_of_a_message_are_those_of_a_step() -> None:
    message = Message(num_envs=4, obs_size=10, act_size=3, copies=False)
    assert message.request_bytes == 8 + 4 * 3 * 4 + 4
    assert message.answer_bytes == 8 + 4 * 10 * 4 + 4 * 4 + 2 * 4
    observations = message.prepared()[: message.observation_bytes].view(np.float32)
    assert (observations == wire.PREPARED).all()


def test_an_answer_of_other_observations_ends_the_measurement(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exchange, "PREPARED", 0.75)
    with pytest.raises(RemoteProtocolError, match="an answer was torn"):
        measure_exchanges("unix-socket", [(SMALL, None)], EFFORT)


def test_an_answer_to_another_request_ends_the_measurement(monkeypatch: pytest.MonkeyPatch) -> None:
    step = exchange._Client.step  # pyright: ignore[reportPrivateUsage]
    monkeypatch.setattr(exchange._Client, "step", lambda self, actions: step(self, actions) + 1)  # pyright: ignore[reportPrivateUsage]
    with pytest.raises(RemoteProtocolError, match="that of another request"):
        measure_exchanges("unix-socket", [(SMALL, None)], EFFORT)


def test_a_server_that_ends_in_the_middle_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    started: list[subprocess.Popen[bytes]] = []
    popen = subprocess.Popen

    def remember(*arguments: object, **options: object) -> subprocess.Popen[bytes]:
        started.append(popen(*arguments, **options))  # type: ignore[call-overload] # pyright: ignore[reportArgumentType,reportCallIssue]
        return started[-1]

    def killed(*arguments: object) -> None:
        started[0].kill()
        started[0].wait()

    monkeypatch.setattr(subprocess, "Popen", remember)
    monkeypatch.setattr(exchange, "measure_loop", killed)
    with pytest.raises(PeerDied, match="in the middle"):
        measure_exchanges("unix-socket", [(SMALL, None)], EFFORT)


def test_a_server_that_does_not_start_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exchange, "_PROGRAM", "lucky_transport_migration.bench.peers")
    with pytest.raises(NotReachable, match="before it was ready"):
        measure_exchanges("unix-socket", [(SMALL, None)], EFFORT)


def test_a_peer_that_is_not_installed_is_named_with_its_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    def load(target: str, owner: str, extra: str) -> type:
        if "iceoryx" in target:
            raise MissingExtra("no iceoryx2", hint="install the extra peers")
        return object

    monkeypatch.setattr(kinds, "load", load)
    assert list(kinds.missing_peers()) == ["iceoryx2"]

"""What is measured beside the bench: each part prints its rows, and leaves nothing behind."""

from __future__ import annotations

import os
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest
from click.testing import CliRunner

from lucky_transport.errors import RemoteProtocolError
from lucky_transport_migration.bench.measuring import Effort
from tests.endurance import beside, peers

EFFORT = Effort(budget_s=0.01, least=3, most=40, open_loop_s=0.1)
SMALL = peers.Message(num_envs=2, obs_size=3, act_size=2, copies=True)


@pytest.fixture(autouse=True)
def nothing_is_left() -> Iterator[None]:
    before = _children()
    yield
    assert _children() == before
    assert not list(Path("/dev/shm").glob(f"lucky_{os.getpid()}_*"))


def _children() -> set[str]:
    return set(Path(f"/proc/self/task/{os.getpid()}/children").read_text().split())


@pytest.mark.parametrize("part", ["beside", "one-cpu", "idle", "threads"])
def test_each_part_prints_its_ways(part: str) -> None:
    pytest.importorskip("grpc")
    done = CliRunner().invoke(beside.main, ["--only", part, "--rounds", "1", "--seconds", "0.005"])
    assert done.exit_code == 0, done.output
    for way in ("shm adaptive", "shm block", "grpc-batch"):
        assert way in done.output
    assert part == "beside" or "at most" in done.output


@pytest.mark.parametrize("name", peers.PEERS)
def test_all_messages_of_a_peer_are_measured_in_one_pair_of_processes(name: str) -> None:
    if name == "iceoryx2" and find_spec("iceoryx2") is None:
        pytest.skip("iceoryx2 is not installed")
    found = peers.measure_peer(name, [SMALL, peers.Message(1, 50_000, 2, copies=False, rate_hz=100)], EFFORT)
    assert all(one.samples_ns.size >= 3 and one.engine_cpu_ns is not None for one in found)
    assert found[1].rate_achieved is not None


def test_an_answer_of_other_observations_ends_the_measurement(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(peers, "_PREPARED", 0.75)
    with pytest.raises(RemoteProtocolError, match="came where answer 1 was due"):
        peers.measure_peer("unix-socket", [SMALL], EFFORT)

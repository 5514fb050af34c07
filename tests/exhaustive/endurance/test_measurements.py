"""What is measured beside the bench: each part shows its ways, and leaves nothing behind."""

import os
from collections.abc import Iterator
from importlib.util import find_spec
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from lucky_transport_migration.bench.measuring import Effort
from lucky_transport_migration.stats import LEAST_COVERAGE
from tests.endurance import beside, codec, peers, scale
from tests.endurance.compare import changes, ratio_between_runs

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
def test_each_part_prints_its_ways(part: str, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("grpc")
    monkeypatch.setattr(beside, "_CO_RUNNERS", (1,))
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


@pytest.mark.parametrize("kind", ["pairs", "clients"])
def test_each_of_many_uses_cpu_memory_and_descriptors_and_all_have_ended_after_it(kind: str) -> None:
    name, *found = scale.side_by_side(kind, "shm", 2, 0.2)
    assert name == f"2 {kind}, shm"
    assert all(float(one) > 0 for one in found[2:])


def test_engines_that_come_and_go_keep_no_descriptor() -> None:
    assert scale.cycles("shm", 30)[3] == "0"


# a codec, and two runs


def test_both_codecs_are_timed_to_write_and_to_read() -> None:
    pytest.importorskip("google.protobuf", reason="protobuf is not installed")
    found = codec.measure(0.01)
    assert set(found) == {f"{way}, {name}" for way in ("write", "read") for name in ("FlatBuffers", "protobuf")}
    assert all(ns > 0 for ns in found.values())


P50S = [10.0, 10.1, 10.2, 9.9, 10.0, 9.8]


def result(*, floor: float | None = 1.01, of_run: float = 1.02, rounds: int = 6, **times: float) -> dict[str, Any]:
    """Return as much of a result as is compared: path -> how many times P50S its rounds took."""
    rows = [
        {"title": "one exchange", "path": path, "wait": None, "p50s": [p * by for p in P50S[:rounds]], "floor": floor}
        for path, by in times.items()
    ]
    return {"rows": rows, "noise_floor": {"floor": of_run}}


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        (result(shm=1, grpc=1, inproc=1), result(shm=1.5, grpc=0.5, inproc=1), ["SLOWER", "FASTER", "NO DIFFERENCE"]),
        (result(floor=1.6, shm=1), result(shm=1.5), ["NO DIFFERENCE"]),
        (result(shm=1), result(floor=1.6, shm=1.5), ["NO DIFFERENCE"]),
        (result(floor=None, shm=1), result(floor=None, shm=1.5), ["SLOWER"]),
        (result(floor=None, shm=1), result(floor=None, of_run=1.6, shm=1.5), ["NO DIFFERENCE"]),
        (result(rounds=5, shm=1), result(shm=2), ["NO VERDICT"]),
        (result(shm=2), result(rounds=5, shm=1), ["NO VERDICT"]),
        (result(shm=1, grpc=1), result(shm=1, inproc=1), ["NO DIFFERENCE"]),
    ],
)
def test_rows_of_two_runs_are_told_apart_by_more_than_the_noise_of_either(
    old: dict[str, Any], new: dict[str, Any], words: list[str]
) -> None:
    assert [word for word, _ in changes(old, new)] == words


def test_an_interval_between_runs_holds_the_truth_as_often_as_it_says() -> None:
    """Of all ways to deal twelve ranks to two runs alike, so many intervals hold a ratio of one."""
    ranks = [1.1**rank for rank in range(12)]
    held = total = 0
    for first in combinations(ranks, 6):
        found = ratio_between_runs(first, [one for one in ranks if one not in first])
        held, total = held + (found.low <= 1 <= found.high), total + 1
    assert held / total >= LEAST_COVERAGE

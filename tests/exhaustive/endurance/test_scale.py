"""Many pairs, many clients of one engine, engines that come and go: what each uses is told of all side by side."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from click.testing import CliRunner

from lucky_transport.errors import NotReachable
from tests.endurance import scale


def children() -> set[str]:
    return set(Path(f"/proc/self/task/{os.getpid()}/children").read_text().split())


@pytest.mark.parametrize("kind", ["pairs", "clients"])
def test_each_of_many_uses_cpu_memory_and_descriptors_and_all_have_ended_after_it(kind: str) -> None:
    before = children()
    name, *found = scale.side_by_side(kind, "shm", 2, 0.2)
    assert name == f"2 {kind}, shm"
    assert all(float(one) > 0 for one in found[2:])
    assert children() == before


def test_a_client_that_fails_ends_all_of_them() -> None:
    before = children()
    with pytest.raises(NotReachable, match="a client ended before it was over"):
        scale.side_by_side("pairs", "no such path", 2, 0.2)
    assert children() == before


def test_engines_that_come_and_go_keep_no_descriptor() -> None:
    assert scale.cycles("shm", 30)[3] == "0"


def test_every_way_is_shown() -> None:
    pytest.importorskip("grpc")
    done = CliRunner().invoke(scale.main, ["--pairs", "1", "--cycles", "5", "--seconds", "0.1"])
    assert done.exit_code == 0, done.output
    for row in ("1 pair, grpc-batch", "1 pair, shm", "1 client, grpc", "5 cycles, shm"):
        assert row in done.output

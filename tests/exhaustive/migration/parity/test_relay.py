"""A relay over shared memory answers as the engine's own gRPC does: steps, calls and streams."""

from __future__ import annotations

import pytest

from lucky_transport_migration.parity.call_proof import prove_commands
from lucky_transport_migration.parity.step_parity import prove
from lucky_transport_migration.paths import ConnectedEngine, find_path

pytest.importorskip("grpc", reason="grpcio is not installed: pip install 'lucky-transport[grpc]'")

BETWEEN = ("grpc", "relay")


def test_steps_are_equal() -> None:
    outcome = prove("toy", BETWEEN, num_envs=3, steps=40, seed=0, modes=("next_step", "same_step", "disabled"))
    assert outcome.equal, outcome.sentence


def test_calls_and_streams_are_equal(few_items: None) -> None:
    outcome = prove_commands("toy", BETWEEN, num_envs=2, count=3)
    assert outcome.equal, outcome.sentence


def test_both_processes_end_with_their_link() -> None:
    with ConnectedEngine(find_path("relay"), "toy", 2, seed=0) as link:
        assert link.transport.name == "shm"
        assert link.transport.step(link.transport.actions).seq == 1
        with ConnectedEngine(find_path("grpc"), "toy", 2, seed=0) as direct:
            assert link.transport.spec == direct.transport.spec

"""The promise in full: 2,000 steps over gRPC and shared memory, in each autoreset mode, on each kind of engine."""

from __future__ import annotations

import pytest

from lucky_transport_migration.parity import MODES, prove

pytest.importorskip("grpc")

STEPS = 2_000


@pytest.mark.timeout(300)
@pytest.mark.parametrize("engine", ["toy", "mujoco:quadruped", "gymnasium:CartPole-v1"])
def test_legacy_grpc_and_shared_memory_give_the_same_trajectory_bit_for_bit(engine: str) -> None:
    if engine.startswith("mujoco"):
        pytest.importorskip("mujoco")
    outcome = prove(engine, ("grpc", "shm"), num_envs=3, steps=STEPS, seed=11, modes=("frames", *MODES))
    assert outcome.equal, outcome.sentence
    for mode in MODES:
        counts = outcome.modes[mode]
        assert counts.steps >= STEPS
        assert counts.terminations > 0
        assert min(counts.resets.values()) > 0, "resets of all, of one and of some envs"

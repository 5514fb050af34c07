"""Every kind of engine gives one trajectory over gRPC and shared memory, in every autoreset mode on one.

`lucky-transport parity ENGINE --steps 2000 --autoreset all` plays more of it.
"""

from __future__ import annotations

import pytest

from lucky_transport_migration.parity.step_parity import MODES, prove

pytest.importorskip("grpc")

STEPS = 100


@pytest.mark.parametrize(
    ("engine", "modes"),
    [("toy", MODES[:1]), ("mujoco:quadruped", MODES), ("gymnasium:CartPole-v1", MODES[:1])],
    ids=["toy", "mujoco:quadruped", "gymnasium:CartPole-v1"],
)
def test_legacy_grpc_and_shared_memory_give_the_same_trajectory_bit_for_bit(
    engine: str, modes: tuple[str, ...]
) -> None:
    if engine.startswith("mujoco"):
        pytest.importorskip("mujoco")
    outcome = prove(engine, ("grpc", "shm"), num_envs=3, steps=STEPS, seed=11, modes=modes)
    assert outcome.equal, outcome.sentence
    for mode in ("frames", *modes):
        counts = outcome.modes[mode]
        assert counts.steps >= STEPS
        assert counts.terminations > 0
        assert min(counts.resets.values()) > 0, "resets of all, of one and of some envs"

"""Every kind of engine goes one way and answers alike over all transports.

`lucky-transport parity ENGINE --steps 2000 --autoreset all` plays more of it.
"""

from __future__ import annotations

import pytest

from lucky_transport_migration.parity.call_proof import prove_commands
from lucky_transport_migration.parity.step_parity import MODES, prove

pytest.importorskip("grpc", reason="grpcio is not installed: pip install 'lucky-transport[grpc]'")
STEPS = 100


@pytest.mark.parametrize(
    ("engine", "between", "modes"),
    [
        *(("toy", ("inproc", other), ("same_step",)) for other in ("shm", "grpc", "grpc-batch")),
        ("toy", ("grpc", "shm"), MODES[:1]),
        ("toy:composite", ("inproc", "shm"), MODES),
        ("mujoco:quadruped", ("grpc", "shm"), MODES),
        ("gymnasium:CartPole-v1", ("grpc", "shm"), MODES[:1]),
    ],
)
def test_a_trajectory_is_the_same_bit_for_bit(engine: str, between: tuple[str, ...], modes: tuple[str, ...]) -> None:
    if engine.startswith("mujoco"):
        pytest.importorskip("mujoco")
    outcome = prove(engine, between, num_envs=3, steps=STEPS, seed=11, modes=modes)
    assert outcome.equal, outcome.sentence
    for mode in ("frames", *modes):
        counts = outcome.modes[mode]
        assert counts.steps >= STEPS
        assert counts.terminations > 0
        assert min(counts.resets.values()) > 0, "resets of all, of one and of some envs"


@pytest.mark.parametrize("between", [("inproc", "grpc"), ("inproc", "shm")])
def test_all_methods_of_the_toy_are_answered_alike(between: tuple[str, ...], few_items: None) -> None:
    outcome = prove_commands("toy", between, count=4, seed=1)
    assert outcome.equal, outcome.sentence

"""The plugin's examples run over gRPC and over shared memory, and the numbers are the same."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

import pytest

#: Example -> the packages it needs, its function, and arguments that make it short.
EXAMPLES: dict[str, tuple[tuple[str, ...], str, tuple[int, ...]]] = {
    "sb3": (("stable_baselines3",), "train", (512, 8)),
    "rsl_rl": (("rsl_rl",), "train", (1, 4)),
    "torchrl": (("torchrl",), "train", (2, 4)),
    "skrl": (("skrl",), "train", (64, 4)),
    "lerobot": ((), "evaluate", (3, 2)),
    "rllib": (("ray",), "train", (1, 2)),
}


@pytest.mark.parametrize("name", EXAMPLES)
def test_an_example_gives_the_same_numbers_over_both_transports(name: str, request: pytest.FixtureRequest) -> None:
    packages, function, arguments = EXAMPLES[name]
    for package in ("mujoco", "grpc", *packages):
        pytest.importorskip(package, reason=f"{package} is not installed")
    if packages:
        request.getfixturevalue("torch")
    run: Any = getattr(importlib.import_module(f"lucky_transport_frameworks.examples.{name}"), function)
    over_shm, over_grpc = (run(*arguments, transport=transport) for transport in ("shm", "grpc"))
    assert over_shm == over_grpc
    assert len(over_shm) >= 2
    assert len(set(over_shm)) > 1


def test_the_page_on_rsl_rl_shows_the_config_that_its_example_runs_with() -> None:
    root = Path(__file__).parents[3]
    example = (root / "plugins/lucky_transport_frameworks/examples/rsl_rl.py").read_text()
    config = example[example.index("NETWORK = ") : example.index("def train(")].strip()
    assert config in (root / "docs/how-to/rsl-rl.md").read_text()

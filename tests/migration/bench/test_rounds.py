"""Checks around a measured loop: a fast wrong answer is no result."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from lucky_transport.engines.toy import ToyEngine
from lucky_transport.errors import RemoteProtocolError
from lucky_transport_migration.bench.measuring import Effort
from lucky_transport_migration.bench.suites.steps import COPY, IDLE, StepSetup, plan_of
from lucky_transport_migration.bench.workloads.steps import measure_setup

EFFORT = Effort(budget_s=0.002, least=2, most=50, open_loop_s=0.02)
PLAN = replace(
    plan_of(IDLE, ("inproc",), None, None, {"obs_size": 4, "act_size": 2}, rounds=1, quick=True), effort=EFFORT
)


@pytest.mark.parametrize("engine", [IDLE, COPY])
def test_all_cells_of_a_setup_are_measured(engine: str) -> None:
    setup = StepSetup("inproc", None, 3, engine, open_loop=True)
    found = measure_setup(setup, PLAN)
    assert list(found) == setup.cells(zero_copy=True)
    assert all(one.samples_ns.size >= 2 for one in found.values())


@pytest.mark.parametrize("engine", [IDLE, COPY])
def test_a_torn_frame_is_found(engine: str, monkeypatch: pytest.MonkeyPatch) -> None:
    step = ToyEngine.step

    def torn(self: ToyEngine, control: Any) -> None:
        step(self, control)
        self._buffers.observations[-1, -1] = 9  # pyright: ignore[reportPrivateUsage]

    monkeypatch.setattr(ToyEngine, "step", torn)
    with pytest.raises(RemoteProtocolError, match="a frame was torn"):
        measure_setup(StepSetup("inproc", None, 2, engine), PLAN)


def test_exchanges_that_the_loop_did_not_make_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    from lucky_transport.env.vector_env import VectorEnv

    step = VectorEnv.step

    def twice(self: VectorEnv, actions: Any) -> Any:
        step(self, actions)
        return step(self, actions)

    monkeypatch.setattr(VectorEnv, "step", twice)
    with pytest.raises(RemoteProtocolError, match="frames for"):
        measure_setup(StepSetup("inproc", None, 2, IDLE), PLAN)


def test_measured_actions_are_valid_for_the_engine() -> None:
    found = measure_setup(StepSetup("inproc", None, 2, "toy"), PLAN)
    assert {cell.level for cell in found} == {"env"}
    assert all(np.isfinite(one.samples_ns).all() for one in found.values())

"""Measuring a tick: our Holodeck halves, and two bare processes that do nothing but take turns."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from lucky_transport_migration.bench.call_suite.cell import CallCell
from lucky_transport_migration.bench.measuring import Measurement, closed_loop
from lucky_transport_migration.bench.plan import Plan
from lucky_transport_migration.bench.systems.cells import SystemSetup
from lucky_transport_migration.bench.systems.cores import two_cores
from lucky_transport_migration.bench.systems.semaphores import SemaphorePair
from lucky_transport_migration.paths import ConnectedEngine, find_path

__all__ = ["measure"]

_ENGINE = "toy:idle"


def measure(setup: SystemSetup, plan: Plan) -> Mapping[CallCell, Measurement]:
    """Return the ticks of a setup. Raises RemoteProtocolError when one was lost, PeerDied when a process ended."""
    (cell,) = setup.cells()
    if setup.path == "semaphores":
        with SemaphorePair() as pair, two_cores(pair.pid):
            return {cell: closed_loop(pair.step, np.zeros(0), plan.effort, pair.pid)}
    with ConnectedEngine(find_path("holodeck"), _ENGINE, 1) as link:
        assert link.pid is not None, "its engine has a process of its own"
        spec = link.transport.spec
        actions = np.zeros(spec.action_shape, spec.action.dtype)
        with two_cores(link.pid):
            return {cell: closed_loop(link.transport.step, actions, plan.effort, link.pid, lambda frame: frame.seq)}

"""Measuring a C library: hosted by an engine process over shm, and called directly.

The library counts its acts where the host can see it, so no step is lost or doubled unnoticed.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import closing

import numpy as np

from lucky_transport.env.vector_env import VectorEnv
from lucky_transport.errors import RemoteProtocolError
from lucky_transport_migration.bench.measuring import Measurement, closed_loop
from lucky_transport_migration.bench.plan import Plan
from lucky_transport_migration.bench.suite import CallCell
from lucky_transport_migration.bench.suites.systems import SystemSetup
from lucky_transport_migration.bench.workloads.systems.library import DirectLibrary, compiled
from lucky_transport_migration.paths import ConnectedEngine, find_path

__all__ = ["measure"]


def measure(setup: SystemSetup, plan: Plan) -> Mapping[CallCell, Measurement]:
    """Return the steps of a setup. Raises EngineFailed (it does not compile), RemoteProtocolError (a step was lost)."""
    with compiled() as path:
        return _hosted(setup, plan, path) if setup.path == "shm" else _direct(setup, plan, path)


def _direct(setup: SystemSetup, plan: Plan, path: str) -> Mapping[CallCell, Measurement]:
    (cell,) = setup.cells()
    with DirectLibrary(path, int(plan.options["num_envs"])) as library:
        found = closed_loop(library.step, np.zeros_like(library.actions), plan.effort, None)
        steps = found.samples_ns.size + found.warmup_ns.size
        if not (library.observations[:, 0] == steps).all():
            raise RemoteProtocolError(f"{library.observations[0, 0]:.0f} acts for {steps} steps")
    return {cell: found}


def _hosted(setup: SystemSetup, plan: Plan, path: str) -> Mapping[CallCell, Measurement]:
    steps, *of_env = setup.cells()
    with ConnectedEngine(find_path("shm"), f"libenv:{path}", int(plan.options["num_envs"]), wait=setup.wait) as link:
        transport = link.transport
        actions = np.zeros(transport.spec.action_shape, transport.spec.action.dtype)
        found = {steps: closed_loop(transport.step, actions, plan.effort, link.pid, lambda frame: frame.seq)}
        for cell in of_env:
            with closing(VectorEnv(transport)) as env:
                env.reset()
                pushes = env.action_space.sample()
                found[cell] = closed_loop(env.step, pushes, plan.effort, link.pid)
        return found

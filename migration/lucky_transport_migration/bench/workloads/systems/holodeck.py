"""Measuring a tick: an engine of ours as a Holodeck world, and two bare processes that do nothing but take turns."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from lucky_transport import api
from lucky_transport.engine import RESET
from lucky_transport.process import EngineProcess, unique_name
from lucky_transport_migration.bench.measuring import Measurement, closed_loop
from lucky_transport_migration.bench.plan import Plan
from lucky_transport_migration.bench.suite import CallCell
from lucky_transport_migration.bench.suites.systems import SystemSetup
from lucky_transport_migration.bench.workloads.systems.cores import two_cores
from lucky_transport_migration.bench.workloads.systems.semaphores import SemaphorePair

__all__ = ["measure"]

#: An agent that acts with two values, sees eight, and has a task: what an env of the idle engine is.
_SENSORS = ({"sensor_type": "RangeFinderSensor", "configuration": {"LaserCount": 8}}, {"sensor_type": "DistanceTask"})
_SCENARIO = {"world": "idle", "agents": [{"agent_type": "TurtleAgent", "sensors": _SENSORS}]}


def measure(setup: SystemSetup, plan: Plan) -> Mapping[CallCell, Measurement]:
    """Return the ticks of a setup. Raises RemoteProtocolError when one was lost, PeerDied when a process ended."""
    (cell,) = setup.cells()
    if setup.path == "semaphores":
        with SemaphorePair() as pair, two_cores(pair.pid):
            return {cell: closed_loop(pair.step, np.zeros(0), plan.effort, pair.pid)}
    endpoint = f"holodeck://{unique_name()}"
    engine = EngineProcess("toy:idle", [endpoint])
    try:
        with tempfile.TemporaryDirectory() as folder:
            scenario = Path(folder) / "scenario.json"
            scenario.write_text(json.dumps(_SCENARIO))
            client = api.open_transport(f"{endpoint}?scenario={scenario}&pre_start_steps=0")
        with client, two_cores(engine.pid):
            client.step(client.actions, np.full(1, RESET, np.uint8))
            step = closed_loop(client.step, client.actions, plan.effort, engine.pid, lambda frame: frame.seq)
        return {cell: step}
    finally:
        engine.stop()

"""Gymnasium's AsyncVectorEnv as the bench sees it: a job goes in, its measurement comes out."""

from __future__ import annotations

import pickle
from dataclasses import dataclass

from lucky_transport.process import python_command
from lucky_transport_migration.bench.measuring import Effort, Measurement
from lucky_transport_migration.bench.processes import run_client

__all__ = ["MOST_ENVS", "VectorJob", "measure_vector_env"]

#: One process per env: above this a machine is busy with starting them.
MOST_ENVS = 64

_PROGRAM = "lucky_transport_migration.bench.peers.vector_program"
_PATIENCE_S = 120.0


@dataclass(frozen=True, slots=True)
class VectorJob:
    """What is stepped, and for how long."""

    num_envs: int
    obs_size: int
    act_size: int
    effort: Effort


def measure_vector_env(job: VectorJob) -> Measurement:
    """Return the steps of an AsyncVectorEnv whose envs do nothing; its processes have ended when this returns.

    `engine_cpu_ns` is that of all workers. Raises NotReachable with the program's last words, and PeerTimeout.
    """
    what = f"AsyncVectorEnv of {job.num_envs} envs"
    return pickle.loads(run_client(python_command(_PROGRAM), what, _PATIENCE_S, pickle.dumps(job)))

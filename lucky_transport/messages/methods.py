"""THE table of methods: one row per method that can be called, on every transport.

Rule 1: an id is stable for ever; new methods get new ids, ids of removed ones are never used again.
Rule 2: `effect` says what calling twice does (the migration kit relies on it): READ nothing; WORLD changes what the
        simulation computes; VIEW changes only what is shown.
Rule 3: `runs` says where the handler runs: INLINE on the thread that waits (under 50 us, never blocks), ENGINE between
        two steps, POOL in a thread pool.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import Enum

from lucky_transport.errors import UnknownName
from lucky_transport.messages import agent, batch, mujoco, task

__all__ = ["BY_ID", "BY_NAME", "METHODS", "Effect", "Flow", "Method", "Runs", "method"]


class Effect(Enum):
    """What a call changes."""

    READ = "read"
    VIEW = "view"
    WORLD = "world"


class Runs(Enum):
    """Where a handler runs."""

    INLINE = "inline"
    ENGINE = "engine"
    POOL = "pool"


class Flow(Enum):
    """How a stream treats a client that reads too slowly: what it misses is skipped, or the sender waits for it."""

    LATEST = "latest"
    EVERY = "every"


@dataclass(frozen=True, slots=True)
class Method:
    """One method: wire id, full name ("/package.Service/Method"), message classes, effect and place.

    `stream` is None for a unary method (one request, one response), else how its items flow to the client.
    """

    id: int
    name: str
    request: type
    response: type
    effect: Effect
    runs: Runs
    stream: Flow | None = None

    @property
    def service(self) -> str:
        """The service's full name, "package.Service"."""
        return self.name[1:].partition("/")[0]

    @property
    def python_name(self) -> str:
        """The method's name as a Python attribute: "GetAgentSchema" -> "get_agent_schema"."""
        return re.sub(r"(?<!^)(?=[A-Z])", "_", self.name.rpartition("/")[2]).lower()


_AGENT = "/hazel.rpc.AgentService/"
_MUJOCO = "/hazel.rpc.MujocoService/"
_BATCH = "/lucky_transport.v1.BatchService/"

# fmt: off  (one row a method)
METHODS: tuple[Method, ...] = (
    Method(
        1,
        _AGENT + "GetAgentSchema",
        agent.GetAgentSchemaRequest,
        agent.GetAgentSchemaResponse,
        Effect.READ,
        Runs.INLINE,
    ),
    Method(2, _AGENT + "ResetAgent", agent.ResetAgentRequest, agent.ResetAgentResponse, Effect.WORLD, Runs.ENGINE),
    Method(
        4,
        _AGENT + "SetActionGroup",
        agent.SetActionGroupRequest,
        agent.SetActionGroupResponse,
        Effect.WORLD,
        Runs.ENGINE,
    ),
    Method(
        6,
        _AGENT + "GetCapabilityManifest",
        task.GetCapabilityManifestRequest,
        task.GetCapabilityManifestResponse,
        Effect.READ,
        Runs.INLINE,
    ),
    Method(
        7,
        _AGENT + "ValidateTaskContract",
        task.ValidateTaskContractRequest,
        task.ValidateTaskContractResponse,
        Effect.READ,
        Runs.INLINE,
    ),
    Method(
        8, _AGENT + "NegotiateTask", task.NegotiateTaskRequest, task.NegotiateTaskResponse, Effect.WORLD, Runs.ENGINE
    ),
    Method(
        40,
        _MUJOCO + "GetJointState",
        mujoco.GetJointStateRequest,
        mujoco.GetJointStateResponse,
        Effect.READ,
        Runs.ENGINE,
    ),
    Method(
        41,
        _MUJOCO + "GetMujocoInfo",
        mujoco.GetMujocoInfoRequest,
        mujoco.GetMujocoInfoResponse,
        Effect.READ,
        Runs.INLINE,
    ),
    Method(200, _BATCH + "SetSeeds", batch.SetSeedsRequest, batch.SetSeedsResponse, Effect.WORLD, Runs.ENGINE),
    Method(
        201,
        _BATCH + "SetResetOptions",
        batch.SetResetOptionsRequest,
        batch.SetResetOptionsResponse,
        Effect.WORLD,
        Runs.ENGINE,
    ),
)
# fmt: on

BY_NAME: dict[str, Method] = {row.name: row for row in METHODS}
BY_ID: dict[int, Method] = {row.id: row for row in METHODS}
assert len(BY_NAME) == len(BY_ID) == len(METHODS)


def method(name: str) -> Method:
    """Return the method of that full name, "/package.Service/Method" or "Service/Method".

    Raises UnknownName.
    """
    found = BY_NAME.get(name)
    if found is None:
        found = next((row for row in METHODS if row.name.rpartition(".")[2] == name), None)
    if found is None:
        raise UnknownName(f"no method {name!r}", hint=f"known: {', '.join(BY_NAME)}")
    return found

"""The batch spec of an engine that has no BatchService, put together from what the legacy protocol tells."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from typing import Any

from lucky_transport.deadline import Deadline
from lucky_transport.errors import PeerTimeout, SpecError, Unimplemented
from lucky_transport.messages import (
    AgentSchema,
    EngineCapabilityManifest,
    GetAgentSchemaRequest,
    GetCapabilityManifestRequest,
    NegotiateTaskRequest,
    RewardContract,
    RewardTermRequest,
    TaskContract,
    TerminationContract,
    TerminationTermRequest,
)
from lucky_transport.messages.methods import Method, method
from lucky_transport.spec.batch_spec import ArraySpec, BatchSpec

_log = logging.getLogger("lucky_transport")
_SERVICE = "/hazel.rpc.AgentService/"
_POLL_S = 0.2

#: An engine may answer for any name; this is where asking ends.
MAX_AGENTS = 4096


#: Makes one typed call: takes its method, request and deadline, and returns the response; raises TransportError.
TypedCall = Callable[[Method, Any, Deadline], Any]


def read_spec(call: TypedCall, deadline: Deadline) -> BatchSpec | None:
    """Return the spec, or None when no agent was there before the deadline.

    Raises SpecError when the agents differ, and what `call` raises.
    """
    first = _schema(call, "", deadline)
    # An engine without agents is still loading: it is asked again until the deadline.
    while not _is_agent(first):
        if deadline.remaining_s < _POLL_S:
            return None
        time.sleep(_POLL_S)
        try:
            first = _schema(call, "", deadline)
        except PeerTimeout:  # it has answered before: no agent was there
            return None
    num_envs = 1
    while num_envs < MAX_AGENTS:
        name = f"agent_{num_envs}"
        schema = _schema(call, name, deadline)
        if not _is_agent(schema) or schema.agent_name not in ("", name):
            break
        if (schema.observation_size, schema.action_size) != (first.observation_size, first.action_size):
            raise SpecError(
                f"{name} has {schema.observation_size} observations and {schema.action_size} actions, agent_0 has "
                f"{first.observation_size} and {first.action_size}: they are no batch",
                backend="grpc",
                hint="load a scene with agents of one kind",
            )
        num_envs += 1
    return _spec(first, num_envs, _manifest(call, deadline))


def negotiate_all(call: TypedCall, spec: BatchSpec, deadline: Deadline) -> None:
    """Make Steps carry every term of the spec; raises SpecError when the engine refuses."""
    contract = TaskContract(
        task_id="lucky_transport",
        rewards=RewardContract([RewardTermRequest(name, 1.0) for name in spec.reward_terms]),
        terminations=TerminationContract(
            [TerminationTermRequest(name, name in spec.timeout_terms) for name in spec.termination_terms]
        ),
    )
    response = call(method(_SERVICE + "NegotiateTask"), NegotiateTaskRequest(contract), deadline)
    if not response.success:
        raise SpecError(f"the engine refused its own terms: {response.message}", backend="grpc")


def _schema(call: TypedCall, name: str, deadline: Deadline) -> AgentSchema:
    request = GetAgentSchemaRequest(name)
    try:
        response = call(method(_SERVICE + "GetAgentSchema"), request, deadline)
    except (LookupError, SpecError):  # how engines may put "no such agent"
        return AgentSchema(name)
    return response.schema or AgentSchema(name)


def _is_agent(schema: AgentSchema) -> bool:
    return schema.observation_size > 0 and schema.action_size > 0


def _manifest(call: TypedCall, deadline: Deadline) -> EngineCapabilityManifest:
    request = GetCapabilityManifestRequest()
    try:
        response = call(method(_SERVICE + "GetCapabilityManifest"), request, deadline)
    except Unimplemented:
        return EngineCapabilityManifest()
    return response.manifest or EngineCapabilityManifest()


def _spec(schema: AgentSchema, num_envs: int, manifest: EngineCapabilityManifest) -> BatchSpec:
    rewards = tuple(term.name for term in manifest.rewards)
    terminations = tuple(term.name for term in manifest.terminations)
    if not rewards:
        raise SpecError(
            "the engine's capability manifest names no reward terms, so its Steps carry no reward",
            backend="grpc",
            hint="load a scene whose task has reward terms",
        )
    # What no legacy method tells is as luckyrobots takes it: actions within [-1, 1], a termination term called
    # "time_out" truncates, a reset costs one tick.
    robot = manifest.robot_info.name if manifest.robot_info else ""
    return BatchSpec(
        engine=robot or "legacy",
        num_envs=num_envs,
        observation=ArraySpec("float32", (schema.observation_size,)),
        action=ArraySpec("float32", (schema.action_size,), -1.0, 1.0),
        reward_terms=rewards,
        termination_terms=terminations,
        timeout_terms=tuple(name for name in terminations if name == "time_out"),
        observation_names=_names(schema.observation_names, schema.observation_size),
        action_names=_names(schema.action_names, schema.action_size),
        reset_ticks=1,
    )


def _names(names: list[str], size: int) -> tuple[str, ...]:
    """Return the names where there is one per element; a real engine names terms of several elements each."""
    return tuple(names) if len(names) == size else ()

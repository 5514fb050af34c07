"""The methods that follow from a batch spec alone: agent schema, capability manifest, task contracts.

Every engine gets these; its own `services` may replace any of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from importlib.metadata import version

from lucky_transport.engine import Handler
from lucky_transport.errors import did_you_mean
from lucky_transport.messages import (
    ActionGroupSlot,
    AgentSchema,
    ContractValidationMessage,
    ContractValidationResult,
    EngineCapabilityManifest,
    GetAgentSchemaRequest,
    GetAgentSchemaResponse,
    GetCapabilityManifestRequest,
    GetCapabilityManifestResponse,
    MdpComponentDescriptor,
    MdpRobotInfo,
    NegotiatedTaskSession,
    NegotiateTaskRequest,
    NegotiateTaskResponse,
    ObservationContract,
    ObservationSlot,
    RewardContract,
    TaskContract,
    TerminationContract,
    ValidateTaskContractRequest,
    ValidateTaskContractResponse,
)
from lucky_transport.spec.batch_spec import BatchSpec


def agent_index(spec: BatchSpec, name: str) -> int:
    """Return the env of the agent called `name` ("agent_3" -> 3, "" -> 0), or -1 when there is none."""
    if not name:
        return 0
    number = name.removeprefix("agent_")
    if number == name or not number.isdecimal() or int(number) >= spec.num_envs:
        return -1
    return int(number)


def task_handlers(spec: BatchSpec) -> Mapping[str, Handler]:
    """Return the handlers, by full method name."""

    def schema(request: GetAgentSchemaRequest) -> GetAgentSchemaResponse:
        return GetAgentSchemaResponse(_schema(spec, request.agent_name))

    def manifest(_: GetCapabilityManifestRequest) -> GetCapabilityManifestResponse:
        return GetCapabilityManifestResponse(_manifest(spec))

    def validate(request: ValidateTaskContractRequest) -> ValidateTaskContractResponse:
        return ValidateTaskContractResponse(_validate(spec, request.contract or TaskContract()))

    def negotiate(request: NegotiateTaskRequest) -> NegotiateTaskResponse:
        return _negotiate(spec, request.contract or TaskContract())

    prefix = "/hazel.rpc.AgentService/"
    return {
        prefix + "GetAgentSchema": schema,
        prefix + "GetCapabilityManifest": manifest,
        prefix + "ValidateTaskContract": validate,
        prefix + "NegotiateTask": negotiate,
    }


def _schema(spec: BatchSpec, name: str) -> AgentSchema:
    index = agent_index(spec, name)
    if index < 0:
        return AgentSchema(agent_name=name)
    return AgentSchema(
        f"agent_{index}",
        list(spec.observation_names),
        list(spec.action_names),
        spec.observation.size,
        spec.action.size,
    )


def _observation_terms(spec: BatchSpec) -> tuple[tuple[str, int], ...]:
    return spec.observation_terms or (("observation", spec.observation.size),)


def _manifest(spec: BatchSpec) -> EngineCapabilityManifest:
    def component(name: str, category: str, size: int = 1) -> MdpComponentDescriptor:
        return MdpComponentDescriptor(name=name, category=category, output_shape=[size])

    groups = spec.action_groups or (("actions", tuple(range(spec.action.size))),)
    return EngineCapabilityManifest(
        engine_version=version("lucky_transport"),
        manifest_version=1,
        observations=[component(name, "observation", size) for name, size in _observation_terms(spec)],
        actions=[component(name, "action", len(indices)) for name, indices in groups],
        rewards=[component(name, "reward") for name in spec.reward_terms],
        terminations=[component(name, "termination") for name in spec.termination_terms],
        robot_info=MdpRobotInfo(name=spec.engine, actuator_names=list(spec.action_names)),
    )


def _findings(
    component: str, asked: Iterable[str], known: Iterable[str], severity: str = "error"
) -> list[ContractValidationMessage]:
    names = list(known)
    findings: list[ContractValidationMessage] = []
    for name in asked:
        if name not in names:
            findings.append(
                ContractValidationMessage(
                    severity=severity,
                    component=component,
                    term_name=name,
                    message=f"unknown {component} term {name!r}; the engine offers: {', '.join(names) or 'none'}",
                    suggestion=did_you_mean(name, names).strip(),
                )
            )
    return findings


def _validate(spec: BatchSpec, contract: TaskContract) -> ContractValidationResult:
    observations = contract.observations or ObservationContract()
    rewards = contract.rewards or RewardContract()
    terminations = contract.terminations or TerminationContract()
    known = [name for name, _ in _observation_terms(spec)]
    optional = [term.name for term in observations.optional]
    errors = [
        *_findings("observation", (term.name for term in observations.required), known),
        *_findings("reward", (term.name for term in rewards.engine_terms), spec.reward_terms),
        *_findings("termination", (term.name for term in terminations.terms), spec.termination_terms),
    ]
    return ContractValidationResult(
        is_valid=not errors,
        negotiated_contract=contract,
        errors=errors,
        warnings=_findings("observation", optional, known, "warning"),
        resolved_optionals=[name for name in optional if name in known],
        unresolved_optionals=[name for name in optional if name not in known],
    )


def _negotiate(spec: BatchSpec, contract: TaskContract) -> NegotiateTaskResponse:
    result = _validate(spec, contract)
    if not result.is_valid:
        return NegotiateTaskResponse(False, "; ".join(_sentence(e) for e in result.errors), None, result)
    rewards = contract.rewards or RewardContract()
    terminations = contract.terminations or TerminationContract()
    session = NegotiatedTaskSession(
        session_id=f"{contract.task_id or spec.engine}-1",
        resolved_contract=contract,
        observation_layout=_layout(spec),
        reward_terms=[term.name for term in rewards.engine_terms],
        termination_terms=[term.name for term in terminations.terms],
        action_layout=[
            ActionGroupSlot(name, [spec.action_names[i] for i in at] if spec.action_names else [], list(at))
            for name, at in spec.action_groups
        ],
    )
    return NegotiateTaskResponse(True, "", session, result)


def _sentence(finding: ContractValidationMessage) -> str:
    return f"{finding.message}; {finding.suggestion}" if finding.suggestion else finding.message


def _layout(spec: BatchSpec) -> list[ObservationSlot]:
    slots: list[ObservationSlot] = []
    offset = 0
    for name, size in _observation_terms(spec):
        slots.append(ObservationSlot(name, "policy", offset, size))
        offset += size
    return slots

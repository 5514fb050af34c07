"""What an engine says exists: names, ids and settings, from which requests are made that it can answer.

Everything is asked for by typed calls; what an engine does not answer is empty, never guessed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from lucky_transport.errors import TransportError
from lucky_transport.messages import (
    CameraConfig,
    EngineCapabilityManifest,
    EntityId,
    LidarConfigResponse,
    LidarReturnParamsResponse,
    MdpParamDescriptor,
    PolicyCommandType,
)
from lucky_transport.messages.methods import method
from lucky_transport.transport import Transport


@dataclass(frozen=True, slots=True)
class Known:
    """What there is; every list may be empty.

    robots, slots: ids. commands: (slot, command id, is a number). randomizations: how each field of a
    SimulationContract may be drawn. nq, nu: values of qpos and controls; action_size: values of an agent's action.
    named: the values that a field of this name may have, of one class of messages ("RewardTermRequest.name"), of those
    about cameras ("Camera.name"), or of all ("name").
    """

    agents: Sequence[str] = ()
    action_size: int = 0
    nq: int = 0
    nu: int = 0
    robots: Sequence[int] = ()
    slots: Sequence[int] = ()
    commands: Sequence[tuple[int, int, bool]] = ()
    descriptors: Sequence[str] = ()
    camera: CameraConfig = field(default_factory=CameraConfig)
    randomizations: Mapping[str, MdpParamDescriptor] = field(default_factory=dict[str, MdpParamDescriptor])
    lidar: LidarConfigResponse = field(default_factory=LidarConfigResponse)
    returns: LidarReturnParamsResponse = field(default_factory=LidarReturnParamsResponse)
    named: Mapping[str, Sequence[Any]] = field(default_factory=dict[str, Sequence[Any]])


def take_inventory(transport: Transport) -> Known:
    """Return what the engine at the other end has; raises PeerDied and the like, never Unimplemented."""
    agents = [f"agent_{env}" for env in range(transport.spec.num_envs)]
    info = _asked(transport, "MujocoService/GetMujocoInfo")
    entities = _asked(transport, "SceneService/ListEntities").entities
    cameras = _asked(transport, "CameraService/ListCameras").cameras
    filmed = [camera.name for camera in cameras]
    config = _asked(transport, "CameraService/GetCameraConfig", None, filmed[0]).config if filmed else None
    controllers = _asked(transport, "AgentService/ListRobotControllers").controllers
    robots = [each.entity.id for each in controllers if each.entity is not None]
    slots = {slot.slot_id: slot.command_id_map for each in controllers[:1] for slot in each.slots}
    policies = _asked(transport, "AgentService/ListPolicyDescriptors").policies
    manifest = _asked(transport, "AgentService/GetCapabilityManifest").manifest or EngineCapabilityManifest()
    bases = [row.base for row in manifest.randomizations if row.base is not None]
    return Known(
        *(agents, transport.spec.action.size, info.nq, info.nu, robots, [*slots]),
        commands=[(slot, one.id, one.type == PolicyCommandType.FLOAT) for slot, ids in slots.items() for one in ids],
        descriptors=[policy.descriptor_path for policy in policies],
        camera=config or CameraConfig(),
        randomizations={name: limits for base in bases for name, limits in base.params_schema.items()},
        lidar=_asked(transport, "LidarService/GetLidarConfig"),
        returns=_asked(transport, "LidarService/GetLidarReturnParams"),
        named={
            "agent_name": ["", *agents],
            "robot_name": ["", *agents],
            "sensor": range(len(agents)),
            "joint_name": info.joint_names,
            "joint_names": info.joint_names,
            "actuator_name": info.actuator_names,
            "actuator_index": range(info.nu),
            "qpos_index": range(7, info.nq),  # the first seven are a floating base
            "id": [entity.id for entity in entities if entity.id is not None],
            "name": [entity.name for entity in entities],
            "Camera.id": [camera.id for camera in cameras if camera.id is not None],
            "Camera.name": filmed + [f"{agent}/{name}" for agent in agents[1:] for name in filmed[:1]],  # as render()
            "entity": [EntityId(robot) for robot in robots],
            "SetEntityTransformRequest.id": [EntityId(robot) for robot in robots],
            "slot_id": [*slots],
            "filter_by_slot_id": [0, *slots],
            "descriptor_path": [policy.descriptor_path for policy in policies],
            "viewport_name": _asked(transport, "ViewportService/GetViewportInfo").available_viewports,
            "RewardTermRequest.name": [term.name for term in manifest.rewards],
            "TerminationTermRequest.name": [term.name for term in manifest.terminations],
            "ObservationTermRequest.name": [term.name for term in manifest.observations],
        },
    )


def _asked(transport: Transport, name: str, *values: Any) -> Any:
    """Return the response to a method, an empty one where the engine refuses."""
    row = method(name)
    try:
        return transport.call(row, row.request(*values))
    except (ConnectionError, TimeoutError):
        raise
    except (TransportError, NotImplementedError, LookupError, ValueError):
        return row.response()

"""What an engine says exists: names, ids and settings, from which requests are made that it can answer.

Everything is asked for by typed calls; what an engine does not answer is empty, never guessed.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from lucky_transport.errors import TransportError
from lucky_transport.messages import (
    CameraConfig,
    LidarConfigResponse,
    LidarReturnParamsResponse,
    MdpParamDescriptor,
    PolicyCommandType,
)
from lucky_transport.messages.methods import method
from lucky_transport.transport import Transport

__all__ = ["Known", "take_inventory"]


@dataclass(slots=True)
class Known:
    """What there is; every list may be empty.

    entities, robots, cameras: ids. commands: (slot, command id, is a number). terms: reward, termination and
    observation terms. randomizations: how each field of a SimulationContract may be drawn. nq, nu: values of qpos and
    controls; action_size: values of an agent's action.
    """

    agents: list[str] = field(default_factory=list[str])
    action_size: int = 0
    nq: int = 0
    nu: int = 0
    joints: list[str] = field(default_factory=list[str])
    actuators: list[str] = field(default_factory=list[str])
    groups: list[str] = field(default_factory=list[str])
    entities: list[int] = field(default_factory=list[int])
    entity_names: list[str] = field(default_factory=list[str])
    robots: list[int] = field(default_factory=list[int])
    slots: list[int] = field(default_factory=list[int])
    commands: list[tuple[int, int, bool]] = field(default_factory=list[tuple[int, int, bool]])
    descriptors: list[str] = field(default_factory=list[str])
    cameras: list[int] = field(default_factory=list[int])
    camera_names: list[str] = field(default_factory=list[str])
    camera: CameraConfig = field(default_factory=CameraConfig)
    viewports: list[str] = field(default_factory=list[str])
    rewards: list[str] = field(default_factory=list[str])
    terminations: list[str] = field(default_factory=list[str])
    observations: list[str] = field(default_factory=list[str])
    randomizations: dict[str, MdpParamDescriptor] = field(default_factory=dict[str, MdpParamDescriptor])
    lidar: LidarConfigResponse = field(default_factory=LidarConfigResponse)
    returns: LidarReturnParamsResponse = field(default_factory=LidarReturnParamsResponse)


def take_inventory(transport: Transport) -> Known:
    """Return what the engine at the other end has; raises PeerDied and the like, never Unimplemented."""
    known = Known(
        agents=[f"agent_{env}" for env in range(transport.spec.num_envs)],
        action_size=transport.spec.action.size,
        groups=[name for name, _ in transport.spec.action_groups],
    )
    for look in (_model, _scene, _controllers, _task, _lidar):
        look(known, transport)
    return known


def _asked(transport: Transport, name: str, *values: Any) -> Any:
    """Return the response to a method, an empty one where the engine refuses."""
    row = method(name)
    try:
        return transport.call(row, row.request(*values))
    except (NotImplementedError, LookupError, ValueError):
        return row.response()
    except TransportError as error:
        if isinstance(error, (ConnectionError, TimeoutError)):
            raise
        return row.response()


def _model(known: Known, transport: Transport) -> None:
    info = _asked(transport, "MujocoService/GetMujocoInfo")
    known.nq, known.nu = info.nq, info.nu
    known.joints, known.actuators = info.joint_names, info.actuator_names


def _scene(known: Known, transport: Transport) -> None:
    entities = _asked(transport, "SceneService/ListEntities").entities
    known.entities = [entity.id.id for entity in entities if entity.id is not None]
    known.entity_names = [entity.name for entity in entities]
    cameras = _asked(transport, "CameraService/ListCameras").cameras
    known.cameras = [camera.id.id for camera in cameras if camera.id is not None]
    known.camera_names = [camera.name for camera in cameras]
    if known.camera_names:
        config = _asked(transport, "CameraService/GetCameraConfig", None, known.camera_names[0]).config
        known.camera = config or known.camera
        known.camera_names += [f"{agent}/{known.camera_names[0]}" for agent in known.agents[1:]]  # as render() asks
    known.viewports = _asked(transport, "ViewportService/GetViewportInfo").available_viewports


def _controllers(known: Known, transport: Transport) -> None:
    controllers = _asked(transport, "AgentService/ListRobotControllers").controllers
    known.robots = [each.entity.id for each in controllers if each.entity is not None]
    slots = [slot for each in controllers[:1] for slot in each.slots]
    known.slots = [slot.slot_id for slot in slots]
    known.commands = [
        (slot.slot_id, entry.id, entry.type == PolicyCommandType.FLOAT)
        for slot in slots
        for entry in slot.command_id_map
    ]
    policies = _asked(transport, "AgentService/ListPolicyDescriptors").policies
    known.descriptors = [policy.descriptor_path for policy in policies]


def _task(known: Known, transport: Transport) -> None:
    manifest = _asked(transport, "AgentService/GetCapabilityManifest").manifest
    if manifest is None:
        return
    known.rewards = [term.name for term in manifest.rewards]
    known.terminations = [term.name for term in manifest.terminations]
    known.observations = [term.name for term in manifest.observations]
    for row in manifest.randomizations:
        if row.base is not None:
            known.randomizations |= row.base.params_schema


def _lidar(known: Known, transport: Transport) -> None:
    known.lidar = _asked(transport, "LidarService/GetLidarConfig")
    known.returns = _asked(transport, "LidarService/GetLidarReturnParams")
